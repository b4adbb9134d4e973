"""Examine: every check, one after the other; what one of them cannot do stops no other."""

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import asyncpg
from pydantic import ValidationError
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection

from shared.alerts.settings import AlertSettings
from shared.database import DATABASE_ERRORS, is_unreachable, open_engine
from shared.doctor.finding import Finding, Report
from shared.doctor.kinds import check_kinds
from shared.doctor.outside import check_alerts, check_bucket, check_credentials
from shared.doctor.pooler import check_pooler
from shared.doctor.queues import Wanted, check_queue
from shared.doctor.roles import check_login, check_roles
from shared.doctor.schema import check_indexes, check_revision
from shared.doctor.server import check_clock, check_horizon, check_server, check_vacuum
from shared.doctor.settings import check_settings
from shared.errors import ConfigRefused
from shared.restored import refuse_restored
from shared.settings import SharedSettings, load
from shared.sqs import ODD_CREDENTIALS, TRANSPORT_ERRORS, UNUSABLE, open_sqs

CHECK_SECONDS = 20.0
LOGIN_REFUSED = ("28", "3D000")
NOT_MIGRATED = frozenset({"3F000", "42P01", "42703", "42883"})
Check = Callable[[], Awaitable[Iterable[Finding]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Revisions:
    """What this code knows of migrations."""

    head: str
    known: frozenset[str]


@dataclass(slots=True, kw_only=True)
class Doctor:
    """One examination. `url` is where the owner (or app) connects; `signs` counts what hangs."""

    url: str
    url_name: str
    revisions: Revisions | None
    signs: Callable[[AsyncConnection], Awaitable[dict[str, int]]]
    report: Report

    async def examine(self) -> Report:
        """Look at everything that can be looked at."""
        checked = check_settings()
        self.report.add(checked.findings)
        self.report.unchecked += checked.unchecked
        needed = sum(checked.connections.values()) if len(checked.connections) == 2 else None
        settings = _settings()
        await self._database(needed, settings)
        if settings is not None:
            await self._logins(settings)
        await self._outside(settings)
        return self.report

    async def _database(self, needed: int | None, settings: SharedSettings | None) -> None:
        try:
            async with _connected(self.url) as conn:
                await conn.execute(text("SELECT 1"))
        except (*DATABASE_ERRORS, TimeoutError) as error:
            self.report.database_away = is_unreachable(error) or isinstance(error, TimeoutError)
            self.report.add([_away(self.url_name, error)])
            for what in ("roles", "schema", "indexes", "vacuum", "alerts", "kinds", "what hangs"):
                self.report.unchecked.append(f"{what}: the database cannot be had")
            return
        alerts = settings or _alert_settings()
        revisions = self.revisions
        if revisions is None:
            self.report.unchecked.append("schema: the migrations are not beside this code")
        else:
            await self._on(
                "schema",
                lambda conn: check_revision(conn, head=revisions.head, known=revisions.known),
            )
        checks: dict[str, Callable[[AsyncConnection], Awaitable[Iterable[Finding]]]] = {
            "server": lambda conn: check_server(conn, needed=needed),
            "clock": check_clock,
            "transactions": check_horizon,
            "vacuum": check_vacuum,
            "roles": check_roles,
            "indexes": check_indexes,
            "restored": _check_restored,
            "visibility": _check_visibility,
            "alerts": lambda conn: check_alerts(conn, alerts),
            "kinds": check_kinds,
            "what hangs": self._count_signs,
        }
        for what, check in checks.items():
            await self._on(what, check)
        await self._try(f"pooler of {self.url_name}", lambda: check_pooler(self.url, self.url_name))

    async def _count_signs(self, conn: AsyncConnection) -> list[Finding]:
        self.report.signs = await self.signs(conn)
        return []

    async def _logins(self, settings: SharedSettings) -> None:
        """Each address that processes use and that is another one than ours."""
        for name, secret in (
            ("CHOT_DATABASE_URL", settings.database_url),
            ("CHOT_READ_DATABASE_URL", settings.read_database_url),
        ):
            if secret is None:
                continue
            url = secret.get_secret_value()
            if name == "CHOT_DATABASE_URL":
                await self._on("login", partial(check_login, variable=name), url)
            elif url != self.url:
                await self._on("login", _answers, url, name)
            if url != self.url:
                await self._try(f"pooler of {name}", partial(check_pooler, url, name))

    async def _outside(self, settings: SharedSettings | None) -> None:
        if settings is None:
            self.report.unchecked += [
                "queues: CHOT_DATABASE_URL is not set here, or settings are wrong",
                "bucket: the same",
            ]
            return
        if not _aws_is_meant():
            self.report.unchecked.append("queues, credentials: AWS_REGION is not set here")
        else:
            await self._queues(settings)
        if settings.files_bucket is not None:
            bucket = settings.files_bucket
            await self._try("bucket", lambda: check_bucket(bucket))

    async def _queues(self, settings: SharedSettings) -> None:
        findings, unasked = await check_credentials()
        self.report.add(findings)
        if unasked is not None:
            self.report.unchecked.append(unasked)
        if any(each.code == "credentials" for each in findings):
            self.report.unchecked.append("queues: there are no credentials")
            return
        queues, wanted = await self._wanted(settings)
        try:
            async with open_sqs(settings.queue_prefix, pool=2, attempts=1) as sqs:
                for queue in queues:
                    name = f"queue {settings.queue_prefix}-{queue}"
                    await self._try(name, partial(check_queue, sqs, queue, wanted))
        except UNUSABLE as error:
            self.report.unchecked.append(f"queues: {type(error).__name__}: {error}")

    async def _wanted(self, settings: SharedSettings) -> tuple[list[str], Wanted]:
        """The queues that the database knows, and what they are held to."""
        deployment, queues, attempts = None, [], settings.max_attempts
        try:
            async with _connected(self.url) as conn:
                deployment = await conn.scalar(
                    text("SELECT deployment_id::text FROM chot.deployment")
                )
                rows = await conn.execute(text("SELECT name FROM chot.queues ORDER BY name"))
                queues = list(rows.scalars().all())
                most = await conn.scalar(text("SELECT max(max_attempts) FROM chot.kinds"))
                attempts = max(attempts, most or 0)
        except (*DATABASE_ERRORS, TimeoutError):
            queues = queues or ["default"]
        return queues, Wanted(
            lease=settings.lease_seconds,
            visibility=int(settings.visibility_seconds),
            max_attempts=attempts,
            deployment_id=deployment,
        )

    async def _on(
        self,
        what: str,
        check: Callable[[AsyncConnection], Awaitable[Iterable[Finding]]],
        url: str | None = None,
        name: str | None = None,
    ) -> None:
        """A check with a connection of its own, so that no failure of one is another's."""

        async def connected() -> Iterable[Finding]:
            async with _connected(url or self.url) as conn:
                return await check(conn)

        await self._try(what if name is None else f"{what} by {name}", connected)

    async def _try(self, what: str, check: Check) -> None:
        try:
            async with asyncio.timeout(CHECK_SECONDS):
                self.report.add(await check())
        except (*DATABASE_ERRORS, *TRANSPORT_ERRORS, *ODD_CREDENTIALS) as error:
            self.report.unchecked.append(f"{what}: {_said(error)}")


@asynccontextmanager
async def _connected(url: str) -> Any:
    engine = open_engine(
        url, pool_size=0, application_name="chot doctor", command_timeout=CHECK_SECONDS
    )
    try:
        async with engine.connect() as conn:
            yield await conn.execution_options(isolation_level="AUTOCOMMIT")
    finally:
        await engine.dispose()


async def _answers(conn: AsyncConnection) -> list[Finding]:
    await conn.execute(text("SELECT 1"))
    return []


async def _check_restored(conn: AsyncConnection) -> list[Finding]:
    try:
        await refuse_restored(conn)
    except ConfigRefused as refusal:
        return [
            Finding(
                code="restored",
                severity="critical",
                seen=str(refusal).split(". ", maxsplit=1)[0],
                why="movements of before would be invisible for ever: no process starts on it",
                remedy=("chot doctor --restored   # once, with nothing else running",),
            )
        ]
    return []


async def _check_visibility(conn: AsyncConnection) -> list[Finding]:
    sees = await conn.scalar(text("SELECT pg_has_role('chot_app', 'pg_read_all_stats', 'USAGE')"))
    if sees:
        return []
    return [
        Finding(
            code="stats-hidden",
            severity="note",
            seen="chot_app may not read other roles' statistics",
            why="an alert on long transactions sees those of chot_app only",
            remedy=('psql "$CHOT_MIGRATE_DATABASE_URL" -c "GRANT pg_read_all_stats TO chot_app"',),
        )
    ]


def _away(name: str, error: BaseException) -> Finding:
    return Finding(
        code="database-away",
        severity="critical",
        seen=f"{name}: {_said(error)}",
        why="no job is taken, claimed or finished",
        remedy=('pg_isready -d "$' + name + '"',),
    )


def _said(error: BaseException) -> str:
    cause = error.orig if isinstance(error, DBAPIError) and error.orig is not None else error
    told = str(cause).split("\n", maxsplit=1)[0]
    if isinstance(cause, asyncpg.PostgresError):
        return told
    return f"{type(cause).__name__}: {told}" if told else type(cause).__name__


def _settings() -> SharedSettings | None:
    try:
        return load(SharedSettings)
    except ConfigRefused:
        return None


def _alert_settings() -> AlertSettings | None:
    try:
        return AlertSettings()
    except ValidationError:
        return None


def _aws_is_meant() -> bool:
    names = ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_ENDPOINT_URL_SQS", "AWS_PROFILE")
    return any(os.environ.get(name) for name in names)
