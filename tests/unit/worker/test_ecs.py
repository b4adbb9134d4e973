"""Protection from scale-in: asked for in time, armed again, switched off, and never in the way."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from time import monotonic
from typing import Any

import pytest
from structlog.testing import capture_logs

from tests.agent_stand_in import Agent, How, open_agent
from worker import ecs
from worker.ecs import Protection, Refused, agent_uri, refuse_failure, task_name

LINGER = 0.3


@pytest.fixture
def agent() -> Iterator[Agent]:
    """A stand-in of the ECS agent."""
    with open_agent() as opened:
        yield opened


class Work:
    """Whether jobs run."""

    def __init__(self) -> None:
        self.runs = False

    def __call__(self) -> bool:
        return self.runs


def protection(agent: Agent, work: Work, *, lease: float = 30) -> Protection:
    """The protection of a worker with this lease."""
    return Protection(agent.agent_uri, lease=lease, linger=LINGER, busy=work)


@asynccontextmanager
async def running(guard: Protection) -> AsyncIterator[None]:
    """Let it run as the heartbeat's thread does, and leave in order."""
    task = asyncio.create_task(guard.run_forever())
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        await guard.leave()


async def until(condition: Callable[[], Any], seconds: float = 5) -> None:
    """Return once the condition holds."""
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110 - another thread's state
            await asyncio.sleep(0.01)


async def test_a_task_is_protected_while_a_job_runs_and_not_after(agent: Agent) -> None:
    """On before the job, on while it runs, off once idle; the agent understood every word."""
    work = Work()
    guard = protection(agent, work)
    async with running(guard):
        await guard.arm()
        assert agent.protected, "armed before the job has begun"
        work.runs = True
        await asyncio.sleep(2 * LINGER)
        assert agent.protected
        assert len(agent.puts) == 1, "armed once, not at every look"
        work.runs = False
        await until(lambda: not agent.protected and not guard.settled)
    assert [(each.enabled, each.minutes) for each in agent.puts] == [(True, 1), (False, None)]
    assert agent.malformed == []


async def test_an_idle_worker_never_asks(agent: Agent) -> None:
    """A task that does nothing may be scaled in, and says nothing."""
    async with running(protection(agent, Work())):
        await asyncio.sleep(2 * LINGER)
    assert agent.puts == []


async def test_a_job_that_follows_at_once_keeps_the_protection(agent: Agent) -> None:
    """Short jobs one after another do not switch it on and off: ECS throttles those calls."""
    work = Work()
    guard = protection(agent, work)
    async with running(guard):
        for _ in range(5):
            await guard.arm()
            work.runs = True
            await asyncio.sleep(0.02)
            work.runs = False
            await asyncio.sleep(LINGER / 3)
        assert [each.enabled for each in agent.puts] == [True]


@pytest.mark.parametrize(("lease", "minutes"), [(3, 1), (30, 1), (31, 2), (300, 10), (3600, 120)])
async def test_the_expiry_is_two_leases_in_whole_minutes(
    agent: Agent, lease: float, minutes: int
) -> None:
    """A task that hangs blocks a deployment for minutes, not for two days."""
    guard = protection(agent, Work(), lease=lease)
    await guard.arm()
    assert agent.puts[0].minutes == minutes
    await guard.leave()


