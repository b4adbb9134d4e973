"""Start-up: refuse what can never work (exit 78), wait for what is not there yet."""

import asyncio
import resource
import subprocess
import sys

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from dev.sqs import QueueAttributes, ensure_queues
from tests.factories import eventually, make_job
from tests.fleet import Fleet, log_lines
from tests.journeys.looking import reached, said
from tests.services import Database, migrate
from tests.sqs_proxy import SqsProxy
from tests.tcp_proxy import Proxy

EX_CONFIG = 78
REFUSE_SECONDS = 5.0
LONGEST_SECONDS = 30.0
UNSET = "(unset)"

# Scenario F07 and semantics.md §8: what is set, and what the message must name.
REFUSED: dict[str, tuple[dict[str, str], tuple[str, ...]]] = {
    "heartbeat = lease": (
        {"CHOT_HEARTBEAT_SECONDS": "3"},
        ("CHOT_HEARTBEAT_SECONDS=3", "CHOT_LEASE_SECONDS=3"),
    ),
    "heartbeat > lease": (
        {"CHOT_HEARTBEAT_SECONDS": "5"},
        ("CHOT_HEARTBEAT_SECONDS=5", "CHOT_LEASE_SECONDS=3"),
    ),
    "heartbeat = 0.9 lease": (
        {"CHOT_HEARTBEAT_SECONDS": "2.7"},
        ("CHOT_HEARTBEAT_SECONDS=2.7", "CHOT_LEASE_SECONDS=3"),
    ),
    "heartbeat = 0": ({"CHOT_HEARTBEAT_SECONDS": "0"}, ("CHOT_HEARTBEAT_SECONDS='0'",)),
    "heartbeat < 0": ({"CHOT_HEARTBEAT_SECONDS": "-1"}, ("CHOT_HEARTBEAT_SECONDS='-1'",)),
    "lease no number": ({"CHOT_LEASE_SECONDS": "abc"}, ("CHOT_LEASE_SECONDS='abc'",)),
    "lease not finite": ({"CHOT_LEASE_SECONDS": "nan"}, ("CHOT_LEASE_SECONDS",)),
    "visibility < lease": (
        {"CHOT_VISIBILITY_SECONDS": "2", "CHOT_HEARTBEAT_SECONDS": "0.5"},
        ("CHOT_VISIBILITY_SECONDS=2", "CHOT_LEASE_SECONDS=3"),
    ),
    "heartbeat too slow for visibility": (
        {"CHOT_VISIBILITY_SECONDS": "2"},
        ("CHOT_HEARTBEAT_SECONDS=0.75", "CHOT_VISIBILITY_SECONDS=2"),
    ),
    "heartbeat = visibility": (
        {
            "CHOT_LEASE_SECONDS": "6",
            "CHOT_VISIBILITY_SECONDS": "5",
            "CHOT_HEARTBEAT_SECONDS": "5",
        },
        ("CHOT_HEARTBEAT_SECONDS=5", "CHOT_VISIBILITY_SECONDS=5"),
    ),
    "lease unset": (
        {
            "CHOT_LEASE_SECONDS": UNSET,
            "CHOT_VISIBILITY_SECONDS": UNSET,
            "CHOT_HEARTBEAT_SECONDS": "10",
        },
        ("CHOT_HEARTBEAT_SECONDS=10", "CHOT_LEASE_SECONDS=30"),
    ),
    "visibility fractional": (
        {"CHOT_VISIBILITY_SECONDS": "6.5"},
        ("CHOT_VISIBILITY_SECONDS", "whole seconds"),
    ),
    "margin eats the lease": (
        {"CHOT_MARGIN_SECONDS": "2.5"},
        ("CHOT_HEARTBEAT_SECONDS", "CHOT_LEASE_SECONDS=3", "margin"),
    ),
    "idle in transaction = lease": (
        {"CHOT_IDLE_IN_TRANSACTION_SECONDS": "3"},
        ("CHOT_IDLE_IN_TRANSACTION_SECONDS=3", "CHOT_LEASE_SECONDS=3"),
    ),
    "lock timeout > heartbeat": (
        {"CHOT_LOCK_TIMEOUT_SECONDS": "1"},
        ("CHOT_LOCK_TIMEOUT_SECONDS=1", "CHOT_HEARTBEAT_SECONDS=0.75"),
    ),
    "pool too small": (
        {"CHOT_POOL_SIZE": "10"},
        ("CHOT_POOL_SIZE=10", "CHOT_CONCURRENCY=4"),
    ),
    "drain > stop timeout": (
        {"CHOT_DRAIN_SECONDS": "120"},
        ("CHOT_DRAIN_SECONDS=120", "CHOT_STOP_TIMEOUT_SECONDS=120"),
    ),
    "stop timeout beyond Fargate's": (
        {"CHOT_STOP_TIMEOUT_SECONDS": "121"},
        ("CHOT_STOP_TIMEOUT_SECONDS=121", "120 s"),
    ),
    "unknown queue": ({"CHOT_QUEUES": "defualt"}, ("CHOT_QUEUES='defualt'", "default")),
    "queue without a count": ({"CHOT_QUEUES": "default:x"}, ("CHOT_QUEUES", "'x'")),
    "unknown module": (
        {"CHOT_HANDLER_MODULES": "no.such.module"},
        ("CHOT_HANDLER_MODULES", "no.such.module"),
    ),
    "handler without its kind": (
        {"CHOT_KIND_MODULES": ""},
        ("probe.write", "CHOT_KIND_MODULES"),
    ),
    "kind without a timeout": (
        {"CHOT_KIND_MODULES": "tests.probes.kinds,tests.probes.without_timeout"},
        ("tests.probes.without_timeout", "timeout"),
    ),
    "no database": ({"CHOT_DATABASE_URL": ""}, ("CHOT_DATABASE_URL",)),
    "another database": ({"CHOT_DATABASE_URL": "mysql://u:s3cr3t@h/d"}, ("CHOT_DATABASE_URL",)),
    "no region": (
        {"AWS_REGION": UNSET, "AWS_DEFAULT_REGION": UNSET, "AWS_CONFIG_FILE": "/nonexistent"},
        ("AWS_REGION", "You must specify a region"),
    ),
    "an endpoint that is none": (
        {"AWS_ENDPOINT_URL_SQS": "no-url"},
        ("AWS_ENDPOINT_URL_SQS", "Invalid endpoint"),
    ),
    "alert hook that is none": ({"CHOT_ALERT_HOOK": "os:nothing"}, ("CHOT_ALERT_HOOK",)),
}


