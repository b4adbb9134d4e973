"""Offload: a real child process that can be killed, knows no secrets and dies with its parent."""

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NoReturn
from uuid import uuid4

import pytest

from shared.errors import RetryableError
from shared.types import ClaimedJob, Fence, JobId, Lease, LeaseToken
from worker.lease import HeldLease
from worker.offload import Child, ChildDied


def held_lease() -> HeldLease:
    """A lease that nobody took and nobody renews."""
    job_id = JobId(uuid4())
    job = ClaimedJob(
        id=job_id,
        kind="probe.write",
        company="ACME",
        brand=None,
        queue="default",
        payload=None,
        payload_version=1,
        attempt=1,
        max_attempts=5,
        principal="test",
        trace=None,
        created_at=datetime(2026, 1, 1, tzinfo=UTC),
    )
    lease = Lease(job_id=job_id, fence=Fence(1), token=LeaseToken(uuid4()))
    return HeldLease(
        lease=lease, job=job, deadline=float("inf"), checkpoint_no=0, charged_attempts=1
    )


@pytest.fixture
async def child() -> AsyncIterator[Child]:
    """The child of one attempt, ended with the test."""
    mine = Child(held_lease())
    yield mine
    await mine.kill()


def add(one: int, two: int) -> int:
    """Something to compute."""
    return one + two


def my_pid() -> int:
    """Who computes."""
    return os.getpid()


def my_environment() -> dict[str, str]:
    """What the child knows."""
    return dict(os.environ)


def say_and_return(words: str) -> str:
    """Prints, as numeric code does."""
    print(words, flush=True)  # noqa: T201 - the point
    os.write(1, words.encode())
    return words


def fail(message: str) -> NoReturn:
    """Raises something that a pickle can carry."""
    raise LookupError(message)


class OddError(Exception):
    """Pickles, and does not come back."""

    def __init__(self, one: object, *, two: object) -> None:
        super().__init__(one, two)


def fail_oddly() -> NoReturn:
    """Raises something that a pickle cannot carry."""
    raise OddError(1, two=2)


def leave(code: int) -> NoReturn:
    """Ends without an answer."""
    os._exit(code)


def kill_myself() -> None:
    """What the kernel does to a process that takes too much memory."""
    os.kill(os.getpid(), 9)


def nap(seconds: float) -> float:
    """Busy for a while."""
    time.sleep(seconds)
    return seconds


def large(count: int) -> bytes:
    """An answer larger than a pipe's buffer."""
    return b"x" * count


async def began(child: Child) -> None:
    """Return once a call has begun."""
    while not child._busy.locked():  # noqa: ASYNC110 - a lock tells nobody that it was taken
        await asyncio.sleep(0)


def lives(pid: int) -> bool:
    """Whether there is such a process."""
    return Path(f"/proc/{pid}").exists()


async def test_a_function_runs_in_another_process(child: Child) -> None:
    """One child an attempt, used again by the next call."""
    assert await child.call(add, 1, 2) == 3
    first = await child.call(my_pid)
    assert first != os.getpid()
    assert await child.call(my_pid) == first


async def test_large_arguments_and_answers_pass(child: Child) -> None:
    """Ten megabytes each way, exactly."""
    assert await child.call(len, b"x" * 10_000_000) == 10_000_000
    assert await child.call(large, 10_000_000) == b"x" * 10_000_000


async def test_a_child_knows_no_way_to_the_database(
    child: Child, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No effect beside the fence: neither URL nor key is in its environment."""
    for name in ("CHOT_DATABASE_URL", "CHOT_TOKEN", "AWS_SECRET_ACCESS_KEY", "PGPASSWORD"):
        monkeypatch.setenv(name, "secret")
    monkeypatch.setenv("CHOT_HANDLER_MODULES", "tests.probes.handlers")
    found = await child.call(my_environment)
    assert "secret" not in found.values()
    assert found["CHOT_HANDLER_MODULES"] == "tests.probes.handlers"


async def test_what_a_function_prints_is_no_answer(child: Child, capfd: Any) -> None:
    """It goes to the log; the answer's pipe is not touched by it."""
    assert await child.call(say_and_return, "hello") == "hello"
    await child.kill()
    assert capfd.readouterr().err.count("hello") == 2


async def test_what_a_function_raises_is_raised_here(child: Child) -> None:
    """With its type where a pickle can carry it, with its words where not; the child lives on."""
    with pytest.raises(LookupError, match="not there"):
        await child.call(fail, "not there")
    with pytest.raises(RuntimeError, match="OddError"):
        await child.call(fail_oddly)
    assert await child.call(add, 1, 2) == 3


@pytest.mark.parametrize(
    ("function", "argument", "word"),
    [(leave, (9,), "code 9"), (kill_myself, (), "out of memory")],
)
async def test_a_child_that_dies_is_a_retryable_error(
    child: Child, function: Any, argument: tuple[Any, ...], word: str
) -> None:
    """It says how it ended; the next call has a new one."""
    with pytest.raises(ChildDied, match=word) as caught:
        await child.call(function, *argument)
    assert isinstance(caught.value, RetryableError)
    assert await child.call(add, 1, 2) == 3


async def test_a_cancelled_call_kills_the_child(child: Child) -> None:
    """Nothing goes on computing for an attempt that has ended."""
    pid = await child.call(my_pid)
    calling = asyncio.create_task(child.call(nap, 60))
    await began(child)
    calling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await calling
    assert not lives(pid)


async def test_a_stopped_lease_kills_its_child(child: Child) -> None:
    """From the heartbeat's thread: the pid stands in the lease."""
    pid = await child.call(my_pid)
    assert child._held.children == {pid}
    calling = asyncio.create_task(child.call(nap, 60))
    await began(child)
    await asyncio.to_thread(child._held.stop, "expired", "told to")
    with pytest.raises(ChildDied, match="SIGKILL"):
        await calling


PARENT = """
import asyncio, os, sys
from tests.unit.worker.test_offload import held_lease, my_pid, nap
from worker.offload import Child

async def main():
    child = Child(held_lease())
    print(await child.call(my_pid), flush=True)
    asyncio.get_running_loop().call_later(0.2, os._exit, 9)
    await child.call(nap, 60)

asyncio.run(main())
"""


def test_a_child_dies_with_its_parent() -> None:
    """Even while it is computing, and however suddenly the parent went."""
    parent = subprocess.run(
        [sys.executable, "-c", PARENT],
        cwd=Path(__file__).parents[3],
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )
    assert parent.returncode == 9, parent.stderr
    pid, until = int(parent.stdout), time.monotonic() + 5
    while lives(pid) and time.monotonic() < until:
        time.sleep(0.02)
    assert not lives(pid)