async def test_it_is_armed_again_long_before_it_expires(
    agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At a third of the expiry, as long as jobs run."""
    clock = Clock(monkeypatch)
    work = Work()
    guard = protection(agent, work)
    work.runs = True
    async with running(guard):
        await until(lambda: guard.settled and agent.protected)
        clock.forward(19)
        await asyncio.sleep(0.3)
        assert len(agent.puts) == 1
        clock.forward(2)
        await until(lambda: len(agent.puts) == 2)
        assert all(each.enabled for each in agent.puts)


class Clock:
    """The monotonic clock as `worker.ecs` reads it: it stands until a test sets it forward."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._now = 1000.0
        monkeypatch.setattr(ecs, "monotonic", lambda: self._now)

    def forward(self, seconds: float) -> None:
        """Let so much time pass at once."""
        self._now += seconds


FAILURES: tuple[tuple[How, str], ...] = (
    ("not a service", "HTTP 200 failure TASK_NOT_VALID"),
    ("deployment blocked", "HTTP 200 failure DEPLOYMENT_BLOCKED"),
    ("no role", "HTTP 403 error AccessDeniedException"),
    ("unknown task", "HTTP 404 error ResourceNotFoundException"),
    ("throttled", "HTTP 400 error ThrottlingException"),
    ("no json", "HTTP 200 without JSON"),
    ("no object", "HTTP 200 without an object"),
    ("empty", "HTTP 200 without a protection"),
    ("other way", "asked for True, told False"),
)


@pytest.mark.parametrize(("how", "said"), FAILURES)
async def test_a_refusal_is_said_once_counted_and_harmless(
    agent: Agent, monkeypatch: pytest.MonkeyPatch, how: How, said: str
) -> None:
    """The body decides, not the code; it is asked again after a pause, and told when it works."""
    clock = Clock(monkeypatch)
    agent.how = how
    work = Work()
    guard = protection(agent, work)
    with capture_logs() as logs:
        async with running(guard):
            await guard.arm()
            work.runs = True
            assert guard.settled, "the next job does not wait for what was refused just now"
            await asyncio.sleep(0.3)
            assert guard.failures == 1, "it is not asked again at once"
            for failures in (2, 3):
                clock.forward(60)
                await until(lambda wanted=failures: guard.failures >= wanted)  # type: ignore[misc] # a default binds it
            agent.how = "works"
            clock.forward(60)
            await until(lambda: agent.protected and guard.settled)
    failed = [line for line in logs if line["event"] == "protection.failed"]
    assert len(failed) == 1, "one line for one state, however often it was asked"
    assert said in failed[0]["error"]
    assert next(line["on"] for line in logs if line["event"] == "protection.set") is True


async def test_an_agent_that_is_slow_or_gone_costs_a_bounded_wait(
    agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its own 504 after four seconds is heard; one that never answers is given up."""
    guard = protection(agent, Work())
    agent.how = "slow"
    began = monotonic()
    with capture_logs() as logs:
        await guard.arm()
    assert 3.5 < monotonic() - began < ecs.CALL_SECONDS + 1
    assert "RequestCanceled" in logs[0]["error"]
    agent.how = "black hole"
    monkeypatch.setattr(ecs, "LEAVE_SECONDS", 0.2)
    began = monotonic()
    await guard.leave()
    assert monotonic() - began < 1, "leaving does not wait for it"


async def test_an_agent_that_refuses_connections_is_a_failure_like_another() -> None:
    """Nobody listens: said, counted, no exception."""
    with open_agent() as agent:
        uri = agent.agent_uri
    guard = Protection(uri, lease=30, linger=LINGER, busy=lambda: True)
    with capture_logs() as logs:
        await guard.arm()
    assert guard.failures == 1
    assert logs[0]["event"] == "protection.failed"
    await guard.leave()


async def test_a_lost_answer_counts_as_perhaps_protected(agent: Agent) -> None:
    """It was refused or it was not: an idle worker switches it off in any case."""
    agent.how = "no json"
    guard = protection(agent, Work())
    await guard.arm()
    agent.how = "works"
    await guard.leave()
    assert [each.enabled for each in agent.puts] == [True, False]


@pytest.mark.parametrize(
    ("status", "content"),
    [
        (200, b'{"failure": {"Reason": "X"}, "protection": {"ProtectionEnabled": true}}'),
        (200, b'{"error": {}, "protection": {"ProtectionEnabled": true}}'),
        (500, b'{"protection": {"ProtectionEnabled": true}}'),
        (200, b'{"protection": {"ProtectionEnabled": "true"}}'),
        (200, b"\xff"),
    ],
)
def test_only_the_whole_success_is_one(status: int, content: bytes) -> None:
    """Whatever else stands in the answer, a failure beside a success is a failure."""
    with pytest.raises(Refused):
        refuse_failure(status, content, on=True)
    refuse_failure(200, b'{"protection": {"ProtectionEnabled": true, "TaskArn": "a"}}', on=True)


def test_a_worker_on_ecs_is_named_after_its_task(
    agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tail of the TaskARN; elsewhere, and without an answer, the host's name is taken."""
    monkeypatch.delenv("ECS_AGENT_URI", raising=False)
    monkeypatch.delenv("ECS_CONTAINER_METADATA_URI_V4", raising=False)
    assert (agent_uri(), task_name()) == (None, None)
    monkeypatch.setenv("ECS_AGENT_URI", agent.agent_uri)
    monkeypatch.setenv("ECS_CONTAINER_METADATA_URI_V4", agent.metadata_uri)
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    assert agent_uri() == agent.agent_uri
    assert task_name() == "0f1e2d3c4b5a69788796a5b4c3d2e1f0"
    monkeypatch.setattr(ecs, "METADATA_SECONDS", 0.2)
    silent: tuple[How, ...] = ("unknown task", "black hole")
    for how in silent:
        agent.how = how
        with capture_logs() as logs:
            assert task_name() is None
        assert logs[0]["event"] == "ecs.no_metadata"