async def _refused(
    fleet: Fleet, changes: dict[str, str], argv: tuple[str, ...] = (), module: str = "worker"
) -> str:
    """Run a worker (or an api) that must refuse; what it says on stderr.

    The five seconds are its own processor time: what else this machine does is not its fault.
    """
    environment = fleet.environment(**changes)
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *argv,
        "-m",
        module,
        env={name: value for name, value in environment.items() if value != UNSET},
        cwd=fleet.logs,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(LONGEST_SECONDS):
            _, said_last = await process.communicate()
    except TimeoutError:
        process.kill()
        await process.communicate()
        return f"NOT REFUSED: {changes}"
    words = said_last.decode()
    if process.returncode != EX_CONFIG or "Traceback" in words:
        return f"ENDED WITH {process.returncode}: {changes}: {words}"
    return words


def _processor_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


# One of each sort for every day; the long tier refuses them all.
EVERY_DAY = (
    "no region",
    "heartbeat = lease",
    "drain > stop timeout",
    "lease no number",
    "pool too small",
    "handler without its kind",
    "kind without a timeout",
)


@pytest.mark.scenario("F07", "F16", "F34")
@pytest.mark.parametrize(
    "names", [EVERY_DAY, pytest.param(tuple(REFUSED), marks=pytest.mark.long)], ids=["few", "all"]
)
async def test_impossible_settings_are_refused_by_name(
    fleet: Fleet, sqs_proxy: SqsProxy, names: tuple[str, ...]
) -> None:
    """Exit 78, the message names the settings that disagree, nothing is received.

    F07's "within 5 s" is processor time here, and that of all of them on average.
    """
    before = _processor_seconds()
    for start in range(0, len(names), 3):
        batch = names[start : start + 3]
        said_by_each = await asyncio.gather(*(_refused(fleet, REFUSED[each][0]) for each in batch))
        for name, words in zip(batch, said_by_each, strict=True):
            for wanted in REFUSED[name][1]:
                assert wanted in words, f"{name}: {words}"
            assert not words.startswith(("NOT", "ENDED")), words
            assert "s3cr3t" not in words
    assert (_processor_seconds() - before) / len(names) <= REFUSE_SECONDS
    assert sqs_proxy.asked["ReceiveMessage"] == 0


