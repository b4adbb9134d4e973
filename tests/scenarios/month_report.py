"""What a month end has shown: promises that were broken, and each brand's waiting."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import asyncpg

from tests.faults import check_fences, check_groups, check_liveness, check_locks
from tests.faults.collect import QUERIES, READ_LIMITS, parsed
from tests.faults.evidence import LISTS, TERMINAL, Evidence, Limit, Ordered
from tests.faults.sound import facts
from tests.faults.violations import Check
from tests.scenarios.month_plan import BRANDS, PLACES, Plan
from tests.scenarios.month_truth import Agreement

CHECKS: tuple[Check, ...] = (
    check_fences.only_legal_transitions,
    check_fences.fences_grow_by_claims,
    check_fences.attempts_tell_the_same,
    check_fences.no_effect_under_an_older_fence,
    check_liveness.no_two_owners_at_once,
    check_locks.no_two_holders,
    check_locks.limits_are_never_exceeded,
    check_groups.groups_end,
    check_groups.group_counters_are_true,
    check_groups.the_join_runs_once_when_all_have_ended,
)
READ_WAITS = """
    SELECT coalesce(brand, '-') AS brand, state, extract(epoch FROM created_at)::float8 AS created,
           extract(epoch FROM started_at)::float8 AS started,
           extract(epoch FROM finished_at)::float8 AS finished, kind
      FROM chot.jobs WHERE kind LIKE 'month.%'"""
# What a killed worker and two cores may cost anybody.
SLACK_SECONDS = 20.0
# A brand gets its share where it can use it; locks of its own books make it wait for itself.
SLACK_FACTOR = 1.5
# A place of a limit is had again after the job, the relay, a message and a claim.
TURN_SECONDS = 1.5


@dataclass(frozen=True, slots=True)
class Waiting:
    """One brand: how many jobs, how long they waited for their start, and how long they might."""

    brand: str
    jobs: int
    p50: float
    p95: float
    longest: float
    bound: float
    per_second: float


@dataclass(slots=True)
class Report:
    """All of it."""

    plan: Plan
    seconds: float
    waits: list[Waiting]
    states: dict[str, int]
    agreement: Agreement
    kills: Counter[str]
    taken_over: int
    violations: list[str] = field(default_factory=list)

    @property
    def broken(self) -> list[str]:
        """Every promise that did not hold."""
        late = [
            f"{each.brand} waited {each.longest:.0f} s; its share allows {each.bound:.0f} s"
            for each in self.waits
            if each.longest > each.bound
        ]
        open_ones = {state: n for state, n in self.states.items() if state not in TERMINAL}
        never = [f"not all ended: {open_ones}"] if open_ones else []
        return [*self.violations, *late, *never, *self.agreement.wrong]


async def read_evidence(connection: asyncpg.Connection) -> Evidence:
    """What the fault suite's checks look at, of jobs alone: there are no faulty calls here."""
    lists: dict[str, list[Any]] = {}
    for name in ("jobs", "transitions", "effects", "attempts", "locks", "groups"):
        rows = [dict(row) for row in await connection.fetch(QUERIES[name])]
        if name == "jobs":
            rows = [row | {"payload": parsed(row["payload"])} for row in rows]
        lists[name] = [LISTS[name](**row) for row in rows]
    limits = [Limit(**dict(row)) for row in await connection.fetch(READ_LIMITS)]
    return Evidence(facts=facts(limits=limits), **lists)


def violations(evidence: Evidence) -> list[str]:
    """What the checks find, and an effect that is not there exactly once."""
    seen = Ordered(evidence)
    found = [
        f"{check.__name__}: {job_id or ''} {text}"
        for check in CHECKS
        for job_id, text in check(seen)
    ]
    written = Counter(effect.job_id for effect in evidence.effects)
    return found + [
        f"{job.id} is {job.state} with {written[job.id]} effects"
        for job in evidence.jobs
        if written[job.id] != (job.state == "succeeded")
    ]


async def waits_of(connection: asyncpg.Connection) -> tuple[list[Waiting], float, dict[str, int]]:
    """Each brand's waiting, how long all of it took, and how the jobs ended."""
    rows = await connection.fetch(READ_WAITS)
    began = min(row["created"] for row in rows)
    ended = max(row["finished"] or began for row in rows)
    pace = len(rows) / (ended - began)
    waits = [
        _waiting(brand, [row for row in rows if row["brand"] == brand], pace) for brand in BRANDS
    ]
    return waits, ended - began, dict(Counter(row["state"] for row in rows))


def _waiting(brand: str, rows: Sequence[Any], pace: float) -> Waiting:
    """The bound: the brand alone, at its share of what all together got done, and some slack.

    The others' backlog is not in it. Where a limit leaves a brand few places, these are its share. A
    join waits for its group, which is no waiting of its own.
    """
    waits = sorted(
        row["started"] - row["created"]
        for row in rows
        if row["started"] is not None and row["kind"] != "month.sum"
    )
    share = min(pace / len(BRANDS), PLACES.get(brand, len(rows)) / TURN_SECONDS)
    lasted = max(row["finished"] for row in rows) - min(row["created"] for row in rows)
    return Waiting(
        brand=brand,
        jobs=len(rows),
        p50=waits[len(waits) // 2],
        p95=waits[len(waits) * 95 // 100],
        longest=waits[-1],
        bound=SLACK_FACTOR * len(rows) / share + SLACK_SECONDS,
        per_second=len(rows) / lasted,
    )


def lines(report: Report) -> Iterator[str]:
    """The report, as people read it."""
    plan = report.plan
    yield f"month end: {plan.jobs:,} jobs, {plan.workers} workers of {plan.slots} slots, seed {plan.seed}"
    yield f"took {report.seconds:.0f} s, {plan.jobs / report.seconds:.0f} jobs/s; ended: {report.states}"
    killed = ", ".join(f"{n} × {what}" for what, n in sorted(report.kills.items())) or "none"
    yield f"kills: {killed}; {report.taken_over} leases lost"
    yield f"{'brand':<6}{'jobs':>8}{'p50 s':>9}{'p95 s':>9}{'max s':>9}{'bound s':>9}{'jobs/s':>8}"
    for each in report.waits:
        yield (
            f"{each.brand:<6}{each.jobs:>8,}{each.p50:>9.1f}{each.p95:>9.1f}{each.longest:>9.1f}"
            f"{each.bound:>9.0f}{each.per_second:>8.1f}"
        )
    told = report.agreement
    compared = ", ".join(f"{reason} {n}" for reason, n in sorted(told.compared.items()))
    yield f"/why: asked {told.asked}, compared {sum(told.compared.values())} ({compared})"
    yield f"conflicts, broken limits, joins, fences, effects: {len(report.violations)}"
    yield from (f"BROKEN  {each}" for each in report.broken[:30])
    yield "held" if not report.broken else f"{len(report.broken)} promises were broken"
