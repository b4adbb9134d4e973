"""Evaluator: looks at the rules again and again, in one process of all at a time, and tells.

It runs in every api and every worker: "no worker" is found by an api, and a deployment whose apis
are all away is still looked after by its workers. Nothing of it may fail a job or a request: each
step is bounded in time, and what goes wrong is logged and tried again.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime
from time import monotonic
from typing import Any, Protocol

from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from shared.alerts.aws import Aws, Sns, open_aws, put_metrics
from shared.alerts.cloudwatch import PERIOD_SECONDS, metrics_of
from shared.alerts.judging import values
from shared.alerts.notices import (
    note_delivered,
    note_failed,
    register,
    take_notices,
    write_notices,
)
from shared.alerts.readings import Counts
from shared.alerts.rules import Rule, load_rules
from shared.alerts.settings import AlertSettings
from shared.alerts.state import load_alerts, store_alerts, take_turn
from shared.alerts.steps import Alert, News, broken, kept
from shared.alerts.telling import body_of
from shared.alerts.webhook import NotDelivered, Webhook
from shared.jobs.counts import read_counts
from shared.logs import alert, log

COUNT_SECONDS = 5.0
LOCK_SECONDS = 1.0
IDLE_SECONDS = 10.0
FORGOTTEN_RESOLVE_SECONDS = 120.0
# Looking may take a twentieth of the time, however slow it is.
SHARE = 20


class Channel(Protocol):
    """A way to tell people."""

    name: str

    async def send(self, notices: Any) -> None:
        """Deliver all of them, or raise NotDelivered."""


@dataclass(slots=True, kw_only=True)
class Alerting:
    """One process's part in it; `step()` is called every `alert_seconds` or so."""

    engine: AsyncEngine
    rules: tuple[Rule, ...]
    deployment: str
    seconds: float
    channels: tuple[Channel, ...] = ()
    metrics_to: tuple[Aws, str] | None = None
    count: Callable[[AsyncConnection], Awaitable[Counts]] = read_counts
    _again_at: float = field(default=0.0, init=False)

    async def step(self) -> None:
        """Look if it is our turn, deliver what is due, publish the minute's metrics."""
        if monotonic() >= self._again_at:
            began = monotonic()
            await self.look()
            self._again_at = began + (SHARE - 1) * (monotonic() - began)
        for channel in self.channels:
            await self.deliver(channel)
        if self.metrics_to is not None:
            await self.publish(*self.metrics_to)

    async def look(self) -> bool:
        """Judge the rules and put down what is to be told; False: another process has the turn.

        One transaction: who dies in it has told nobody, and the next turn finds the same.
        """
        if self.channels:
            async with self._auto() as conn:
                await register(conn, [each.name for each in self.channels])
        async with self._turn("alerts", self.seconds * 0.9) as (conn, now):
            if now is None:
                return False
            counts = await self.count(conn)
            before, silenced = await load_alerts(conn)
            after, news = judge(self.rules, counts, before, silenced, now)
            changed = [each for key, each in after.items() if each != before.get(key)]
            gone = [each for key, each in before.items() if key not in after]
            await store_alerts(conn, changed, gone)
            named = {rule.name: rule for rule in self.rules}
            bodies = [
                (one.rule, one.subject, body_of(named.get(one.rule), one, what))
                for one, what in news
            ]
            await write_notices(conn, bodies)
        for _, _, body in bodies:
            _log(body)
        return True

    async def deliver(self, channel: Channel) -> None:
        """Send what is due to this channel; what it does not take stays, for a later try."""
        async with self._auto() as conn:
            notices = await take_notices(conn, channel.name)
        if not notices:
            return
        try:
            await channel.send(notices)
        except Exception as error:  # noqa: BLE001 - a way out that breaks keeps no other one silent
            said = str(error) if isinstance(error, NotDelivered) else type(error).__name__
            names = sorted({each.rule for each in notices})
            log.error("alert.not_delivered", channel=channel.name, error=said, rules=names)
            async with self._auto() as conn:
                await note_failed(conn, channel.name, said)
            return
        async with self._auto() as conn:
            await note_delivered(conn, channel.name, notices)
        log.info("alert.delivered", channel=channel.name, alerts=len(notices))

    async def publish(self, aws: Aws, namespace: str) -> bool:
        """Send the minute's metrics; False: another process has, or CloudWatch took none.

        The turn is committed first: a minute is lost rather than sent twice.
        """
        async with self._turn("cloudwatch", PERIOD_SECONDS * 0.95) as (conn, now):
            if now is None:
                return False
            counts = await self.count(conn)
        try:
            await put_metrics(aws, namespace, metrics_of(self.rules, counts, self.deployment))
        except NotDelivered as error:
            log.error("metrics.not_published", error=str(error))
            return False
        return True

    @asynccontextmanager
    async def _turn(
        self, name: str, seconds: float
    ) -> AsyncIterator[tuple[AsyncConnection, datetime | None]]:
        """A transaction that has the turn since a moment; None: another process has it."""
        async with self.engine.connect() as conn:
            # On the connection: a worker's engine is in autocommit, where no turn would be held.
            await conn.execution_options(isolation_level="READ COMMITTED")
            async with conn.begin():
                now = await take_turn(
                    conn,
                    name,
                    seconds,
                    statement_seconds=COUNT_SECONDS,
                    lock_seconds=LOCK_SECONDS,
                    idle_seconds=IDLE_SECONDS,
                )
                yield conn, now

    @asynccontextmanager
    async def _auto(self) -> AsyncIterator[AsyncConnection]:
        async with self.engine.connect() as conn:
            yield await conn.execution_options(isolation_level="AUTOCOMMIT")


