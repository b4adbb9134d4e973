"""`chot keys`: make, list and revoke the keys that the api knows its callers by, end sessions.

They speak to PostgreSQL as its owner (CHOT_MIGRATE_DATABASE_URL) and not to the api: the first key
must come from somewhere, and an api that could make keys would hand them to whoever breaks in.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any, TypeVar

import click
from sqlalchemy import RowMapping, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection

from shared.access import Role, Scope
from shared.api_keys import (
    KEY,
    PRINCIPAL,
    KeyGrant,
    list_keys,
    new_key,
    revoke_key,
    store_key,
    strange_codes,
)
from shared.cli import show
from shared.cli.exits import Exit, Failure
from shared.cli.options import as_json, print_json
from shared.cli.tables import table
from shared.database import is_unreachable, open_engine, sqlstate_of
from shared.errors import ConfigRefused
from shared.sessions import end_sessions
from shared.settings import load_migrate_url

LONGEST_DAYS = 3650
NO_KEY = "there is no key of this id; `chot keys list` has them"
UNDEFINED_TABLE, NOT_PERMITTED = "42P01", "42501"
T = TypeVar("T")
Work = Callable[[AsyncConnection], Coroutine[Any, Any, T]]


@click.group()
def keys() -> None:
    """Make, list and revoke the API keys of this deployment; end the sessions of one.

    Connects as CHOT_MIGRATE_DATABASE_URL (or CHOT_DATABASE_URL), which must be the owner's.
    """


@keys.command()
@click.argument("principal")
@click.option(
    "--role",
    "roles",
    type=click.Choice([role.value for role in Role]),
    multiple=True,
    required=True,
    help="May be repeated; admin holds every right.",
)
@click.option("--company", help="Only jobs of this company.")
@click.option("--brand", "brands", multiple=True, help="Only jobs of this brand; may be repeated.")
@click.option("--all-companies", is_flag=True, help="Jobs of every company.")
@click.option("--days", type=click.IntRange(1, LONGEST_DAYS), default=365, show_default=True)
@click.option("--no-expiry", is_flag=True, help="Valid until it is revoked.")
@as_json
def create(
    *,
    principal: str,
    roles: tuple[str, ...],
    company: str | None,
    brands: tuple[str, ...],
    all_companies: bool,
    days: int,
    no_expiry: bool,
    as_json: bool,
) -> None:
    """Make a key for the account PRINCIPAL and print it, this once: only its hash is stored.

    Idempotency keys and jobs belong to the account: give its next key the same PRINCIPAL.
    """
    if not PRINCIPAL.fullmatch(principal):
        raise click.UsageError("PRINCIPAL has 1 to 100 of a-z, 0-9, '.', '_', '@' and '-'")
    if all_companies == (company is not None):
        raise click.UsageError("say whose jobs: --company CODE, or --all-companies")
    if brands and company is None:
        raise click.UsageError("--brand goes with --company")
    grant = KeyGrant(
        principal=principal,
        roles=[Role(role) for role in dict.fromkeys(roles)],
        scope=Scope(company=company, brands=tuple(dict.fromkeys(brands)) or None),
        days=None if no_expiry else days,
    )
    key = new_key()
    row = _as_owner(lambda conn: _store(conn, key, grant))
    if as_json:
        print_json({"key": key} | _shown(row))
        return
    click.echo(key)
    until = show.moment(_instant(row["expires_at"])) or "it is revoked"
    said = f"key {row['key_id']} of {principal}, valid until {until}; it is not shown again"
    click.echo(said, err=True)


async def _store(conn: AsyncConnection, key: str, grant: KeyGrant) -> RowMapping:
    strange = await strange_codes(conn, grant.scope)
    if strange:
        raise Failure(f"there is no {', no '.join(strange)}", code=Exit.REFUSED)
    row = await store_key(conn, key, grant)
    assert row is not None, "48 random bits of an id are not taken"
    return row


@keys.command("list")
@as_json
def list_(*, as_json: bool) -> None:
    """List every key by its public id, with what it may do and when it was last used."""
    rows = _as_owner(list_keys)
    if as_json:
        print_json({"keys": [_shown(row) for row in rows]})
        return
    cells = [
        (
            row["key_id"],
            row["principal"],
            ", ".join(row["roles"]),
            _whose(row),
            row["state"],
            *(show.moment(_instant(row[name])) for name in ("expires_at", "last_used_at")),
        )
        for row in rows
    ]
    columns = ("id", "account", "roles", "for", "state", "expires", "last used")
    told = table("", columns, cells, below=("roles", "expires", "last used"))
    show.console().print(told if cells else "no keys")


@keys.command()
@click.argument("key_id", metavar="ID")
@as_json
def revoke(*, key_id: str, as_json: bool) -> None:
    """End a key for good: within seconds no api takes it any more. May be repeated."""
    public = _public_id(key_id)
    row = _as_owner(lambda conn: revoke_key(conn, public))
    if row is None:
        raise Failure(NO_KEY, code=Exit.NOT_FOUND)
    if as_json:
        print_json({name: _plain(value) for name, value in row.items()})
    else:
        click.echo(f"key {public} of {row['principal']} is revoked")


@keys.command()
@click.argument("key_id", metavar="ID")
@as_json
def logout(*, key_id: str, as_json: bool) -> None:
    """End all sessions of a key at /ui/, in every browser within seconds; the key stays good."""
    public = _public_id(key_id)
    ended = _as_owner(lambda conn: _log_out(conn, public))
    if as_json:
        print_json({"key_id": public, "sessions": ended})
    else:
        click.echo(f"{ended} session{'' if ended == 1 else 's'} of key {public} ended")


async def _log_out(conn: AsyncConnection, key_id: str) -> int:
    if key_id not in {row["key_id"] for row in await list_keys(conn)}:
        raise Failure(NO_KEY, code=Exit.NOT_FOUND)
    return await end_sessions(conn, key_id)


def _public_id(given: str) -> str:
    """Somebody has a leaked key at hand, not its id."""
    whole = KEY.fullmatch(given)
    return whole[1] if whole else given


def _as_owner(work: Work[T]) -> T:
    """Run it in one transaction of the owner; failures become sentences with exit codes."""
    try:
        return asyncio.run(_run(load_migrate_url(), work))
    except ConfigRefused as refusal:
        raise Failure(str(refusal), code=Exit.CONFIG) from None
    except (DBAPIError, OSError) as error:
        raise _failure_of(error) from None


async def _run(url: str, work: Work[T]) -> T:
    async with _owned(url) as conn:
        return await work(conn)


@asynccontextmanager
async def _owned(url: str) -> AsyncIterator[AsyncConnection]:
    engine = open_engine(url, pool_size=0, application_name="chot keys")
    async with engine.begin() as conn:
        await conn.execute(text("SET LOCAL ROLE chot_owner"))
        yield conn


def _failure_of(error: DBAPIError | OSError) -> Failure:
    if is_unreachable(error):
        said = "no answer from PostgreSQL; CHOT_MIGRATE_DATABASE_URL says where to look"
        return Failure(said, code=Exit.UNAVAILABLE)
    if sqlstate_of(error) == UNDEFINED_TABLE:
        return Failure("the schema has no keys yet: run `chot migrate`", code=Exit.REFUSED)
    if sqlstate_of(error) == NOT_PERMITTED:
        said = "keys are made by the owner of the database: set CHOT_MIGRATE_DATABASE_URL"
        return Failure(said, code=Exit.REFUSED)
    cause = error.orig if isinstance(error, DBAPIError) else error
    return Failure(f"PostgreSQL refused: {cause}", code=Exit.REFUSED)


def _shown(row: RowMapping) -> dict[str, Any]:
    return {name: _plain(value) for name, value in row.items()}


def _plain(value: Any) -> Any:
    return _instant(value) if isinstance(value, datetime) else value


def _instant(value: datetime | None) -> str | None:
    return None if value is None else value.astimezone(UTC).isoformat().replace("+00:00", "Z")


def _whose(row: RowMapping) -> str:
    if row["company"] is None:
        return "all companies"
    return "/".join(filter(None, (row["company"], ",".join(row["brands"] or ()))))
