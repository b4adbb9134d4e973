"""`make demo`: one costing job, killed half-way with kill -9, finished by another worker.

Everything it prints was read from this run's database and API. Exit code 0 means that each proof
held, and that nothing is left running.
"""

import argparse
import asyncio
import json
import os
import sys
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from shutil import rmtree
from time import monotonic
from typing import Any
from uuid import UUID

import asyncpg

from dev.demo_proof import Proof, prove
from dev.demo_screen import DemoScreen
from dev.demo_takeover import Takeover, kill_owner
from dev.postgres import remove_data
from dev.processes import StartFailed, is_listening
from dev.sample_company import DEFAULT_MOVEMENTS, DEFAULT_PERIOD, load_sample
from dev.stack import Stack
from dev.stack_config import StackConfig
from shared.cli.exits import Failure
from shared.cli.http import Api
from shared.cli.progress import screen
from shared.cli.wait import follow
from shared.database import open_engine

LONGEST_SECONDS = 300.0
# So that nobody waits half a minute for a lease to run out; the rest is as in production.
SHORTENED = {
    "CHOT_LEASE_SECONDS": "3",
    "CHOT_HEARTBEAT_SECONDS": "0.8",
    "CHOT_REAPER_SECONDS": "0.5",
    "CHOT_DRAIN_SECONDS": "5",
    "CHOT_POLL_SECONDS": "1",
}
CHUNKS = 40
RETRY_SECONDS = 5.0  # an api on this machine is there, or the demo is being stopped
# Where the owner is killed; a machine so quick that the job ended first gets another job.
KILL_AT = (0.5, 0.3, 0.1)


class DemoFailed(Exception):
    """A step or a proof did not hold; the text says which."""


