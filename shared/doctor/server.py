"""The server: its version, room for connections, its clock, vacuum, and what holds dead rows."""

import time

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from shared.doctor.finding import Finding, sql

OLDEST = 150_000
CROWDED_PERCENT = 85
CLOCK_SECONDS = 5.0
SIGNATURE_SECONDS = 300.0  # AWS refuses signatures that are older
TRANSACTION_SECONDS = 600
PREPARED_SECONDS = 300
SLOT_BYTES = 8 << 30
SLOT_XMIN_AGE = 1_000_000
WRAPAROUND = 1_000_000_000
DEAD_ROWS = 100_000
HOT = ("jobs", "outbox", "published", "idempotency_keys", "attempts", "job_outputs")

READ_SERVER = text("""
    SELECT current_setting('server_version_num')::integer AS number,
           current_setting('server_version') AS version,
           current_setting('max_connections')::integer AS most,
           current_setting('superuser_reserved_connections')::integer AS reserved,
           (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend') AS used,
           pg_is_in_recovery() AS standby,
           current_setting('transaction_read_only') AS read_only,
           current_setting('autovacuum') AS autovacuum,
           current_setting('track_counts') AS track_counts,
           age(d.datfrozenxid) AS age
      FROM pg_database d WHERE d.datname = current_database()""")


async def check_server(conn: AsyncConnection, *, needed: int | None) -> list[Finding]:
    """Version, read-only, connections; `needed` are those of one more api and one more worker."""
    row = (await conn.execute(READ_SERVER)).one()
    found = []
    if row.number < OLDEST:
        found.append(
            Finding(
                code="server-old",
                severity="critical",
                seen=f"PostgreSQL {row.version}",
                why="statements here need 15 or newer; api and worker refuse to work on it",
                remedy=("pg_upgrade, or a newer engine version of the managed database",),
            )
        )
    if row.standby or row.read_only == "on":
        found.append(
            Finding(
                code="server-read-only",
                severity="critical",
                seen="the server is a standby" if row.standby else "transactions are read-only",
                why="no job can be taken or claimed: a failover, or the address of a reader",
                remedy=("point CHOT_DATABASE_URL at the writer's address",),
            )
        )
    room = row.most - row.reserved - row.used
    crowded = 100 * row.used > CROWDED_PERCENT * (row.most - row.reserved)
    if crowded or (needed is not None and room < needed):
        wanted = f"; one more api and one more worker want {needed}" if needed is not None else ""
        found.append(
            Finding(
                code="connections",
                severity="warning",
                seen=f"{row.used} of {row.most} connections in use, {room} left{wanted}",
                why="a rolling deployment runs old and new at once: what finds no connection waits",
                remedy=(
                    sql(f"ALTER SYSTEM SET max_connections = {2 * row.most}")
                    + "   # and restart; or smaller CHOT_API_POOL_SIZE, CHOT_CONCURRENCY",
                ),
            )
        )
    return found + _vacuum_settings(row.autovacuum, row.track_counts, row.age)


def _vacuum_settings(autovacuum: str, track_counts: str, age: int) -> list[Finding]:
    found = []
    for name, value in (("autovacuum", autovacuum), ("track_counts", track_counts)):
        if value == "off":
            found.append(
                Finding(
                    code="autovacuum-off",
                    severity="critical",
                    seen=f"{name} is off",
                    why="dead rows are never removed: each claim reads more of them, for ever",
                    remedy=(
                        sql(f"ALTER SYSTEM SET {name} = on"),
                        sql("SELECT pg_reload_conf()"),
                    ),
                )
            )
    if age > WRAPAROUND:
        found.append(
            Finding(
                code="wraparound",
                severity="critical",
                seen=f"the oldest frozen transaction is {age:,} transactions ago",
                why="at 2,100,000,000 the server stops taking writes",
                remedy=('vacuumdb --freeze --jobs 4 "$CHOT_MIGRATE_DATABASE_URL"',),
            )
        )
    return found


async def check_clock(conn: AsyncConnection) -> list[Finding]:
    """This machine's clock against the database's; only the latter decides anything."""
    before = time.time()
    there = float(
        await conn.scalar(text("SELECT extract(epoch FROM clock_timestamp())::float8")) or 0
    )
    after = time.time()
    apart = there - (before + after) / 2
    if abs(apart) <= CLOCK_SECONDS + (after - before):
        return []
    return [
        Finding(
            code="clock",
            severity="warning" if abs(apart) > SIGNATURE_SECONDS else "note",
            seen=f"this machine's clock is {abs(apart):.0f} s "
            f"{'behind' if apart > 0 else 'ahead of'} the database's",
            why="no lease hangs on it, but logs disagree, and AWS refuses requests signed five "
            "minutes off",
            remedy=("timedatectl set-ntp true",),
        )
    ]


