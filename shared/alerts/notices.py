"""Notices: what a channel has still to be told of an alert, at least once, never in a storm.

A notice is the latest news of one alert for one channel: what is new replaces what could not be
delivered yet, so that a webhook that was away for a night hears of each alert once. It is taken
with a time for the next try, delivered outside any transaction, and deleted when the channel has
taken exactly that version.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from shared.json_text import to_json

MOST = 100
FIRST_RETRY_SECONDS = 15
LAST_RETRY_SECONDS = 600
LONGEST_ERROR = 500
NOT_SILENCED = """NOT EXISTS (SELECT FROM chot.alert_silences s
                            WHERE s.rule = {0}.rule AND s.until > clock_timestamp())"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """One alert to be told: its body is what the receiver reads."""

    rule: str
    subject: str
    version: int
    body: Mapping[str, Any]


REGISTER = text("""
    INSERT INTO chot.alert_channels AS c (channel) SELECT unnest(CAST(:channels AS text[]))
    ON CONFLICT (channel) DO UPDATE SET seen_at = clock_timestamp()
     WHERE c.seen_at < clock_timestamp() - interval '5 minutes'""")


async def register(conn: AsyncConnection, channels: Iterable[str]) -> None:
    """Say that this process can deliver by these channels."""
    names = sorted(channels)
    if names:
        await conn.execute(REGISTER, {"channels": names})


# Any process may write what another one delivers; a channel that nobody has had for a day is none.
WRITE = text("""
    INSERT INTO chot.alert_notices AS n (channel, rule, subject, body)
    SELECT c.channel, :rule, :subject, CAST(:body AS jsonb) FROM chot.alert_channels c
     WHERE c.seen_at > clock_timestamp() - interval '1 day'
    ON CONFLICT (channel, rule, subject) DO UPDATE
       SET version = n.version + 1, body = excluded.body, tries = 0,
           next_try_at = clock_timestamp()""")


async def write_notices(conn: AsyncConnection, news: Sequence[tuple[str, str, Any]]) -> None:
    """Put (rule, subject, body) down for every channel there is; in the evaluator's transaction."""
    rows = [
        {"rule": rule, "subject": subject, "body": to_json(body)} for rule, subject, body in news
    ]
    if rows:
        await conn.execute(WRITE, rows)


# What is put off for longer than it ever is was put off by a clock that has gone back since. Of a
# rule that is silenced nothing is sent, old news neither.
TAKE = text(f"""
    WITH due AS MATERIALIZED (
        SELECT rule, subject FROM chot.alert_notices w
         WHERE channel = :channel
           AND (next_try_at <= clock_timestamp()
                OR next_try_at > clock_timestamp() + interval '{LAST_RETRY_SECONDS} seconds')
           AND {NOT_SILENCED.format("w")}
         ORDER BY made_at, rule, subject LIMIT {MOST} FOR NO KEY UPDATE SKIP LOCKED)
    UPDATE chot.alert_notices n
       SET tries = n.tries + 1,
           next_try_at = clock_timestamp() + make_interval(secs =>
               (0.5 + random() / 2) * least({LAST_RETRY_SECONDS},
                                            {FIRST_RETRY_SECONDS} * 2 ^ least(n.tries, 10)))
      FROM due WHERE n.channel = :channel AND n.rule = due.rule AND n.subject = due.subject
    RETURNING n.rule, n.subject, n.version, n.body""")


async def take_notices(conn: AsyncConnection, channel: str) -> list[Notice]:
    """What is due for this channel, put off for everybody else; `conn` is in autocommit."""
    rows = (await conn.execute(TAKE, {"channel": channel})).mappings().all()
    return [Notice(**row) for row in sorted(rows, key=lambda row: (row["rule"], row["subject"]))]


DELIVERED = text("""
    WITH told AS (
        DELETE FROM chot.alert_notices n
         USING unnest(CAST(:rules AS text[]), CAST(:subjects AS text[]),
                      CAST(:versions AS bigint[])) AS t (rule, subject, version)
         WHERE n.channel = :channel AND n.rule = t.rule AND n.subject = t.subject
           AND n.version = t.version)
    UPDATE chot.alert_channels SET delivered_at = clock_timestamp() WHERE channel = :channel""")
FAILED = text("""
    UPDATE chot.alert_channels SET failed_at = clock_timestamp(), last_error = :error
     WHERE channel = :channel""")


async def note_delivered(conn: AsyncConnection, channel: str, notices: Sequence[Notice]) -> None:
    """Forget what was delivered; news that came meanwhile stays. In autocommit."""
    binds = {
        "channel": channel,
        "rules": [each.rule for each in notices],
        "subjects": [each.subject for each in notices],
        "versions": [each.version for each in notices],
    }
    await conn.execute(DELIVERED, binds)


async def note_failed(conn: AsyncConnection, channel: str, error: str) -> None:
    """Keep why the channel did not take them, for people to read. In autocommit."""
    said = error.replace("\x00", "")[:LONGEST_ERROR]
    await conn.execute(FAILED, {"channel": channel, "error": said})
