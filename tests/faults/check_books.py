"""Checks of the books: debit = credit, and a costing that equals the oracle's."""

from collections import Counter, defaultdict

from tests.faults.evidence import Ordered
from tests.faults.schema import ACCOUNTS, OPENING_BALANCE
from tests.faults.violations import Found

SHOWN = 5


def debit_equals_credit(seen: Ordered) -> Found:
    """Each move has two sides that cancel out, and each account is the sum of its entries."""
    sides: dict[tuple[str, int], list[int]] = defaultdict(list)
    booked: Counter[str] = Counter()
    for entry in seen.evidence.entries:
        sides[entry.job_id, entry.chunk].append(entry.amount)
        booked[str(entry.account)] += entry.amount
    for (job_id, chunk), amounts in sides.items():
        if len(amounts) != 2 or sum(amounts) != 0:
            yield job_id, f"chunk {chunk} has the entries {amounts}"
    for account, balance in seen.facts.balances.items():
        if balance != OPENING_BALANCE + booked[account]:
            yield None, f"account {account} holds {balance}, its entries say otherwise"
    written = {(e.job_id, e.chunk) for e in seen.evidence.effects if _moves(seen, e.job_id)}
    for job_id, chunk in written ^ set(sides):
        yield job_id, f"chunk {chunk} has an effect without its entries, or entries without it"


def _moves(seen: Ordered, job_id: str) -> bool:
    job = seen.jobs.get(job_id)
    return job is not None and job.kind == "fault.move"


def every_read_of_the_books_balances(seen: Ordered) -> Found:
    """Whoever looked at all accounts at once saw the money that there is."""
    for call in seen.calls("read_balances", "ok"):
        if call.answer["total"] != ACCOUNTS * OPENING_BALANCE:
            yield None, f"call {call.id} saw a total of {call.answer['total']}"


def costing_equals_the_oracle(seen: Ordered) -> Found:
    """Line by line and store by store, what the jobs stored is what one thread computes."""
    stored, wanted = seen.facts.costed, seen.facts.oracle
    wrong = [name for name in stored.keys() | wanted.keys() if stored.get(name) != wanted.get(name)]
    for name in sorted(wrong)[:SHOWN]:
        text = f"{name} is {stored.get(name)}, the oracle says {wanted.get(name)}"
        yield None, f"{text} ({len(wrong)} such)"


BOOK_CHECKS = (debit_equals_credit, every_read_of_the_books_balances, costing_equals_the_oracle)