FAILURES = (DemoFailed, StartFailed, Failure, TimeoutError)


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What was asked for on the command line."""

    movements: int
    seed: int
    as_json: bool


def main() -> None:
    """Run the demo; 0 when every proof held, 1 with a sentence when one did not."""
    parser = argparse.ArgumentParser(prog="python -m dev.demo", description=main.__doc__)
    parser.add_argument("--movements", type=int, default=DEFAULT_MOVEMENTS)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--json", action="store_true", dest="as_json", help="one JSON document")
    options = Options(**vars(parser.parse_args()))
    if options.movements < 1_000:
        parser.error("--movements must be at least 1000, or there is nothing to kill half-way")
    code = 0
    try:
        asyncio.run(_run(options))
    except* FAILURES as failures:
        code = 1
        print(f"demo: {_first(failures)}", file=sys.stderr)
    except* KeyboardInterrupt:
        code = 130
    sys.exit(code)


def _first(failures: BaseExceptionGroup[Exception]) -> Exception:
    """The failure itself, out of the groups that tasks wrap it in."""
    inner = failures.exceptions[0]
    return _first(inner) if isinstance(inner, BaseExceptionGroup) else inner


async def _run(options: Options) -> None:
    began = monotonic()
    tell = DemoScreen(as_json=options.as_json)
    tell.title(lease=SHORTENED["CHOT_LEASE_SECONDS"])
    with _home() as home:
        async with asyncio.timeout(LONGEST_SECONDS):
            async with Stack(_config(home), say=tell.step) as stack:
                pids = _pids(stack)
                story = await _story(stack, options, tell)
                tell.step("stopping")
            _assert_all_gone(stack, pids)
    seconds = round(monotonic() - began, 1)
    tell.end(seconds=seconds, processes=len(pids))
    if options.as_json:
        print(json.dumps(story | {"seconds": seconds}, ensure_ascii=False, default=str, indent=2))


@contextmanager
def _home() -> Iterator[Path]:
    """A directory for data and logs; the logs stay where a failure has to be looked into."""
    home = Path(tempfile.mkdtemp(prefix="chot-demo-"))
    home.chmod(0o755)  # as root, PostgreSQL runs under an account of its own
    failed = False
    try:
        yield home
    except (*FAILURES, ExceptionGroup):
        failed = True
        print(f"demo: the logs are in {home / 'logs'}", file=sys.stderr)
        raise
    finally:
        remove_data(home / "postgres")
        if not failed:
            rmtree(home, ignore_errors=True)


def _config(home: Path) -> StackConfig:
    return StackConfig(home=home, workers=2, apis=1, supervise=False, env=SHORTENED)


async def _story(stack: Stack, options: Options, tell: DemoScreen) -> dict[str, Any]:
    urls = stack.backing.urls
    sample = await load_sample(urls.app, seed=options.seed, movements=options.movements)
    tell.company(sample)
    os.environ |= {"CHOT_API_URL": stack.api_url, "CHOT_TOKEN": stack.config.token}
    conn = await asyncpg.connect(urls.superuser)
    try:
        await conn.execute("ANALYZE")  # as autovacuum would within the next minute
        job, takeover = await _job_with_takeover(Scene(stack, conn, options, tell), sample.company)
    finally:
        await conn.close()
    proof = await _read_proof(urls.read, UUID(job["id"]))
    tell.result(job, takeover, proof)
    _refuse_unproven(job, takeover, proof)
    return {
        "sample": asdict(sample),
        "job": job,
        "takeover": takeover.as_json(),
        "proof": proof.as_json(),
    }


async def _read_proof(url: str, job_id: UUID) -> Proof:
    engine = open_engine(url, pool_size=1, application_name="chot demo")
    try:
        async with engine.connect() as conn:
            return await prove(conn, job_id)
    finally:
        await engine.dispose()


@dataclass(frozen=True, slots=True)
class Scene:
    """Where the demo plays."""

    stack: Stack
    conn: asyncpg.Connection
    options: Options
    tell: DemoScreen


async def _job_with_takeover(scene: Scene, company: str) -> tuple[dict[str, Any], Takeover]:
    for share in KILL_AT:
        job, takeover = await _run_one(scene, company, share)
        if job["state"] != "succeeded":
            raise DemoFailed(f"the job is {job['state']}: {job['error']}")
        if takeover is not None:
            return job, takeover
        scene.tell.step("the job ended before its owner could be killed; once more")
        _restart_dead(scene.stack)
    raise DemoFailed("this machine is too quick for so few movements: try a larger --movements")


async def _run_one(
    scene: Scene, company: str, share: float
) -> tuple[dict[str, Any], Takeover | None]:
    """Submit a job, kill its owner at `share`, follow it to its end."""
    chunk = max(1, scene.options.movements // CHUNKS)
    payload = {"period": DEFAULT_PERIOD, "chunk_movements": chunk}
    body = json.dumps({"kind": "costing.run", "company": company, "payload": payload})
    key = {"Idempotency-Key": str(uuid.uuid4())}
    with Api(retry_for=RETRY_SECONDS) as api:
        answer = await asyncio.to_thread(api.post, "/v1/jobs", body, key)
        job_id = str(answer.body["id"])
        scene.tell.submitted(answer.status, answer.body)
        with screen() as shown:
            workers = scene.stack.workers
            killing = kill_owner(scene.conn, UUID(job_id), workers, at_share=share, say=shown.say)
            following = asyncio.to_thread(follow, api, job_id, shown, timeout=LONGEST_SECONDS)
            async with asyncio.TaskGroup() as tasks:
                killed = tasks.create_task(killing, name="kill the owner")
                ended = tasks.create_task(following, name="follow the job")
    return ended.result(), killed.result()


def _restart_dead(stack: Stack) -> None:
    for worker in stack.workers:
        if not worker.alive:
            worker.restart()


def _refuse_unproven(job: dict[str, Any], takeover: Takeover, proof: Proof) -> None:
    outcomes = [attempt["outcome"] for attempt in job["attempts"]]
    if outcomes != ["lost_lease", "succeeded"]:
        raise DemoFailed(f"the attempts should be lost_lease, succeeded; they are {outcomes}")
    if takeover.taken.fence <= takeover.killed.fence:
        raise DemoFailed("the fence did not grow with the takeover")
    if takeover.taken.worker_id == takeover.killed.worker_id:
        raise DemoFailed("the killed worker took its own job over")
    if proof.failures:
        raise DemoFailed("; ".join(proof.failures))


def _pids(stack: Stack) -> dict[str, int]:
    backing = stack.backing
    assert backing.postgres is not None, "the demo starts its own PostgreSQL"
    assert backing.sqs is not None, "the demo starts its own SQS emulator"
    servers = {"postgres": backing.postgres.child.pid, "sqs": backing.sqs.child.pid}
    return servers | {member.name: member.pid for member in stack.members}


def _assert_all_gone(stack: Stack, pids: dict[str, int]) -> None:
    """Look: each process we started has ended, each port is closed."""
    left = [name for name, pid in pids.items() if _exists(pid)]
    left += [f"port {api.port}" for api in stack.apis if api.port and is_listening(api.port)]
    if left:
        raise DemoFailed(f"still running: {', '.join(left)}")


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


if __name__ == "__main__":
    main()
