"""A month end: four brands, mixed kinds, conflicting periods, workers that are killed.

Every job ends; no two with conflicting locks ever run beside each other; each brand waits for its
own share, not for the others' backlog; /why says what is so; limits hold, joins run once.
"""

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from tests.fleet import Fleet
from tests.scenarios.month_end import MonthEnd
from tests.scenarios.month_plan import Plan
from tests.scenarios.month_report import Report, lines
from tests.scenarios.month_truth import expected_reasons

# Three are killed or stopped, and no more: a worker takes as long to start as half of the jobs do.
LITTLE = Plan(jobs=400, lease=3.0, kill_every=3, most_kills=3, samples_every=0.1, deadline=150)
# The issue's own size. An hour is what a busy machine with two cores may take.
WHOLE = Plan(jobs=20_000, lease=3.0)


async def run(plan: Plan, engine: AsyncEngine, fleet: Fleet) -> Report:
    """The month end with this test's own database and queues; its report is printed."""
    report = await MonthEnd(plan, engine, fleet.database.superuser_url, fleet).run()
    print("\n".join(lines(report)))  # noqa: T201 - the numbers of a run are its result
    return report


@pytest.mark.alone
@pytest.mark.scenario("F60")
async def test_a_little_month_end_keeps_every_promise(probes: AsyncEngine, fleet: Fleet) -> None:
    report = await run(LITTLE, probes, fleet)
    assert report.broken == []
    assert sum(report.states.values()) == LITTLE.jobs
    assert report.kills.total() >= 1, "somebody was killed"
    compared = report.agreement.compared
    assert sum(compared.values()) >= 20, "/why was asked, and compared where nothing moved"
    assert {"lock-held", "lock-reserved"} & set(compared), (
        "it was asked of some that wait for locks"
    )


@pytest.mark.long
@pytest.mark.alone
@pytest.mark.scenario("F60")
async def test_a_whole_month_end_keeps_every_promise(probes: AsyncEngine, fleet: Fleet) -> None:
    """20,000 jobs, three workers of six slots, one of them killed or stopped every 20 s."""
    report = await run(WHOLE, probes, fleet)
    assert report.broken == []
    assert sum(report.states.values()) == WHOLE.jobs
    assert report.kills.total() >= 5
    assert {"lock-held", "lock-reserved", "window-full"} <= set(report.agreement.compared)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({}, "delivery"),
        ({"staged": True}, "window-full"),
        ({"staged": True, "limited": True}, "limit-reached"),
        ({"kind_full": True, "limited": True}, "kind-maximum"),
        ({"waiters": frozenset("w"), "kind_full": True}, "lock-reserved"),
        ({"waiters": frozenset("w"), "holders": frozenset("h")}, "lock-held"),
        ({"joins": True, "staged": True}, "group-open"),
        ({"due": False, "holders": frozenset("h")}, "backoff"),
        ({"state": "running"}, "running"),
        ({"state": "dead"}, "dead"),
    ],
)
def test_what_is_true_allows_one_reason_only(changes: dict[str, object], reason: str) -> None:
    """The comparison can fail: of each truth one group of reasons is right, all others are wrong."""
    plain = {"state": "pending", "due": True, "holders": frozenset(), "waiters": frozenset()}
    flags = dict.fromkeys(("alone", "staged", "stops", "joins", "kind_full", "limited"), False)
    expected = expected_reasons(plain | flags | changes)
    assert reason in expected
    others = {"delivery", "window-full", "limit-reached", "kind-maximum", "lock-reserved",
              "lock-held", "group-open", "backoff", "running", "dead"}  # fmt: skip
    assert expected & others == {reason}
