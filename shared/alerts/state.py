"""State of alerts in PostgreSQL: so that no two processes, and no restart, tell the same twice."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any

from sqlalchemy import RowMapping, text
from sqlalchemy.ext.asyncio import AsyncConnection

from shared.alerts.clock import PRESENT, TIMES, at_present
from shared.alerts.steps import Alert
from shared.audit import Action, noted

KEPT_DAYS = 7
LOSSES_KEPT_HOURS = 24

# Whoever holds the row has the turn, until its transaction ends; nobody waits. A row, not a session
# lock: it holds behind a pooler, and knows when the last turn was. A turn that is yet to come was
# taken by a clock that has gone back since (a failover): nobody waits until it is that time again.
TAKE_TURN = text("""
    UPDATE chot.turns SET at = clock_timestamp()
     WHERE name = (SELECT t.name FROM chot.turns t
                    WHERE t.name = :name
                      AND (t.at <= clock_timestamp() - make_interval(secs => :seconds)
                           OR t.at > clock_timestamp())
                      FOR NO KEY UPDATE SKIP LOCKED)
    RETURNING at, set_config('statement_timeout', CAST(:statement AS text), true),
              set_config('lock_timeout', CAST(:lock AS text), true),
              set_config('idle_in_transaction_session_timeout', CAST(:idle AS text), true),
              set_config('jit', 'off', true)""")


async def take_turn(
    conn: AsyncConnection,
    name: str,
    seconds: float,
    *,
    statement_seconds: float,
    lock_seconds: float,
    idle_seconds: float,
) -> datetime | None:
    """The moment, when it is this process's turn (none was for `seconds`), until `conn` commits.

    From there on the transaction is bounded by the other seconds; the turn itself waits for nobody.
    """
    binds: dict[str, Any] = {"name": name, "seconds": seconds}
    bounds = {"statement": statement_seconds, "lock": lock_seconds, "idle": idle_seconds}
    binds |= {bound: f"{round(most * 1000)}ms" for bound, most in bounds.items()}
    found: datetime | None = await conn.scalar(TAKE_TURN, binds)
    return found


# What is over for long goes, and what is of a later clock comes to the present. The silenced rules
# come with every row, and with the one that stands for no alert.
LOAD = text(f"""
    WITH {PRESENT},
    pruned AS (
        DELETE FROM chot.alerts
         WHERE resolved_at < clock_timestamp() - interval '{KEPT_DAYS} days'),
    pruned_silences AS (
        DELETE FROM chot.alert_silences WHERE until < clock_timestamp() - interval '1 day'),
    pruned_channels AS (
        DELETE FROM chot.alert_channels WHERE seen_at < clock_timestamp() - interval '1 day'),
    pruned_losses AS (
        DELETE FROM chot.lease_losses WHERE id IN (
            SELECT id FROM chot.lease_losses
             WHERE at < clock_timestamp() - interval '{LOSSES_KEPT_HOURS} hours'
             ORDER BY at LIMIT 5000))
    SELECT a.rule, a.subject, a.severity, a.incident, a.value,
           {", ".join(map(at_present, TIMES))}, s.silenced
      FROM (SELECT array(SELECT rule FROM chot.alert_silences WHERE until > clock_timestamp())
                       AS silenced) AS s
      LEFT JOIN chot.alerts a ON true""")


async def load_alerts(
    conn: AsyncConnection,
) -> tuple[dict[tuple[str, str], Alert], frozenset[str]]:
    """Every alert that is kept, by rule and subject; and the rules that nobody is told of now.

    In the transaction that holds the evaluator's turn: it removes what is over, too.
    """
    rows = [dict(row) for row in (await conn.execute(LOAD)).mappings().all()]
    silenced = frozenset(rule for row in rows for rule in row.pop("silenced"))
    alerts = {(r["rule"], r["subject"]): Alert(**r) for r in rows if r["rule"] is not None}
    return alerts, silenced


STORE = text("""
    INSERT INTO chot.alerts (rule, subject, severity, incident, value, since, fired_at,
                             clear_since, resolved_at, told_at)
    VALUES (:rule, :subject, :severity, :incident, :value, :since, :fired_at, :clear_since,
            :resolved_at, :told_at)
    ON CONFLICT (rule, subject) DO UPDATE
       SET severity = excluded.severity, incident = excluded.incident, value = excluded.value,
           since = excluded.since, fired_at = excluded.fired_at,
           clear_since = excluded.clear_since, resolved_at = excluded.resolved_at,
           told_at = excluded.told_at""")
FORGET = text("DELETE FROM chot.alerts WHERE rule = :rule AND subject = :subject")


async def store_alerts(
    conn: AsyncConnection, alerts: Iterable[Alert], gone: Iterable[Alert]
) -> None:
    """Write what is, and remove what never fired; in the transaction that holds the turn."""
    rows = [asdict(each) for each in alerts]
    if rows:
        await conn.execute(STORE, rows)
    keys = [{"rule": each.rule, "subject": each.subject} for each in gone]
    if keys:
        await conn.execute(FORGET, keys)


LIST_ALERTS = text("""
    SELECT a.rule, a.subject, a.severity, a.incident, a.value, a.since, a.fired_at, a.clear_since,
           a.resolved_at, a.told_at, s.until AS silenced_until, s.principal AS silenced_by,
           s.reason AS silenced_because,
           (SELECT count(*) FROM chot.alert_notices n
             WHERE n.rule = a.rule AND n.subject = a.subject) AS undelivered
      FROM chot.alerts a
      LEFT JOIN chot.alert_silences s ON s.rule = a.rule AND s.until > clock_timestamp()
     WHERE a.fired_at IS NOT NULL AND (CAST(:all AS boolean) OR a.resolved_at IS NULL)
     ORDER BY a.resolved_at DESC NULLS FIRST, a.severity, a.fired_at, a.rule, a.subject
     LIMIT 500""")


async def open_alerts(conn: AsyncConnection, *, resolved: bool = False) -> list[RowMapping]:
    """The alerts that fire, critical first; with those of the last days too, if asked for."""
    return list((await conn.execute(LIST_ALERTS, {"all": resolved})).mappings().all())


LIST_CHANNELS = text("""
    SELECT c.channel, c.seen_at, c.delivered_at, c.failed_at, c.last_error,
           (SELECT count(*) FROM chot.alert_notices n WHERE n.channel = c.channel) AS waiting
      FROM chot.alert_channels c
     WHERE c.seen_at > clock_timestamp() - interval '1 day' ORDER BY c.channel""")
READ_LOOKED = text("""
    SELECT CASE WHEN isfinite(at) THEN extract(epoch FROM clock_timestamp() - at)
                END::double precision AS seconds FROM chot.turns WHERE name = 'alerts'""")


async def list_channels(conn: AsyncConnection) -> Sequence[RowMapping]:
    """The ways out that some process has: when each last worked, and its last error."""
    return (await conn.execute(LIST_CHANNELS)).mappings().all()


async def looked_ago(conn: AsyncConnection) -> float | None:
    """Seconds since somebody last looked at the rules; None: never."""
    found: float | None = await conn.scalar(READ_LOOKED)
    return found


SILENCE = text(f"""
    WITH made AS (
        INSERT INTO chot.alert_silences AS s (rule, until, principal, reason)
        SELECT :rule, clock_timestamp() + make_interval(hours => 1) * CAST(:hours AS float8),
               a.principal, CAST(:reason AS text) FROM chot.actor() AS a
        ON CONFLICT (rule) DO UPDATE
           SET until = excluded.until, principal = excluded.principal, reason = excluded.reason,
               made_at = clock_timestamp()
        RETURNING rule, until, principal, reason),
    {
    noted(
        Action.ALERT_SILENCE,
        "made",
        target="made.rule",
        facts="jsonb_build_object('until', made.until, 'reason', made.reason)",
    )
}
    SELECT rule, until, principal, reason FROM made""")


async def silence(
    conn: AsyncConnection, rule: str, *, hours: float, reason: str | None
) -> Mapping[str, Any]:
    """Tell nobody of this rule for so many hours (0: be told again from now on); audited.

    It is judged and shown meanwhile; what still fires when the silence ends is told then.
    """
    binds = {"rule": rule, "hours": hours, "reason": reason}
    return dict((await conn.execute(SILENCE, binds)).mappings().one())
