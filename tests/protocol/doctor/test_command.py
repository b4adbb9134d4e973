"""`chot doctor` as an operator runs it: whole, in parts, and where nothing can be reached."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from dev.sqs import bucket_name, ensure_bucket
from shared.alerts.settings import AlertSettings
from shared.doctor.outside import check_alerts, check_bucket, check_credentials
from shared.doctor.settings import check_settings
from tests.architecture.locks import ROOT
from tests.factories import execute, offer_slots
from tests.protocol.doctor.remedies import codes
from tests.services import Database

Run = Callable[..., tuple[int, dict[str, Any], str]]
# What is so on every machine of a test: no api or worker runs, autovacuum is off for speed.
HERE = ("alerts-unheard", "alerts-unjudged", "autovacuum-off")


@pytest.fixture
def doctor(database: Database, queue_prefix: str) -> Run:
    """Run it with these settings; answers exit code, its JSON document, and stderr."""

    def run(*words: str, **settings: str | None) -> tuple[int, dict[str, Any], str]:
        given: dict[str, str | None] = {
            "CHOT_DATABASE_URL": database.app_url,
            "CHOT_MIGRATE_DATABASE_URL": database.owner_url,
            "CHOT_QUEUE_PREFIX": queue_prefix,
        }
        env = {**os.environ, **{k: v for k, v in (given | settings).items() if v is not None}}
        for name, value in settings.items():
            if value is None:
                env.pop(name, None)
        done = subprocess.run(
            [sys.executable, "-m", "shared.cli", "doctor", "--json", *words],
            cwd=ROOT,
            env=env,
            capture_output=True,
            text=True,
            check=False,
        )
        assert "Traceback" not in done.stderr, done.stderr
        return done.returncode, json.loads(done.stdout), done.stderr

    return run


def found_by(document: Mapping[str, Any]) -> set[str]:
    """Codes of warnings and worse."""
    return {each["code"] for each in document["findings"] if each["severity"] != "note"}


async def test_a_deployment_that_is_well(doctor: Run, probes: AsyncEngine) -> None:
    """Exit code 0 but for what a test's machine is; every count of before is still there."""
    await offer_slots(probes, 1)
    ignored = [word for code in HERE for word in ("--ignore", code)]
    code, document, _ = doctor(*ignored)
    assert found_by(document) == set(), document["findings"]
    assert code == 0
    assert document["dead_jobs"] == 0
    assert document["unserved_queues"] == 0


async def test_as_role_app_it_says_the_same(doctor: Run, database: Database) -> None:
    """Without the owner's address it looks as chot_app; nothing here needs more."""
    code, document, _ = doctor(CHOT_MIGRATE_DATABASE_URL=None, CHOT_DATABASE_URL=database.app_url)
    assert (code, found_by(document)) == (1, set(HERE))
    assert all(each["seen"] and each["why"] and each["remedy"] for each in document["findings"])


def test_without_a_database_the_rest_is_looked_at(doctor: Run) -> None:
    """Code 69, no traceback: settings and queues are judged, what could not be is named."""
    away = "postgresql://chot_app@127.0.0.1:1/chot"
    code, document, _ = doctor(
        CHOT_DATABASE_URL=away, CHOT_MIGRATE_DATABASE_URL=away, CHOT_HEARTBEAT_SECONDS="12"
    )
    assert code == 69
    assert found_by(document) == {"database-away", "settings"}
    assert any("the database cannot be had" in each for each in document["unchecked"])


def test_without_sqs_the_database_is_looked_at(doctor: Run) -> None:
    code, document, _ = doctor(AWS_ENDPOINT_URL_SQS="http://127.0.0.1:1")
    assert code == 1
    assert found_by(document) == set(HERE)
    assert sum("-default" in each for each in document["unchecked"]) == 1


