"""Outside: who AWS takes us for, the bucket of files, and whether anybody is told of alerts."""

import asyncio
import os
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

from aiobotocore.session import get_session
from sqlalchemy.ext.asyncio import AsyncConnection

from shared.alerts.aws import Aws, open_aws
from shared.alerts.settings import AlertSettings
from shared.alerts.state import list_channels, looked_ago, open_alerts
from shared.alerts.webhook import NotDelivered
from shared.doctor.finding import Finding
from shared.s3 import ObjectGone, StorageUnavailable, open_s3
from shared.sqs import ODD_CREDENTIALS, TRANSPORT_ERRORS

CREDENTIAL_SECONDS = 5.0
EXPIRES_SOON_SECONDS = 600.0
LOOKED_SECONDS = 300.0


async def check_credentials() -> tuple[list[Finding], str | None]:
    """Whether botocore finds credentials, and who they are; and why that could not be asked."""
    try:
        async with asyncio.timeout(CREDENTIAL_SECONDS):
            found = await get_session().get_credentials()
            if found is not None:
                await found.get_frozen_credentials()
    except (*TRANSPORT_ERRORS, *ODD_CREDENTIALS) as error:
        return [_no_credentials(f"{type(error).__name__}: {error}")], None
    if found is None:
        return [_no_credentials("botocore's chain finds none")], None
    findings = _expiring(getattr(found, "_expiry_time", None))
    if os.environ.get("AWS_ENDPOINT_URL_SQS") and not (
        os.environ.get("AWS_ENDPOINT_URL_STS") or os.environ.get("AWS_ENDPOINT_URL")
    ):
        return findings, "who AWS takes us for: SQS is an emulator here"
    async with open_aws() as stack:
        try:
            who = await Aws("sts", stack).ask("get_caller_identity")
        except NotDelivered as error:
            return findings, f"who AWS takes us for: {error}"
    if ":root" in who["Arn"]:
        findings.append(
            Finding(
                code="credentials-root",
                severity="warning",
                seen=f"AWS takes us for {who['Arn']}",
                why="the account's root may do everything; processes need a role of their own",
                remedy=("aws cloudformation deploy --template-file deploy/roles.yaml …",),
            )
        )
    return findings, None


def _no_credentials(said: str) -> Finding:
    return Finding(
        code="credentials",
        severity="critical",
        seen=f"no AWS credentials: {said}",
        why="no message goes out and none comes in; jobs are taken, and wait in the outbox",
        remedy=("aws sts get-caller-identity   # says where they are looked for",),
    )


def _expiring(until: Any) -> list[Finding]:
    if not isinstance(until, datetime):
        return []
    left = (until - datetime.now(UTC)).total_seconds()
    if left > EXPIRES_SOON_SECONDS:
        return []
    return [
        Finding(
            code="credentials-expiring",
            severity="warning",
            seen=f"the AWS credentials expire in {max(0, left):.0f} s",
            why="a container's or a role's are renewed in time; those of a shell are not",
            remedy=("aws sso login   # or let the task's role give them",),
        )
    ]


async def check_bucket(bucket: str) -> list[Finding]:
    """Whether the bucket of files answers."""
    async with open_s3(bucket, pool=1, attempts=1) as s3:
        try:
            await (await s3.connected()).ready()
        except (StorageUnavailable, ObjectGone) as error:
            return [
                Finding(
                    code="bucket",
                    severity="critical",
                    seen=f"bucket {bucket}: {error}",
                    why="files cannot be sent, imports cannot read them",
                    remedy=(f"aws s3api create-bucket --bucket {bucket}",),
                )
            ]
    return []


async def check_alerts(conn: AsyncConnection, settings: AlertSettings | None) -> list[Finding]:
    """Whether the rules are judged, whether somebody is told, and what fires."""
    channels = await list_channels(conn)
    looked = await looked_ago(conn)
    found = []
    if not channels:
        found.append(
            Finding(
                code="alerts-unheard",
                severity="warning",
                seen="no process has a webhook or an SNS topic for alerts",
                why="what goes wrong at night is found in the morning",
                remedy=(
                    "export CHOT_ALERT_WEBHOOK_URL=https://…   # for api and worker",
                    "export CHOT_ALERT_SNS_TOPIC_ARN=arn:aws:sns:…   # or that",
                ),
            )
        )
    if looked is None or looked > LOOKED_SECONDS:
        when = "never" if looked is None else f"{looked:,.0f} s ago"
        found.append(
            Finding(
                code="alerts-unjudged",
                severity="warning",
                seen=f"the alert rules were last judged {when}",
                why="an api or a worker does it every CHOT_ALERT_SECONDS: none is there",
                remedy=("chot api", "chot worker"),
            )
        )
    found += [
        Finding(
            code="alerts-undelivered",
            severity="critical",
            seen=f"{each['channel']} has {each['waiting']} alerts still to take; it last said: "
            f"{each['last_error']}",
            why="somebody should have been called, and was not",
            remedy=("chot alerts firing   # says which, and tries go on by themselves",),
        )
        for each in channels
        if each["waiting"] and each["last_error"]
    ]
    found += [
        Finding(
            code=f"alert-{row['rule']}",
            severity="critical" if row["severity"] == "critical" else "warning",
            seen=f"alert {row['rule']}{' (' + row['subject'] + ')' if row['subject'] else ''} "
            f"fires since {row['fired_at']:%Y-%m-%d %H:%M} UTC",
            why=f"docs/runbook.md#{row['rule']} says what it means",
            remedy=("chot alerts firing",),
        )
        for row in await open_alerts(conn)
    ]
    return found + _webhook(settings)


def _webhook(settings: AlertSettings | None) -> list[Finding]:
    if settings is None or settings.alert_webhook_url is None:
        return []
    parts = urlsplit(settings.alert_webhook_url.get_secret_value())
    found = []
    if parts.scheme == "http" and parts.hostname not in {"localhost", "127.0.0.1", "::1"}:
        found.append(
            Finding(
                code="alerts-in-the-clear",
                severity="note",
                seen="CHOT_ALERT_WEBHOOK_URL is http",
                why="whoever is on the way reads what is wrong here",
                remedy=("export CHOT_ALERT_WEBHOOK_URL=https://…",),
            )
        )
    if settings.alert_webhook_secret is None:
        found.append(
            Finding(
                code="alerts-unsigned",
                severity="note",
                seen="CHOT_ALERT_WEBHOOK_SECRET is not set",
                why="the receiver cannot tell our alerts from anybody else's",
                remedy=("export CHOT_ALERT_WEBHOOK_SECRET=$(openssl rand -hex 24)",),
            )
        )
    return found
