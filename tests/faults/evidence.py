"""Evidence of one run: what clients saw, what the database says, which faults there were when.

Times are seconds of this machine's clock (epoch), the same for runner and database. A run's
directory holds each list as JSON lines, so that it can be judged and read again later.
"""

import json
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, fields
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, TypeVar

Outcome = Literal["ok", "fail", "info"]
TERMINAL = ("succeeded", "cancelled", "dead")
SUBMITS = ("submit", "enqueue")


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One call of a client. `info` means unknown: it may have happened, now or later."""

    id: int
    process: int
    op: str
    args: dict[str, Any]
    began: float
    ended: float
    outcome: Outcome
    answer: dict[str, Any]

    @property
    def job_id(self) -> str | None:
        """The job it is about, as far as the client knows."""
        found = self.answer.get("job_id") or self.args.get("job_id")
        return None if found is None else str(found)

    @property
    def work(self) -> tuple[str, int | None]:
        """What makes submits the same work: kind and number."""
        return self.args.get("kind", ""), self.args.get("payload", {}).get("number")


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A job's row and payload at the end."""

    id: str
    kind: str
    state: str
    attempt: int
    max_attempts: int
    lost_leases: int
    interruptions: int
    fence: int
    checkpoint_no: int
    payload: dict[str, Any]
    company: str = "ACME"
    brand: str | None = "RED"
    group_id: str | None = None
    joins: str | None = None

    @property
    def work(self) -> tuple[str, int | None]:
        """As Call.work."""
        return self.kind, self.payload.get("number")


@dataclass(frozen=True, slots=True, kw_only=True)
class Transition:
    """One change of a job's row; a renewal of its lease is one, too."""

    n: int
    job_id: str
    old_state: str | None
    state: str
    old_fence: int | None
    fence: int
    token: str | None
    attempt: int
    max_attempts: int
    lost_leases: int
    interruptions: int
    checkpoint_no: int
    lease_expires_at: float | None
    worker_id: str | None
    at: float
    xact: int
    by_name: str = ""
    by_pid: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """One effect that a handler committed; `n` and `at` are of when it was written."""

    n: int
    job_id: str
    chunk: int
    item: str | None
    fence: int
    attempt: int
    pid: int
    at: float
    xact: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One claim, as the platform itself remembers it."""

    job_id: str
    fence: int
    attempt: int
    outcome: str | None
    worker_id: str
    claimed_checkpoint_no: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """A stored answer."""

    key: str
    job_id: str
    body: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One side of a move of money: debits are positive."""

    job_id: str
    chunk: int
    account: int
    amount: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Lock:
    """One business lock of a job; an empty part is all of the root, an empty period an open end."""

    job_id: str
    root: str
    part: str
    mode: str
    period_from: str
    period_to: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """A group's counter row at the end."""

    id: str
    state: str
    policy: str
    outcome: str | None
    generation: int
    total: int
    remaining: int
    succeeded: int
    dead: int
    cancelled: int
    join_job_id: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """No more than so many jobs may run for which each column that is given says the same."""

    kind: str | None
    company: str | None
    brand: str | None
    max_running: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """A fault and its target: "database", "sqs", "worker 2", "api 1"."""

    fault: str
    target: str
    began: float
    ended: float
    detail: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """The run itself: its times, its limits (seconds), and what stands for itself."""

    seed: int
    seconds: float
    workers: int
    postgres: int
    began: float
    ended: float
    lease: float
    idle_in_transaction: float
    reaper: float
    drained: bool
    drain_seconds: float
    outbox: int
    balances: dict[str, int]
    orders: list[tuple[int, str]]
    # Of the costing: movement or store balance → what the run stored, and what the oracle says.
    costed: dict[str, Any]
    oracle: dict[str, Any]
    limits: list[Limit] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class Evidence:
    """Everything the checker may look at."""

    facts: Facts
    calls: list[Call] = field(default_factory=list)
    jobs: list[Job] = field(default_factory=list)
    transitions: list[Transition] = field(default_factory=list)
    effects: list[Effect] = field(default_factory=list)
    attempts: list[Attempt] = field(default_factory=list)
    keys: list[Key] = field(default_factory=list)
    entries: list[Entry] = field(default_factory=list)
    locks: list[Lock] = field(default_factory=list)
    groups: list[Group] = field(default_factory=list)
    windows: list[Window] = field(default_factory=list)

    def save(self, home: Path) -> None:
        """Write every list to a file of its own."""
        (home / "facts.json").write_text(json.dumps(asdict(self.facts), indent=1))
        for name in LISTS:
            lines = (json.dumps(asdict(each), ensure_ascii=False) for each in getattr(self, name))
            (home / f"{name}.jsonl").write_text("".join(f"{line}\n" for line in lines))


