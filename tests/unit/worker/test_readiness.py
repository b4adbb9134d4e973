"""Readiness: what has not answered for three periods, by a clock that the test moves."""

from pathlib import Path
from time import monotonic
from typing import Any

import pytest
from structlog.testing import capture_logs

from shared.types import WorkerId
from worker import liveness, readiness
from worker.liveness import READY_STALE_SECONDS, main, readiness_path
from worker.presence import Presence, QueuePresence
from worker.readiness import Readiness

BEAT, POLL = 2.0, 4.0


class Slot:
    """What readiness asks of a lease."""

    def __init__(self, stopped: str | None = None) -> None:
        self.stopped = stopped


class Worker:
    """A worker's readiness, its queue, and the time."""

    def __init__(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        monkeypatch.setattr(readiness, "monotonic", lambda: self.now)
        self.queue = QueuePresence(2, 2, free_since=self.now, received_at=self.now)
        presence = Presence(
            worker_id=WorkerId("w"),
            host="h",
            pid=1,
            code_version="v",
            kinds={},
            queues={"default": self.queue},
        )
        self.presence = presence
        self.readiness = Readiness(path, presence, beat_seconds=BEAT, poll_seconds=POLL)
        self.answered_at = self.now

    def why_not(self, *held: Any) -> str | None:
        """What it says now."""
        return self.readiness.why_not(self.now, self.answered_at, held)

    def wait(self, seconds: float, *but: str) -> None:
        """Time passes; all but these answer all the while."""
        self.now += seconds
        if "database" not in but:
            self.readiness.beaten()
        if "loop" not in but:
            self.answered_at = self.now
        if "sqs" not in but:
            self.queue.received_at = self.now


@pytest.fixture
def worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Worker:
    """A worker that has just started."""
    return Worker(tmp_path / "alive-ready", monkeypatch)


@pytest.mark.scenario("F52")
@pytest.mark.parametrize(
    ("silent", "period", "said"),
    [("database", BEAT, "database"), ("loop", BEAT, "loop"), ("sqs", POLL, "queue default")],
)
def test_what_is_silent_is_told_after_three_periods(
    worker: Worker, silent: str, period: float, said: str
) -> None:
    """Not before, whatever else is well; and no longer once it has answered."""
    worker.wait(3 * period, silent)
    assert worker.why_not() is None
    worker.wait(0.1, silent)
    assert said in str(worker.why_not())
    worker.wait(0.1)
    assert worker.why_not() is None


def test_a_worker_without_a_free_slot_owes_no_receive(worker: Worker) -> None:
    """It asks SQS for nothing; its time begins when a slot is free again."""
    worker.queue.set_free(0)
    worker.wait(100 * POLL, "sqs")
    assert worker.why_not(Slot(), Slot()) is None
    worker.queue.set_free(1)
    worker.queue.free_since = worker.now
    worker.wait(3 * POLL, "sqs")
    assert worker.why_not(Slot()) is None
    worker.wait(0.1, "sqs")
    assert "SQS" in str(worker.why_not(Slot()))


@pytest.mark.scenario("F52")
def test_a_worker_whose_every_slot_is_stopped_is_stuck(worker: Worker) -> None:
    """One that still works is enough to be well."""
    worker.queue.set_free(0)
    assert worker.why_not(Slot("timeout"), Slot()) is None
    assert worker.why_not(Slot("timeout"), Slot("expired")) == "every slot is stuck"


def test_it_is_told_once_and_once_when_it_is_over(worker: Worker) -> None:
    """An alert a silence, not one a look; a worker that drains is not ready, and no alarm."""
    with capture_logs() as lines:
        for _ in range(5):
            worker.wait(3 * BEAT, "database")
            worker.readiness.tell(worker.now, worker.answered_at, ())
        worker.wait(0)
        worker.readiness.tell(worker.now, worker.answered_at, ())
    assert [line["event"] for line in lines] == ["worker.not_ready", "worker.ready"]


def test_the_file_is_fresh_for_as_long_as_it_is_ready(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`python -m worker.liveness --ready` looks at the file beside the liveness file."""
    alive = tmp_path / "alive"
    monkeypatch.setenv("CHOT_LIVENESS_FILE", str(alive))
    assert readiness_path(str(alive)) == tmp_path / "alive-ready"
    assert main(["--ready"]) == 1
    worker = Worker(readiness_path(str(alive)), monkeypatch)
    worker.readiness.tell(worker.now, worker.answered_at, ())
    assert main(["--ready"]) == 0
    assert "ready" in capsys.readouterr().err
    later = monotonic() + READY_STALE_SECONDS + 1
    monkeypatch.setattr(liveness, "monotonic", lambda: later)
    assert main(["--ready"]) == 1
    worker.presence.state = "draining"
    worker.readiness.tell(worker.now, worker.answered_at, ())
    assert main(["--ready"]) == 1