READ_TRANSACTIONS = text("""
    SELECT pid, usename AS role, application_name AS application, state,
           extract(epoch FROM clock_timestamp() - xact_start)::integer AS seconds
      FROM pg_stat_activity
     WHERE datname = current_database() AND pid <> pg_backend_pid()
       AND backend_type = 'client backend'
       AND (backend_xmin IS NOT NULL OR backend_xid IS NOT NULL)
       AND xact_start < clock_timestamp() - make_interval(secs => :seconds)
     ORDER BY xact_start LIMIT 5""")
READ_PREPARED = text("""
    SELECT gid, owner, extract(epoch FROM clock_timestamp() - prepared)::integer AS seconds
      FROM pg_prepared_xacts
     WHERE database = current_database()
       AND prepared < clock_timestamp() - make_interval(secs => :seconds) ORDER BY prepared""")
READ_SLOTS = text("""
    SELECT slot_name, active, coalesce(age(xmin), age(catalog_xmin)) AS age, wal_status,
           pg_wal_lsn_diff(CASE WHEN pg_is_in_recovery() THEN pg_last_wal_receive_lsn()
                                ELSE pg_current_wal_lsn() END, restart_lsn)::bigint AS kept
      FROM pg_replication_slots WHERE NOT temporary ORDER BY slot_name""")


async def check_horizon(
    conn: AsyncConnection,
    *,
    seconds: float = TRANSACTION_SECONDS,
    prepared: float = PREPARED_SECONDS,
) -> list[Finding]:
    """Who keeps dead rows from being removed: transactions, prepared ones, slots."""
    why = "no row that died since then can be removed: every claim reads more of them"
    found = [
        Finding(
            code="transaction-long",
            severity="warning",
            seen=f"a transaction of {row.role} ({row.application or 'no name'}, pid {row.pid}, "
            f"{row.state}) has been open for {row.seconds:,} s",
            why=why,
            remedy=(sql(f"SELECT pg_terminate_backend({row.pid})"),),
        )
        for row in (await conn.execute(READ_TRANSACTIONS, {"seconds": seconds})).all()
    ]
    found += [
        Finding(
            code="transaction-prepared",
            severity="critical",
            seen=f"prepared transaction {row.gid!r} of {row.owner} waits since {row.seconds:,} s",
            why=why + ", and its locks are held, restart or not",
            remedy=(sql("ROLLBACK PREPARED '{}'".format(row.gid.replace("'", "''"))),),
        )
        for row in (await conn.execute(READ_PREPARED, {"seconds": prepared})).all()
    ]
    for row in (await conn.execute(READ_SLOTS)).all():
        far = row.kept is not None and row.kept > SLOT_BYTES
        if not row.active or far or (row.age or 0) > SLOT_XMIN_AGE:
            found.append(
                Finding(
                    code="slot",
                    severity="critical" if far or row.wal_status == "lost" else "warning",
                    seen=f"replication slot {row.slot_name} is "
                    f"{'active' if row.active else 'not read by anybody'} and keeps "
                    f"{(row.kept or 0) / (1 << 20):,.0f} MB of WAL",
                    why="WAL is kept for it until the disk is full"
                    + (", and rows that died since" if row.age else ""),
                    remedy=(sql(f"SELECT pg_drop_replication_slot('{row.slot_name}')"),),
                )
            )
    return found


READ_TABLES = text("""
    SELECT c.relname AS name, s.n_dead_tup AS dead, s.n_live_tup AS live, c.reloptions
      FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
      LEFT JOIN pg_stat_user_tables s ON s.relid = c.oid
     WHERE n.nspname = 'chot' AND c.relkind = 'r' ORDER BY 1""")


async def check_vacuum(conn: AsyncConnection, *, dead_rows: int = DEAD_ROWS) -> list[Finding]:
    """Autovacuum on the hot tables, and what it has left behind."""
    found = []
    for row in (await conn.execute(READ_TABLES)).all():
        options = dict(each.split("=", 1) for each in row.reloptions or [])
        if options.get("autovacuum_enabled") in {"false", "off"}:
            found.append(
                Finding(
                    code="autovacuum-table",
                    severity="critical" if row.name in HOT else "warning",
                    seen=f"autovacuum is switched off for chot.{row.name}",
                    why="its dead rows are never removed: what reads it slows down without end",
                    remedy=(sql(f"ALTER TABLE chot.{row.name} RESET (autovacuum_enabled)"),),
                )
            )
        if row.dead is not None and row.dead > max(dead_rows, 0.2 * row.live):
            found.append(
                Finding(
                    code="dead-rows",
                    severity="warning",
                    seen=f"chot.{row.name} has {row.dead:,} dead rows and {row.live:,} live ones",
                    why="autovacuum is off, too slow, or kept from it by an old transaction",
                    remedy=(sql(f"VACUUM (ANALYZE) chot.{row.name}"),),
                )
            )
    return found