LISTS: dict[str, type[Any]] = {
    "calls": Call,
    "jobs": Job,
    "transitions": Transition,
    "effects": Effect,
    "attempts": Attempt,
    "keys": Key,
    "entries": Entry,
    "locks": Lock,
    "groups": Group,
    "windows": Window,
}


def load_evidence(home: Path) -> Evidence:
    """Read back what save() has written."""
    facts = json.loads((home / "facts.json").read_text())
    facts["orders"] = [(number, job_id) for number, job_id in facts["orders"]]
    facts["limits"] = [Limit(**each) for each in facts["limits"]]
    lists: dict[str, Any] = {}
    for name, kind in LISTS.items():
        lines = (home / f"{name}.jsonl").read_text().splitlines()
        lists[name] = [kind(**json.loads(line)) for line in lines]
    return Evidence(facts=Facts(**facts), **lists)


T = TypeVar("T")


class Ordered:
    """The evidence, put in order once for all checks."""

    def __init__(self, evidence: Evidence) -> None:
        self.evidence = evidence
        self.facts = evidence.facts

    @cached_property
    def jobs(self) -> dict[str, Job]:
        """Jobs by id."""
        return {job.id: job for job in self.evidence.jobs}

    @cached_property
    def transitions(self) -> dict[str, list[Transition]]:
        """Each job's transitions in the order they were committed."""
        return _by_job(sorted(self.evidence.transitions, key=lambda each: each.n))

    @cached_property
    def effects(self) -> dict[str, list[Effect]]:
        """Each job's effects in the order they were committed, those of one commit as written."""
        return _by_job(sorted(self.evidence.effects, key=self._place))

    def _place(self, effect: Effect) -> tuple[float, int]:
        fenced = self.commit_of(effect)
        return (float("inf") if fenced is None else fenced.n, effect.n)

    def commit_of(self, effect: Effect) -> Transition | None:
        """The last transition of its job in the transaction that wrote it: the fence, or None."""
        return self._commits.get((effect.job_id, effect.xact))

    @cached_property
    def _commits(self) -> dict[tuple[str, int], Transition]:
        ordered = sorted(self.evidence.transitions, key=lambda each: each.n)
        return {(each.job_id, each.xact): each for each in ordered}

    @cached_property
    def attempts(self) -> dict[str, list[Attempt]]:
        """Each job's attempts by fence."""
        return _by_job(sorted(self.evidence.attempts, key=lambda each: each.fence))

    @cached_property
    def locks(self) -> dict[str, list[Lock]]:
        """Each locked job's locks."""
        return _by_job(self.evidence.locks)

    @cached_property
    def members(self) -> dict[str, list[Job]]:
        """The jobs that are members of each group."""
        return _by(self.evidence.jobs, "group_id")

    @cached_property
    def joins(self) -> dict[str, list[Job]]:
        """The joins that each group has had."""
        return _by(self.evidence.jobs, "joins")

    @cached_property
    def submits(self) -> list[Call]:
        """Every call that may have made a job."""
        return [call for call in self.evidence.calls if call.op in SUBMITS]

    def calls(self, op: str, *outcomes: Outcome) -> list[Call]:
        """Calls of one kind that ended so."""
        return [c for c in self.evidence.calls if c.op == op and c.outcome in outcomes]


def _by_job(rows: Iterable[T]) -> dict[str, list[T]]:
    return _by(rows, "job_id")


def _by(rows: Iterable[T], column: str) -> dict[str, list[T]]:
    """Rows by this column, in their order; those where it is None are left out."""
    found: dict[str, list[T]] = defaultdict(list)
    for row in rows:
        if (value := getattr(row, column)) is not None:
            found[value].append(row)
    return found


def columns_of(kind: type[Any]) -> list[str]:
    """The names of a list's columns, as the database queries must give them."""
    return [each.name for each in fields(kind)]