@pytest.mark.long
@pytest.mark.scenario("F07")
@pytest.mark.parametrize(
    "name", [name for name in REFUSED if "heartbeat" in name or name.startswith("lease")]
)
async def test_an_api_refuses_a_heartbeat_that_no_lease_survives(fleet: Fleet, name: str) -> None:
    """Api and worker read the same settings, so that neither starts without the other."""
    changes, named = REFUSED[name]
    words = await _refused(fleet, changes, module="api")
    assert not words.startswith(("NOT", "ENDED")), words
    for wanted in named:
        assert wanted in words


async def test_a_worker_without_assertions_is_refused(fleet: Fleet) -> None:
    """Under -O the assertions that the protocol rests on would be gone."""
    assert "-O" in await _refused(fleet, {}, ("-O",))


@pytest.mark.long
@pytest.mark.scenario("F14")
@pytest.mark.parametrize(
    ("attributes", "named"),
    [
        (QueueAttributes(max_receives=3), ("maxReceiveCount=3", "max_attempts=5")),
        (QueueAttributes(max_receives=20), ("maxReceiveCount=20", "max_attempts=5")),
        (QueueAttributes(visibility=2), ("VisibilityTimeout=2", "CHOT_LEASE_SECONDS=3")),
        (QueueAttributes(dead_retention=3600), ("retention",)),
    ],
)
async def test_a_queue_on_which_jobs_would_be_lost_is_refused(
    fleet: Fleet, sqs_endpoint: str, attributes: QueueAttributes, named: tuple[str, ...]
) -> None:
    """The queue's own attributes are read, not assumed."""
    prefix = f"{fleet.prefix}x"
    ensure_queues(sqs_endpoint, prefix, ["default"], attributes)
    words = await _refused(fleet, {"CHOT_QUEUE_PREFIX": prefix})
    for wanted in (f"{prefix}-default", *named):
        assert wanted in words


async def test_a_worker_waits_for_database_and_sqs_and_then_works(
    probes: AsyncEngine, fleet: Fleet, pg_proxy: Proxy, sqs_proxy: SqsProxy
) -> None:
    """Both are down at the start: it says what it waits for, and works when they have come."""
    pg_proxy.cut()
    sqs_proxy.resetting = True
    worker = fleet.worker(**fleet.proxied)
    job_id = await make_job(probes)
    waits = await said(worker, "startup.waits")
    assert (waits["what"], "cannot be reached" in waits["why"]) == ("database", True)
    pg_proxy.heal()

    async def waits_for_the_queue() -> bool:
        lines = fleet.events(worker, "startup.waits")
        return any("queue" in line["what"] for line in lines)

    await eventually(waits_for_the_queue)
    assert not fleet.events(worker, "worker.started")
    sqs_proxy.heal()
    await reached(probes, job_id, "succeeded")
    assert worker.alive


@pytest.mark.long
async def test_a_silent_database_is_waited_for(
    probes: AsyncEngine, fleet: Fleet, pg_proxy: Proxy
) -> None:
    """It accepts the connection and says nothing: given up, said, tried again."""
    pg_proxy.block()
    worker = fleet.worker(**fleet.proxied)
    job_id = await make_job(probes)
    await said(worker, "startup.waits")
    pg_proxy.reset()
    pg_proxy.heal()
    await reached(probes, job_id, "succeeded")


async def test_a_database_without_our_schema_is_named_and_waited_for(
    probes: AsyncEngine, fleet: Fleet, empty_database: Database
) -> None:
    """`chot migrate` may come later than the workers."""
    assert probes is not None, "the roles exist"
    worker = fleet.worker(
        CHOT_DATABASE_URL=empty_database.app_url, CHOT_READ_DATABASE_URL=empty_database.read_url
    )
    waits = await said(worker, "startup.waits")
    assert "chot migrate" in waits["why"]
    await asyncio.to_thread(migrate, empty_database.superuser_url)
    await said(worker, "worker.started")
    secrets = [line for line in log_lines(worker) if "postgresql://" in str(line)]
    assert secrets == [], "no URL in the log"