def test_without_any_setting_it_says_which_it_needs() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "shared.cli", "doctor"],
        cwd=ROOT,
        env={k: v for k, v in os.environ.items() if not k.startswith("CHOT_")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 78
    assert "CHOT_MIGRATE_DATABASE_URL" in done.stderr


def test_a_database_that_was_never_migrated(doctor: Run, empty_database: Database) -> None:
    url = empty_database.superuser_url
    code, document, _ = doctor(CHOT_DATABASE_URL=url, CHOT_MIGRATE_DATABASE_URL=url)
    assert code == 1
    assert {"schema-missing", "login-too-strong"} <= found_by(document)


WRONG: dict[str, tuple[dict[str, str], str]] = {
    "heartbeat": ({"CHOT_HEARTBEAT_SECONDS": "12"}, "3 × heartbeat"),
    "visibility": ({"CHOT_VISIBILITY_SECONDS": "29"}, "visibility"),
    "drain": ({"CHOT_DRAIN_SECONDS": "119"}, "CHOT_STOP_TIMEOUT_SECONDS"),
    "stop": ({"CHOT_STOP_TIMEOUT_SECONDS": "600"}, "Fargate"),
    "idle": ({"CHOT_IDLE_IN_TRANSACTION_SECONDS": "31"}, "idle in transaction"),
    "pool": ({"CHOT_POOL_SIZE": "2"}, "CHOT_CONCURRENCY"),
    "queues": ({"CHOT_QUEUES": "nobody:3"}, "nobody"),
    "open": ({"CHOT_API_OPEN": "true", "CHOT_API_HOST": "0.0.0.0"}, "loopback"),  # noqa: S104
    "keep-alive": ({"CHOT_API_KEEP_ALIVE_SECONDS": "20"}, "CHOT_BALANCER_IDLE_SECONDS"),
    "rules": ({"CHOT_ALERT_RULES": "/nowhere"}, "/nowhere"),
}


@pytest.mark.parametrize("name", WRONG)
def test_each_rule_of_a_start_is_held_without_one(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """And what both processes refuse is told once."""
    monkeypatch.setenv("CHOT_DATABASE_URL", "postgresql://chot_app@db/chot")
    assert check_settings().findings == []
    settings, said = WRONG[name]
    for each, value in settings.items():
        monkeypatch.setenv(each, value)
    (found,) = check_settings().findings
    assert (found.code, found.severity) == ("settings", "critical")
    assert said in found.seen
    for each in settings:
        monkeypatch.delenv(each)
    assert check_settings().findings == []


async def test_credentials_that_are_not_there_or_run_out(
    sqs_endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert sqs_endpoint
    assert await check_credentials() == ([], "who AWS takes us for: SQS is an emulator here")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nowhere")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nowhere")
    found, _ = await check_credentials()
    assert codes(found) == ["credentials"]
    soon = datetime.now(UTC) + timedelta(seconds=90)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    monkeypatch.setattr("aiobotocore.credentials.AioCredentials._expiry_time", soon, raising=False)
    found, _ = await check_credentials()
    assert codes(found) == ["credentials-expiring"]


async def test_a_bucket_that_is_not_there(queue_prefix: str, sqs_endpoint: str) -> None:
    bucket = bucket_name(queue_prefix)
    (found,) = await check_bucket(bucket)
    assert found.code == "bucket"
    assert found.remedy == (f"aws s3api create-bucket --bucket {bucket}",)
    ensure_bucket(sqs_endpoint, bucket)
    assert await check_bucket(bucket) == []


async def test_alerts_that_nobody_judges_hears_or_gets(probes: AsyncEngine) -> None:
    """A channel that fails is told with its own words; one that works is silent."""
    async with probes.connect() as conn:
        assert codes(await check_alerts(conn, None)) == ["alerts-unheard", "alerts-unjudged"]
    await execute(probes, "UPDATE chot.turns SET at = clock_timestamp()")
    await execute(
        probes,
        """INSERT INTO chot.alert_channels (channel, last_error, failed_at)
           VALUES ('webhook', 'the webhook answered 500', clock_timestamp())""",
    )
    async with probes.connect() as conn:
        assert await check_alerts(conn, None) == []
    await execute(
        probes,
        """INSERT INTO chot.alert_notices (channel, rule, subject, body)
           VALUES ('webhook', 'dead_jobs', '', '{}')""",
    )
    await execute(
        probes,
        """INSERT INTO chot.alerts (rule, subject, severity, incident, value, since, fired_at)
           VALUES ('dead_jobs', 'kind=x', 'warning', gen_random_uuid(), 1, clock_timestamp(),
                   clock_timestamp())""",
    )
    settings = AlertSettings.model_validate({"alert_webhook_url": "http://alerts.example.com/x"})
    async with probes.connect() as conn:
        found = await check_alerts(conn, settings)
    assert codes(found) == [
        "alert-dead_jobs",
        "alerts-in-the-clear",
        "alerts-undelivered",
        "alerts-unsigned",
    ]
    assert any("answered 500" in each.seen for each in found)


async def test_what_hangs_is_counted_as_before(doctor: Run, probes: AsyncEngine) -> None:
    """A dead message is a sign, and exit code 1."""
    await offer_slots(probes, 1)
    await execute(
        probes,
        """INSERT INTO chot.dead_messages (queue, message_id, body, attributes, reason,
                                           receive_count)
           VALUES ('default', 'm', 'x', '{}', 'not ours', 1)""",
    )
    ignored = [word for code in HERE for word in ("--ignore", code)]
    code, document, _ = doctor(*ignored)
    assert (code, document["dead_messages"]) == (1, 1)