def judge(
    rules: tuple[Rule, ...],
    counts: Counts,
    before: dict[tuple[str, str], Alert],
    silenced: frozenset[str],
    now: Any,
) -> tuple[dict[tuple[str, str], Alert], list[tuple[Alert, News]]]:
    """Every alert there is after this look, and what there is to tell of which."""
    after: dict[tuple[str, str], Alert] = {}
    news: list[tuple[Alert, News]] = []

    def found(key: tuple[str, str], step: tuple[Alert | None, News | None]) -> None:
        one, what = step
        if one is not None:
            after[key] = one
            if what is not None:
                news.append((one, what))

    resolve = {rule.name: float(rule.resolve_seconds) for rule in rules}
    for rule in (each for each in rules if not each.missing):
        for subject, value in values(rule, counts).items():
            if rule.breached(value):
                key, quiet = (rule.name, subject), rule.name in silenced
                old = before.get(key)
                found(key, broken(rule, subject, value, old, now, silenced=quiet))
    for key, old in before.items():
        if key not in after:
            seconds = resolve.get(old.rule, FORGOTTEN_RESOLVE_SECONDS)
            found(key, kept(old, now, resolve_seconds=seconds))
    return after, news


@asynccontextmanager
async def open_alerting(
    engine: AsyncEngine, settings: AlertSettings, *, deployment: str
) -> AsyncIterator[Alerting]:
    """What a process runs; touches neither network nor database yet."""
    rules = load_rules(settings.alert_rules)
    async with open_aws() as stack:
        channels: list[Channel] = []
        if settings.alert_webhook_url is not None:
            secret = settings.alert_webhook_secret
            channels.append(
                Webhook(
                    url=settings.alert_webhook_url.get_secret_value(),
                    secret=None if secret is None else secret.get_secret_value(),
                    deployment=deployment,
                )
            )
        if settings.alert_sns_topic_arn is not None:
            channels.append(Sns(settings.alert_sns_topic_arn, deployment, Aws("sns", stack)))
        space = settings.cloudwatch_namespace
        yield Alerting(
            engine=engine,
            rules=rules,
            deployment=deployment,
            seconds=settings.alert_seconds,
            channels=tuple(channels),
            metrics_to=None if space is None else (Aws("cloudwatch", stack), space),
        )


def _log(body: dict[str, Any]) -> None:
    told = {name: body[name] for name in ("rule", "subject", "severity", "value", "incident")}
    if body["status"] == "resolved":
        log.info("alert.resolved", **told)
    else:
        alert("alert.firing", **told, again=body["again"])
