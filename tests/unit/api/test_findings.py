"""What the overview says is wrong: what the alerts call somebody for, and no false alarm."""

from collections.abc import Mapping
from typing import Any

import pytest

from api.ui.browser import Browser
from api.ui.overview import Overview
from api.ui.pages import environment, helpers
from shared.jobs.crew import Crew
from shared.jobs.minutes import History

COUNTS: dict[str, Any] = {
    **dict.fromkeys(("outbox_due", "outbox_lag_seconds", "outbox_stuck_seconds"), 0),
    **dict.fromkeys(("quarantined", "dead_messages"), 0),
    "starved": {},
    "unserved": [],
}
IDLE = dict.fromkeys(("pending", "due", "running", "dead"), 0)
QUEUE = {**IDLE, "name": "default", "paused": False, "alone_worker": None}


def overview(counts: Mapping[str, Any] | None, *, waited: float | None = None) -> Overview:
    """Of one queue and one worker alive."""
    return Overview(
        queues=[QUEUE | {"oldest_due_seconds": waited}],
        crew=Crew(
            groups=[{"state": "working", "code_version": "v", "workers": 1, "slots": 4, "free": 4}],
            notable=[],
        ),
        kinds=[],
        freezes=[],
        counts=counts,
        alerts=None if counts is None else [],
        history=History(began=0, step=60, levels={}, ended={}),
        rates={},
        due_seconds=900.0,
    )


def keys(seen: Overview) -> set[str]:
    return {each.key.removeprefix("overview.") for each in seen.findings}


@pytest.mark.parametrize(
    ("counts", "found"),
    [
        ({}, set()),
        ({"outbox_due": 3, "outbox_lag_seconds": 600.0}, set()),
        ({"outbox_stuck_seconds": None}, set()),
        ({"outbox_stuck_seconds": 61.0}, {"outbox_late"}),
        ({"starved": {"default": 901.0}}, {"starved"}),
        ({"unserved": [{"kind": "stock.count", "jobs": 2}]}, {"unserved"}),
    ],
)
def test_what_is_found(counts: Mapping[str, Any], found: set[str]) -> None:
    """Messages that a paused queue or a limit keeps are no reason to look at SQS."""
    assert keys(overview({**COUNTS, **counts})) == found


def test_what_an_operator_has_stopped_starves_by_his_will() -> None:
    """Books frozen for an hour are told as frozen. A scope without counts is told all that waits."""
    seen = overview(COUNTS, waited=3600.0)
    assert (keys(seen), seen.starving) == (set(), False)
    narrow = overview(None, waited=3600.0)
    assert (keys(narrow), narrow.starving) == ({"starved"}, True)


def test_an_error_that_nobody_meant_has_its_type_on_the_page() -> None:
    """As `chot status` has it: the message of a KeyError is a key."""
    browser = Browser(language="en", theme="auto", chosen=(), path="/ui/jobs", query=())
    template = environment().get_template("job_error.html", globals=helpers(browser))
    error = {"code": "FAILED", "type": "KeyError", "message": "'store 17'"}
    assert "<strong>KeyError</strong>" in template.render(error=error)
    coded = {"code": "CLOSED", "type": "X", "message": "CLOSED: it is closed"}
    assert (
        '<strong>CLOSED</strong> <span class="message" lang="en">it is closed<'
        in template.render(error=coded)
    )
    assert "PermanentError" not in template.render(error=error | {"type": "PermanentError"})
