"""Documents off the ledger, some hundreds in the caller's transaction.

Each is judged on what is locked: its own row, those of the cost documents that hang on it, and the
gates of the days that the reversals are of. Locks in the order of posting (worker.records.posting):
documents, gates, series, the job's row; nobody waits for a document.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from typing import Any

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from worker.records.posting import LOCK, Poster
from worker.records.posting_list import Listed, Outcome
from worker.records.reversals import Standing, standing_entries, take_back

# Whatever is in its way, in this order; the first is the outcome of the document.
CODES = (
    "NOT_FOUND",
    "WRONG_COMPANY",
    "WRONG_BRAND",
    "ALREADY_REVERSED",
    "VERSION_CHANGED",
    "VOID",
    "NEVER_POSTED",
    "HAS_DEPENDANT",
    "PERIOD_CLOSED",
    "PERIOD_UNKNOWN",
    "REVERSED_TOO_EARLY",
)
# What makes every other question idle.
STOPS = frozenset(CODES[: CODES.index("HAS_DEPENDANT")])
Fault = tuple[str, str]
MOST_DETAIL = 1_000
# Of what hangs on a document so many are named.
MOST_NAMED = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Unposter:
    """Who unposts, on which day (None: that of each entry), and why.

    With `costs` a cost document of one slip alone is reversed with it.
    """

    poster: Poster
    day: date | None
    costs: bool
    reason: str


@dataclass(slots=True, kw_only=True)
class Facts:
    """What is known of a chunk, all of it by then locked or behind a gate."""

    heads: Mapping[int, Any]
    entries: Mapping[int, list[Standing]]
    costs: Mapping[int, list[Any]]
    referring: Mapping[int, list[Any]]
    listed: Collection[int]
    periods: Mapping[date, str | None] = field(default_factory=dict)


DEPENDANTS = text("""
    SELECT c.document_id, c.cost_document_id, c.alone, d.doc_no
      FROM books.cost_dependants(CAST(:company AS text), CAST(:ids AS bigint[])) c
     CROSS JOIN LATERAL (SELECT d.doc_no FROM books.documents d
                          WHERE d.id = c.cost_document_id OFFSET 0) d
     ORDER BY c.document_id, c.cost_document_id""")
HEADS = text("""
    SELECT w.n, w.id, w.listed, d.company, d.brand, d.type, d.status, d.version, d.posting_date,
           d.posted_version IS NOT NULL AS was_posted
      FROM unnest(CAST(:ids AS bigint[]), CAST(:versions AS integer[]))
           WITH ORDINALITY AS w (id, listed, n)
      LEFT JOIN LATERAL (SELECT d.* FROM books.documents d
                          WHERE d.id = w.id AND w.listed IS NOT NULL OFFSET 0) d ON true
     ORDER BY w.n""")
# Whatever is posted and was made of it: a return of a sale, the cash for it.
REFERRING = text("""
    SELECT r.ref_document_id, r.id, r.type, r.doc_no FROM books.documents r
     WHERE r.ref_document_id = ANY (CAST(:ids AS bigint[])) AND r.status = 'posted'
     ORDER BY r.id""")
LISTED = text("""
    SELECT i.document_id FROM books.posting_items i
     WHERE i.job_id = CAST(:job_id AS uuid) AND i.document_id = ANY (CAST(:ids AS bigint[]))""")
# Days of closed periods are no gates to pass: their documents are told so by their verdict.
PASS_GATES = text("""
    SELECT books.pass_gates(CAST(:company AS text), ARRAY(
        SELECT day FROM unnest(CAST(:days AS date[])) AS day
         WHERE EXISTS (SELECT FROM books.periods p
                        WHERE p.company = :company AND p.status = 'open'
                          AND day BETWEEN p.starts_on AND p.ends_on)))""")
PERIODS = text("""
    SELECT w.day, p.period, p.status FROM unnest(CAST(:days AS date[])) AS w (day)
      LEFT JOIN LATERAL (SELECT p.period, p.status FROM books.periods p
                          WHERE p.company = :company
                            AND w.day BETWEEN p.starts_on AND p.ends_on LIMIT 1) p ON true""")


async def unpost_documents(
    conn: AsyncConnection, unposter: Unposter, listed: Sequence[Listed]
) -> tuple[list[Outcome], int]:
    """Unpost these documents; what became of each, and how many are held by others.

    A document is taken back with the cost documents that hang on it, or not at all. A driver's
    error CH101 or CH102 (GATE_REFUSALS) when a period was closed at this very moment: roll back
    and begin again.
    """
    free, facts = await _held(conn, unposter, listed)
    if not free:
        return [], len(listed)
    days = {day for each in free for day in _days(each.document_id, unposter, facts)}
    scope = {"company": unposter.poster.company, "days": sorted(days)}
    await conn.execute(PASS_GATES, scope)
    # A new statement: what waited at the gate would still see the periods as they were.
    rows = (await conn.execute(PERIODS, scope)).all()
    facts.periods = {row.day: row.status if row.status == "open" else row.period for row in rows}
    verdicts = judge_all(free, unposter, facts)
    reversals = await _reverse(conn, unposter, facts, verdicts)
    outcomes = [_outcome(each, verdicts[each.document_id], facts, reversals) for each in free]
    return outcomes, len(listed) - len(free)


async def _held(
    conn: AsyncConnection, unposter: Unposter, listed: Sequence[Listed]
) -> tuple[list[Listed], Facts]:
    """The documents that are locked now with all that hangs on them, and what is known of them."""
    company = unposter.poster.company
    there = [each.document_id for each in listed if each.version is not None]
    asked = {"company": company, "ids": there}
    before = (await conn.execute(DEPENDANTS, asked)).all()
    wanted = {*there, *(row.cost_document_id for row in before)}
    held = set((await conn.scalars(LOCK, {"ids": list(wanted)})).all())
    # Looked at again: what hung on them a moment ago may be gone, or another.
    costs = _grouped((await conn.execute(DEPENDANTS, asked)).all(), "document_id")
    free = [
        each
        for each in listed
        if each.version is None
        or {each.document_id, *(row.cost_document_id for row in costs[each.document_id])} <= held
    ]
    ids = [each.document_id for each in free]
    versions = [each.version for each in free]
    heads = (await conn.execute(HEADS, {"ids": ids, "versions": versions})).all()
    costly = {row.cost_document_id for each in ids for row in costs[each]}
    referring = (await conn.execute(REFERRING, {"ids": ids})).all()
    job = {"job_id": unposter.poster.job_id, "ids": list(costly)}
    return free, Facts(
        heads={row.id: row for row in heads},
        entries=_grouped(await standing_entries(conn, [*ids, *costly]), "document_id"),
        costs=costs,
        referring=_grouped(referring, "ref_document_id"),
        listed=set((await conn.scalars(LISTED, job)).all()) if costly else set(),
    )


def _grouped(rows: Iterable[Any], name: str) -> dict[int, list[Any]]:
    found: dict[int, list[Any]] = defaultdict(list)
    for row in rows:
        found[getattr(row, name)].append(row)
    return found


def _with_costs(document_id: int, facts: Facts) -> list[int]:
    return [document_id, *(row.cost_document_id for row in facts.costs.get(document_id, ()))]


def _days(document_id: int, unposter: Unposter, facts: Facts) -> set[date]:
    """The days that the reversals of a document and its costs would be of."""
    head = facts.heads[document_id]
    if head.status != "posted":
        return set()
    if unposter.day is not None:
        return {unposter.day}
    days = {
        entry.posting_date
        for each in _with_costs(document_id, facts)
        for entry in facts.entries.get(each, ())
    }
    return days or {head.posting_date}


def judge_all(listed: Sequence[Listed], unposter: Unposter, facts: Facts) -> dict[int, list[Fault]]:
    """All that is in the way of each document, in the order of CODES.

    Whatever refers to a document must be off the ledger, or be taken off with it now.
    """
    found = {each.document_id: _judge(each, unposter, facts) for each in listed}
    good = {document_id for document_id, faults in found.items() if not faults}
    while kept := {document_id for document_id in good if _left(document_id, facts, good)}:
        good -= kept
    for document_id, faults in found.items():
        left = _left(document_id, facts, good)
        if left and not (faults and faults[0][0] in STOPS):
            faults.append(_referred(left))
        faults.sort(key=lambda fault: CODES.index(fault[0]))
    return found


def _left(document_id: int, facts: Facts, good: Collection[int]) -> list[Any]:
    return [row for row in facts.referring.get(document_id, ()) if row.id not in good]


def _judge(listed: Listed, unposter: Unposter, facts: Facts) -> list[Fault]:
    stop = _stop(listed, unposter, facts)
    if stop is not None:
        return [stop]
    document_id = listed.document_id
    return [
        *_cost_faults(document_id, unposter, facts),
        *_day_faults(document_id, unposter, facts),
    ]


def _stop(listed: Listed, unposter: Unposter, facts: Facts) -> Fault | None:
    head = facts.heads[listed.document_id]
    brand = unposter.poster.brand
    if head.company is None:
        return "NOT_FOUND", "there is no such document"
    if head.company != unposter.poster.company:
        return "WRONG_COMPANY", "it is another company's"
    if brand is not None and not _is_of(brand, listed.document_id, facts):
        return "WRONG_BRAND", (
            f"it, an entry of it or its costs are not of brand {brand} alone; a job of the whole "
            "company may unpost it"
        )
    if head.status != "posted":
        return _not_posted(head)
    if head.version != listed.version:
        return "VERSION_CHANGED", (
            f"it is posted as version {head.version}, version {listed.version} was to be unposted; "
            "look at it and unpost it again"
        )
    return None


def _is_of(brand: str, document_id: int, facts: Facts) -> bool:
    brands = {facts.heads[document_id].brand}
    for each in _with_costs(document_id, facts):
        for entry in facts.entries.get(each, ()):
            brands.update(entry.brands)
    return brands == {brand}


def _not_posted(head: Any) -> Fault:
    if head.was_posted:
        return "ALREADY_REVERSED", f"it is {head.status}, version {head.version}"
    if head.status == "void":
        return "VOID", "it has been voided, and never was posted"
    return "NEVER_POSTED", f"it is a draft (version {head.version}) that was never posted"


def _cost_faults(document_id: int, unposter: Unposter, facts: Facts) -> Iterable[Fault]:
    left = [
        row
        for row in facts.costs.get(document_id, ())
        if row.cost_document_id not in facts.listed and not (unposter.costs and row.alone)
    ]
    if not left:
        return
    numbers = _some(row.doc_no for row in left)
    if all(row.alone for row in left):
        how = 'ask again with dependants "reverse"'
    else:
        ids = _some(str(row.cost_document_id) for row in left)
        how = (
            f"it holds those of others, too: name it (id {ids}) in the same job, and post the "
            "costs of the period again"
        )
    yield "HAS_DEPENDANT", f"its costs are in the ledger by {numbers}; {how}"


def _referred(left: Sequence[Any]) -> Fault:
    named = _some(f"{row.type} {row.doc_no} (id {row.id})" for row in left)
    return "HAS_DEPENDANT", f"posted documents refer to it: {named}; unpost them first or with it"


def _some(names: Iterable[str]) -> str:
    found = list(names)
    more = f" and {len(found) - MOST_NAMED} more" if len(found) > MOST_NAMED else ""
    return ", ".join(found[:MOST_NAMED]) + more


def _day_faults(document_id: int, unposter: Unposter, facts: Facts) -> Iterable[Fault]:
    day = unposter.day
    for each in sorted(_days(document_id, unposter, facts)):
        period = facts.periods[each]
        if period is None:
            yield "PERIOD_UNKNOWN", f"no period of the company holds {each}"
        elif period != "open":
            how = "give reversal_date, a day of an open period" if day is None else "give another"
            yield "PERIOD_CLOSED", f"period {period}, which holds {each}, is not open; {how}"
    latest = max(
        (
            entry.posting_date
            for each in _with_costs(document_id, facts)
            for entry in facts.entries.get(each, ())
        ),
        default=None,
    )
    if day is not None and latest is not None and day < latest:
        yield "REVERSED_TOO_EARLY", f"reversal_date {day} is before {latest}, the day of its entry"


async def _reverse(
    conn: AsyncConnection,
    unposter: Unposter,
    facts: Facts,
    verdicts: Mapping[int, Sequence[Fault]],
) -> dict[int, int]:
    good = [document_id for document_id, faults in verdicts.items() if not faults]
    together = sorted({each for document_id in good for each in _with_costs(document_id, facts)})
    entries = {
        entry.entry_id: unposter.day or entry.posting_date
        for each in together
        for entry in facts.entries.get(each, ())
    }
    poster = unposter.poster
    return await take_back(
        conn,
        together,
        entries,
        company=poster.company,
        job_id=poster.job_id,
        fence=poster.fence,
        memo=unposter.reason,
    )


def _outcome(
    listed: Listed, faults: Sequence[Fault], facts: Facts, reversals: Mapping[int, int]
) -> Outcome:
    own = facts.entries.get(listed.document_id, ())
    told = Outcome(
        seq=listed.seq,
        success="REVERSED",
        codes=list(dict.fromkeys(code for code, _ in faults)),
        detail="; ".join(f"{code}: {said}" for code, said in faults)[:MOST_DETAIL],
    )
    if faults:
        return told
    if not own:
        return replace(told, detail="without an entry: it had none")
    return replace(told, entry_id=reversals[own[0].entry_id])
