"""`chot doctor`: what a database needs after it was restored, and a look at what hangs."""

import asyncio

import click
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from shared.cli.exits import Exit, Failure
from shared.cli.options import as_json, print_json
from shared.database import is_unreachable, open_engine
from shared.errors import ConfigRefused
from shared.jobs.limits import limits_of
from shared.jobs.stops import books_frozen, covers_books, kind_paused
from shared.restored import mark_restored, refuse_restored
from shared.settings import load_migrate_url

READ_SIGNS = text(f"""
    SELECT (SELECT count(*) FROM chot.jobs WHERE state = 'running'
               AND lease_expires_at < clock_timestamp()) AS jobs_with_expired_lease,
           (SELECT count(*) FROM chot.jobs WHERE state = 'dead') AS dead_jobs,
           (SELECT count(*) FROM chot.dead_messages) AS dead_messages,
           (SELECT count(*) FROM chot.outbox WHERE quarantined_at IS NOT NULL)
               AS quarantined_messages,
           (SELECT count(*) FROM chot.outbox o
             WHERE o.quarantined_at IS NULL
               AND o.next_send_at < clock_timestamp() - interval '1 minute'
               AND NOT EXISTS (SELECT FROM chot.queues q WHERE q.name = o.queue AND q.paused)
               AND NOT EXISTS (SELECT FROM chot.published p WHERE p.queue = o.queue)
               AND NOT {kind_paused("o")} AND NOT {books_frozen("o")}
               AND NOT EXISTS ({limits_of("o")}))
               AS overdue_messages,
           (SELECT count(*) FROM chot.queues q WHERE q.paused
               AND EXISTS (SELECT FROM chot.jobs j WHERE j.queue = q.name AND j.state = 'pending'))
               AS paused_queues,
           (SELECT count(*) FROM chot.kinds k WHERE k.paused
               AND EXISTS (SELECT FROM chot.jobs j WHERE j.kind = k.name AND j.state = 'pending'))
               AS paused_kinds,
           (SELECT count(*) FROM chot.freezes cf
             WHERE EXISTS (SELECT FROM chot.jobs j
                            WHERE j.state = 'pending' AND {covers_books("j")})) AS frozen_books,
           (SELECT count(*) FROM chot.queues q WHERE NOT q.paused
               AND EXISTS (SELECT FROM chot.jobs j WHERE j.queue = q.name AND j.state = 'pending')
               AND NOT EXISTS (SELECT FROM chot.worker_queues w JOIN chot.workers USING (worker_id)
                                WHERE w.queue = q.name AND live_until > clock_timestamp()))
               AS unserved_queues""")
# Sign → what it is, what to do about it.
SIGNS = {
    "jobs_with_expired_lease": ("jobs with an expired lease", "a worker's reaper takes them"),
    "dead_jobs": ("dead jobs", "`chot dead-letters` says why, `chot redrive` runs them again"),
    "dead_messages": ("dead messages", "`chot dead-letters` shows them"),
    "quarantined_messages": ("messages that SQS refused for good", "see last_error in chot.outbox"),
    "overdue_messages": ("messages overdue by a minute", "is SQS, is an api or worker there?"),
    "paused_queues": (
        "paused queues with jobs",
        "`chot queues` names them, `chot resume QUEUE` starts them",
    ),
    "paused_kinds": (
        "paused kinds with jobs",
        "`chot kinds` names them, `chot resume --kind KIND` starts them",
    ),
    "frozen_books": (
        "frozen books with jobs",
        "`chot freezes` names them, `chot thaw` ends a freeze",
    ),
    "unserved_queues": ("queues with jobs and no live worker", "start a worker for them"),
    "movements_seen": ("movements seen", ""),
    "movements_made_visible": ("movements made visible", ""),
}


@click.command()
@click.option(
    "--restored",
    is_flag=True,
    help="After any restore but a physical one: make movements visible, change deployment_id.",
)
@as_json
@click.pass_context
def doctor(context: click.Context, /, *, restored: bool, as_json: bool) -> None:
    """Look for what hangs or has died (exit code 1), or put a restored database right.

    Connects as CHOT_MIGRATE_DATABASE_URL (or CHOT_DATABASE_URL; --restored needs the owner).
    """
    try:
        url = load_migrate_url()
        found = asyncio.run(_restored(url) if restored else _signs(url))
    except ConfigRefused as refusal:
        raise Failure(str(refusal), code=Exit.CONFIG) from None
    except (DBAPIError, OSError) as error:
        away = is_unreachable(error)
        said = f"the database {'cannot be reached' if away else 'refuses'}: {error}"
        raise Failure(said, code=Exit.UNAVAILABLE if away else Exit.REFUSED) from None
    if as_json:
        print_json(found)
    else:
        click.echo("\n".join(_line(sign, count) for sign, count in found.items()))
    context.exit(Exit.NO if not restored and any(found.values()) else Exit.OK)


def _line(sign: str, count: int) -> str:
    what, advice = SIGNS[sign]
    return f"{count:>12,}  {what}" + (f": {advice}" if count and advice else "")


async def _signs(url: str) -> dict[str, int]:
    engine = open_engine(url, pool_size=0, application_name="chot doctor")
    async with engine.connect() as conn:
        await refuse_restored(conn)
        return dict((await conn.execute(READ_SIGNS)).mappings().one())


async def _restored(url: str) -> dict[str, int]:
    engine = open_engine(url, pool_size=0, application_name="chot doctor")
    seen = frozen = 0
    async for seen, frozen in mark_restored(engine):
        click.echo(f"{seen:,} movements seen, {frozen:,} made visible", err=True)
    return {"movements_seen": seen, "movements_made_visible": frozen}
