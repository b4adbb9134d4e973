from datetime import timedelta
from typing import Any

import pytest

from shared.cli import run, show
from shared.cli.progress import headline
from shared.lock_words import locked
from tests.unit.cli.conftest import Peer, job


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (None, ""),
        ("plain", "plain"),
        ({"code": "TIMEOUT", "message": "ran longer than 5 s"}, "TIMEOUT: ran longer than 5 s"),
        ({"code": "CLOSED", "message": "CLOSED: 2026-01 is closed"}, "CLOSED: 2026-01 is closed"),
        ({"type": "KeyError", "message": ""}, "KeyError"),
        (
            {
                "type": "KeyError",
                "code": "FAILED",
                "message": "'x'",
                "where": ["worker/attempt.py:9 run", "mine.py:10 error"],
            },
            "FAILED: KeyError: 'x' (mine.py:10 error)",
        ),
        (
            {
                "type": "ProgrammingError",
                "code": "42P01",
                "message": "no table",
                "where": ["mine.py:10 error", "postgresql/asyncpg.py:797 _handle"],
            },
            "42P01: ProgrammingError: no table (mine.py:10 error)",
        ),
        ({"type": "PermanentError", "code": "PERMANENT", "message": "no"}, "PERMANENT: no"),
        (
            {
                "type": "PermanentError",
                "code": "PAYLOAD_INVALID",
                "message": "is not one of k",
                "details": {"errors": [{"field": "extra", "rule": "not permitted"}]},
                "where": ["worker/attempt.py:9 run"],
            },
            "PAYLOAD_INVALID: is not one of k (extra: not permitted)",
        ),
    ],
)
def test_an_error_is_one_line_with_its_code_once(error: Any, said: str) -> None:
    """Of an error that nobody meant: type and place; of any other: what was written for people."""
    assert show.reason(error) == said
    assert ("mine.py" in show.where(error)) == ("mine.py" in said)


def test_a_job_that_waits_takes_no_time() -> None:
    """A released job has a start and no end; what passes until its next attempt is no work."""
    times = {"started_at": "2026-01-01T00:00:00Z", "finished_at": None}
    assert show.took_of(job("pending", **times)) == ""
    assert show.took_of(job("running", **times)) != ""
    assert (
        show.took_of(
            job("dead", started_at=times["started_at"], finished_at="2026-01-01T00:00:02Z")
        )
        == "2.0 s"
    )


def test_when_a_job_may_begin_is_told_only_while_it_waits(
    peer: Peer, capsys: pytest.CaptureFixture[str]
) -> None:
    """An ended job's last backoff is nobody's business; a job of next Christmas is no surprise."""
    later, earlier = "2190-12-24T12:00:00Z", "2026-01-01T00:00:00Z"
    for state, available, told in (
        ("pending", later, True),
        ("pending", earlier, False),
        ("running", later, False),
        ("dead", later, False),
    ):
        shown = job(state, available_at=available, progress=None)
        assert ("not before 2190-12-2" in headline(shown)) is told
        peer.script = [(200, shown, {})]
        assert run(["status", "0190-job"]) == 0
        assert ("not before" in capsys.readouterr().out) is told
        peer.script = [(200, {"jobs": [shown], "next_cursor": None}, {})]
        assert run(["list"]) == 0
        assert ("not before 2190-12-2" in capsys.readouterr().out) is told


@pytest.mark.parametrize(
    ("seconds", "said"), [(3.44, "3.4 s"), (725, "12 min 05 s"), (7_380, "2 h 03 min")]
)
def test_a_duration_reads_as_a_person_says_it(seconds: float, said: str) -> None:
    assert show.duration(timedelta(seconds=seconds)) == said


@pytest.mark.parametrize(
    ("progress", "said"),
    [
        (None, ""),
        ({"done": 1200, "total": None, "unit": "rows"}, "1,200 rows"),
        ({"done": 1199, "total": 1200, "unit": "rows"}, "1,199/1,200 rows (99%)"),
    ],
)
def test_progress_is_never_rounded_up_to_done(progress: Any, said: str) -> None:
    """A job that says 100% has nothing left to do."""
    assert show.progress({"progress": progress}) == said


