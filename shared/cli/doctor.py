"""`chot doctor`: everything that a deployment hangs on, what hangs, and a restored database."""

import asyncio

import click
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection

from shared.cli.exits import Exit, Failure
from shared.cli.options import as_json, print_json
from shared.cli.plain import visible
from shared.database import is_unreachable, open_engine
from shared.doctor import Finding, Report
from shared.errors import ConfigRefused
from shared.jobs.limits import limits_of
from shared.jobs.stops import books_frozen, covers_books, kind_paused
from shared.restored import mark_restored
from shared.settings import MigrateSettings, load_migrate_url

DATABASE_URL = "CHOT_DATABASE_URL"

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
@click.option(
    "--ignore",
    "ignored",
    multiple=True,
    metavar="CODE",
    help="Leave findings of this code out; may be given again.",
)
@as_json
@click.pass_context
def doctor(
    context: click.Context, /, *, restored: bool, ignored: tuple[str, ...], as_json: bool
) -> None:
    """Look at all that a deployment hangs on, and at what hangs or has died (exit code 1).

    Or put a restored database right. Changes nothing but by --restored. Connects as
    CHOT_MIGRATE_DATABASE_URL (or CHOT_DATABASE_URL; --restored needs the owner), and looks at
    SQS, S3 and the settings of api and worker as far as they are set here.
    """
    try:
        url = load_migrate_url()
        if restored:
            _show_counts(asyncio.run(_restored(url)), as_json=as_json)
            return
    except ConfigRefused as refusal:
        raise Failure(str(refusal), code=Exit.CONFIG) from None
    except (DBAPIError, OSError) as error:
        away = is_unreachable(error)
        said = f"the database {'cannot be reached' if away else 'refuses'}: {error}"
        raise Failure(said, code=Exit.UNAVAILABLE if away else Exit.REFUSED) from None
    report = asyncio.run(_examined(url))
    findings = report.ordered(ignored)
    if as_json:
        print_json(
            report.signs
            | {"findings": [each.as_json() for each in findings], "unchecked": report.unchecked}
        )
    else:
        _show(report, findings)
    context.exit(_code(report, findings))


def _code(report: Report, findings: list[Finding]) -> Exit:
    if any(each.code == "database-away" for each in findings) and report.database_away:
        return Exit.UNAVAILABLE
    wrong = any(each.severity != "note" for each in findings) or any(report.signs.values())
    return Exit.NO if wrong else Exit.OK


def _show(report: Report, findings: list[Finding]) -> None:
    _show_counts(report.signs, as_json=False)
    for each in findings:
        click.echo("")
        click.secho(visible(f"{each.severity}: {each.seen} [{each.code}]"), bold=True)
        click.echo(visible(f"  {each.why}"))
        for command in each.remedy:
            click.echo(visible(f"  $ {command}"))
    if report.unchecked:
        click.echo("\nnot checked:")
        for what in report.unchecked:
            click.echo(visible(f"  {what}"))
    if not findings:
        said = "nothing is found" + (" in what was checked" if report.unchecked else "")
        click.echo(said, err=True)


def _show_counts(found: dict[str, int], *, as_json: bool) -> None:
    if as_json:
        print_json(found)
    elif found:
        click.echo("\n".join(_line(sign, count) for sign, count in found.items()))


def _line(sign: str, count: int) -> str:
    what, advice = SIGNS[sign]
    return f"{count:>12,}  {what}" + (f": {advice}" if count and advice else "")


async def _signs(conn: AsyncConnection) -> dict[str, int]:
    return dict((await conn.execute(READ_SIGNS)).mappings().one())


async def _examined(url: str) -> Report:
    # Late: migrations and AWS are much to import, and --restored needs neither.
    from shared.cli.migrate import known_revisions  # noqa: PLC0415
    from shared.doctor.examine import Doctor, Revisions  # noqa: PLC0415

    name = "CHOT_MIGRATE_DATABASE_URL" if MigrateSettings().migrate_database_url else DATABASE_URL
    known = known_revisions()
    return await Doctor(
        url=url,
        url_name=name,
        revisions=None if known is None else Revisions(head=known[0], known=known[1]),
        signs=_signs,
        report=Report(),
    ).examine()


async def _restored(url: str) -> dict[str, int]:
    engine = open_engine(url, pool_size=0, application_name="chot doctor")
    seen = frozen = 0
    async for seen, frozen in mark_restored(engine):
        click.echo(f"{seen:,} movements seen, {frozen:,} made visible", err=True)
    return {"movements_seen": seen, "movements_made_visible": frozen}