def test_a_job_says_who_submitted_it(peer: Peer, capsys: pytest.CaptureFixture[str]) -> None:
    """By the word that `chot list --submitter` takes."""
    peer.say(200, job("pending", principal="shop-app"))
    assert run(["status", "0190-job"]) == 0
    assert "submitter   shop-app\n" in capsys.readouterr().out


def test_a_job_says_its_group_and_what_it_locks(
    peer: Peer, capsys: pytest.CaptureFixture[str]
) -> None:
    """A job may be a member of one group and the join of another; what it has not is not said."""
    lock = {"root": "books/ACME", "part": None, "mode": "exclusive"}
    store = {"root": "stock", "part": "7", "mode": "shared", "period_from": None, "period_to": None}
    locks = [lock | {"period_from": "2026-08", "period_to": None}, store]
    peer.say(200, job("pending", group="the-group", joins="its-members", locks=locks))
    assert run(["status", "0190-job"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "group       the-group" in lines
    assert "join of     its-members" in lines
    assert "locks       books/ACME from 2026-08 on (exclusive); stock, part 7 (shared)" in lines
    peer.script = [(200, job("pending", group=None, joins=None, locks=[]), {})]
    assert run(["status", "0190-job"]) == 0
    assert {"group", "join", "locks"}.isdisjoint(capsys.readouterr().out.split())


@pytest.mark.parametrize(
    ("since", "until", "said"),
    [
        (None, None, "r"),
        ("2026-08", None, "r from 2026-08 on"),
        (None, "2026-08", "r up to 2026-08"),
        ("2026-08", "2026-09", "r from 2026-08 to 2026-09"),
        ("2026-08", "2026-08", "r of 2026-08"),
    ],
)
def test_a_range_of_periods_is_words(since: str | None, until: str | None, said: str) -> None:
    """Both ends included; an open one is said as one."""
    assert locked("r", None, since, until) == said


def test_a_long_error_is_whole_once_however_many_attempts_had_it(
    peer: Peer, capsys: pytest.CaptureFixture[str]
) -> None:
    """Six times five hundred characters say less than one time; none is lost."""
    same, other = ({"code": "X", "message": f"{word}\n{'m' * 500} end"} for word in ("no", "other"))
    attempts = [
        {"attempt": number, "fence": number, "outcome": "failed", "error": error}
        for number, error in enumerate([same, other, same, other, same], 1)
    ]
    peer.say(200, job("dead", error=same, attempts=attempts))
    assert run(["status", "0190-job"]) == 0
    shown = capsys.readouterr().out
    assert shown.count("end\n") == 2
    assert shown.count("X: no…\n") == 3
    assert f"attempt 2   X: other\\n{'m' * 500} end\n" in shown


def test_a_redriven_job_says_who_did_it_and_what_it_has_used_since(
    peer: Peer, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its budget comes on top: "4 of 8" alone would read as a limit of eight."""
    begun = ["2026-01-01T00:00:01Z", "2026-01-01T00:00:02Z", "2026-01-01T00:01:01.5Z"]
    last = {"at": "2026-01-01T00:01:00Z", "by": "ops", "approver": "controller"}
    attempts = [{"attempt": n, "fence": n, "started_at": at} for n, at in enumerate(begun, 1)]
    more: dict[str, Any] = {"attempt": 3, "max_attempts": 7, "attempts": attempts}
    peer.say(200, job("running", redriven=last, **more))
    assert run(["status", "0190-job"]) == 0
    shown = capsys.readouterr().out
    assert "attempts    3 of 7 in all, 1 begun since the redrive\n" in shown
    assert " by ops, approved by controller\n" in shown
    peer.script = [(200, job("running", redriven=None, **more), {})]
    assert run(["status", "0190-job"]) == 0
    assert "attempts    3 of 7\n" in capsys.readouterr().out


def test_what_cost_no_attempt_does_not_count_against_the_budget(
    peer: Peer, capsys: pytest.CaptureFixture[str]
) -> None:
    """Four claims of a job that may fail three times read as one too many: "4 of 3"."""
    peer.say(200, job("pending", attempt=6, max_attempts=3, lost_leases=4, interruptions=1))
    assert run(["status", "0190-job"]) == 0
    shown = capsys.readouterr().out
    assert "attempts    1 of 3, 4 lost with their worker, 1 handed back\n" in shown
