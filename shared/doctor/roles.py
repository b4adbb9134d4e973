"""Roles: what each may do in this database, and as whom the processes log in."""

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from shared.doctor.finding import Finding, name_of, sql

LEDGER = (
    "books.stock_movements",
    "books.gl_entries",
    "books.gl_lines",
    "books.gl_line_digests",
    "books.gl_series",
    "chot.audit",
)
# Nobody who serves requests reads hashes of keys; what sessions are made of is the api's alone.
HIDDEN = {
    "chot_app": ("chot.api_keys",),
    "chot_read": ("chot.api_keys", "chot.session_secrets", "chot.sessions"),
}
ROLES = ("chot_owner", "chot_app", "chot_read", "chot_enqueue")
NEEDED = (("chot.jobs", "INSERT"), ("chot.jobs", "UPDATE"), ("chot.outbox", "INSERT"))
CEILINGS = {
    "chot_app": {"lock_timeout": "4s", "idle_in_transaction_session_timeout": "20s"},
    "chot_read": {"default_transaction_read_only": "on"},
    "chot_enqueue": {"lock_timeout": "4s"},
}
JIT_OFF = ("chot_app", "chot_read", "chot_enqueue")

READ_ROLES = text("""
    SELECT rolname, rolsuper, rolbypassrls, rolcreaterole, rolcreatedb, rolreplication
      FROM pg_roles WHERE rolname = ANY(CAST(:names AS text[]))""")
READ_TABLE_RIGHTS = text("""
    SELECT n.nspname || '.' || c.relname AS name, r.rolname AS role, p.what,
           CASE WHEN p.what IN ('SELECT', 'INSERT', 'UPDATE')
                THEN has_any_column_privilege(r.oid, c.oid, p.what)
                ELSE has_table_privilege(r.oid, c.oid, p.what) END AS may
      FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
     CROSS JOIN pg_roles r
     CROSS JOIN unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE', 'TRUNCATE']) AS p (what)
     WHERE n.nspname IN ('chot', 'books') AND c.relkind IN ('r', 'p', 'v') AND NOT c.relispartition
       AND r.rolname IN ('chot_app', 'chot_read', 'chot_enqueue') AND NOT r.rolsuper
     ORDER BY 1, 2, 3""")
READ_FUNCTION_RIGHTS = text("""
    SELECT p.oid::regprocedure::text AS name, p.proname,
           has_function_privilege('chot_enqueue', p.oid, 'EXECUTE') AS enqueue,
           has_function_privilege('chot_app', p.oid, 'EXECUTE') AS app
      FROM pg_proc p WHERE p.pronamespace = 'chot'::regnamespace ORDER BY 1""")
READ_SETTINGS = text("""
    SELECT s.setrole::regrole::text AS role, item
      FROM pg_db_role_setting s, unnest(s.setconfig) AS item
     WHERE s.setrole <> 0 AND (s.setdatabase = 0 OR s.setdatabase = (
               SELECT oid FROM pg_database WHERE datname = current_database()))""")
READ_LOGIN = text("""
    SELECT current_user AS role, r.rolsuper, r.rolbypassrls, r.rolcreaterole,
           pg_has_role(current_user, 'chot_owner', 'MEMBER') AS owner,
           pg_has_role(current_user, 'chot_app', 'MEMBER') AS app
      FROM pg_roles r WHERE r.rolname = current_user""")


async def check_roles(conn: AsyncConnection) -> list[Finding]:
    """The four roles: there, without attributes of a superuser, with their rights and no others."""
    rows = (await conn.execute(READ_ROLES, {"names": list(ROLES)})).mappings().all()
    there = {row["rolname"] for row in rows}
    found = [
        Finding(
            code="role-missing",
            severity="critical",
            seen=f"there is no role {role}",
            why="the migrations make it; without it processes cannot log in with its rights only",
            remedy=(sql(f"CREATE ROLE {role} LOGIN"), "chot migrate"),
        )
        for role in ROLES
        if role not in there
    ]
    for row in rows:
        found += _attributes(row["rolname"], row)
    if len(there) < len(ROLES):
        return found
    return found + await _tables(conn) + await _functions(conn) + await _ceilings(conn)


ATTRIBUTES = {
    "rolsuper": "SUPERUSER",
    "rolbypassrls": "BYPASSRLS",
    "rolcreaterole": "CREATEROLE",
    "rolcreatedb": "CREATEDB",
    "rolreplication": "REPLICATION",
}


def _attributes(role: str, row: object) -> list[Finding]:
    held = [word for name, word in ATTRIBUTES.items() if row[name]]  # type: ignore[index] # a mapping
    if not held:
        return []
    return [
        Finding(
            code="role-attributes",
            severity="critical" if role != "chot_owner" else "warning",
            seen=f"role {role} is {', '.join(held)}",
            why="a superuser ignores every grant: the ledger could be changed by any process",
            remedy=(sql(f"ALTER ROLE {role} {' '.join('NO' + word for word in held)}"),),
        )
    ]


async def _tables(conn: AsyncConnection) -> list[Finding]:
    rows = (await conn.execute(READ_TABLE_RIGHTS)).all()
    too_much: dict[tuple[str, str], list[str]] = {}
    missing: dict[str, list[str]] = {}
    for row in rows:
        if row.may and _beyond(row.role, row.name, row.what):
            too_much.setdefault((row.role, row.what), []).append(row.name)
        if not row.may and _wanted(row.role, row.name, row.what):
            missing.setdefault(row.role, []).append(f"{row.what} ON {row.name}")
    found = [
        Finding(
            code="ledger-writable" if role == "chot_app" else "role-writes",
            severity="critical",
            seen=f"{role} may {what} {_some(tables)}",
            why=(
                "what has moved stays as it was written: a correction is a new entry"
                if role == "chot_app"
                else "only chot_app writes: everything else would stand beside the fence"
            ),
            remedy=tuple(
                sql(f"REVOKE {what} ON {table} FROM {role}")
                if what in {"DELETE", "TRUNCATE"}
                else sql(_revoke_columns(role, what, table))
                for table in tables
            ),
        )
        for (role, what), tables in too_much.items()
    ]
    found += [
        Finding(
            code="rights-missing",
            severity="critical",
            seen=f"{role} may not {_some(rights)}",
            why="grants come with the migrations; a restore with --no-acl leaves them behind",
            remedy=tuple(sql(f"GRANT {right} TO {role}") for right in rights),
        )
        for role, rights in missing.items()
    ]
    return found


def _beyond(role: str, table: str, what: str) -> bool:
    if role == "chot_app":
        return what == "TRUNCATE" or (table in LEDGER and what in {"UPDATE", "DELETE"})
    return what != "SELECT" if role == "chot_read" else True


def _wanted(role: str, table: str, what: str) -> bool:
    if what == "SELECT":
        return role in HIDDEN and table not in HIDDEN[role]
    return role == "chot_app" and (table, what) in NEEDED


def _revoke_columns(role: str, what: str, table: str) -> str:
    """A right on a column is not taken away with the one on its table: both are."""
    return (
        f"DO $$ DECLARE c text; BEGIN EXECUTE 'REVOKE {what} ON {table} FROM {role}'; FOR c IN "
        f"SELECT attname FROM pg_attribute WHERE attrelid = '{table}'::regclass AND attnum > 0 "
        f"AND NOT attisdropped LOOP EXECUTE format('REVOKE {what} (%I) ON {table} FROM {role}', c)"
        "; END LOOP; END $$"
    )


async def _functions(conn: AsyncConnection) -> list[Finding]:
    rows = (await conn.execute(READ_FUNCTION_RIGHTS)).all()
    strange = [row.name for row in rows if row.enqueue and row.proname not in ENQUEUE_MAY]
    lacks = [row.name for row in rows if not row.enqueue and row.proname in ENQUEUE_MAY]
    found = []
    if strange:
        found.append(
            Finding(
                code="enqueue-executes",
                severity="critical",
                seen=f"chot_enqueue may execute {_some(strange)}",
                why="other services log in as it: it submits jobs and does nothing else",
                remedy=tuple(
                    sql(f"REVOKE EXECUTE ON FUNCTION {name} FROM chot_enqueue, PUBLIC")
                    for name in strange
                ),
            )
        )
    if lacks:
        found.append(
            Finding(
                code="rights-missing",
                severity="critical",
                seen=f"chot_enqueue may not execute {_some(lacks)}",
                why="other services submit jobs by it",
                remedy=tuple(
                    sql(f"GRANT EXECUTE ON FUNCTION {name} TO chot_enqueue") for name in lacks
                ),
            )
        )
    return found


ENQUEUE_MAY = frozenset({"enqueue", "enqueue_many"})


async def _ceilings(conn: AsyncConnection) -> list[Finding]:
    rows = (await conn.execute(READ_SETTINGS)).all()
    held = {(row.role, row.item.partition("=")[0]) for row in rows}
    database = name_of(str(await conn.scalar(text("SELECT current_database()"))))
    wanted = [
        (role, name, value)
        for role, settings in CEILINGS.items()
        for name, value in settings.items()
    ] + [(role, "jit", "off") for role in JIT_OFF]
    lost = [each for each in wanted if each[:2] not in held]
    if not lost:
        return []
    said = _some([f"{name} of {role}" for role, name, _ in lost])
    return [
        Finding(
            code="role-settings",
            severity="warning",
            seen=f"not set in this database: {said}",
            why="they bound statements that set nothing themselves; a restore into a database of "
            "another name loses them",
            remedy=tuple(
                sql(f"ALTER ROLE {role} IN DATABASE {database} SET {name} = '{value}'")
                for role, name, value in lost
            ),
        )
    ]


async def check_login(conn: AsyncConnection, variable: str) -> list[Finding]:
    """As whom a process logs in by CHOT_DATABASE_URL."""
    row = (await conn.execute(READ_LOGIN)).one()
    if row.rolsuper or row.rolbypassrls or row.owner:
        held = "a superuser" if row.rolsuper else "BYPASSRLS" if row.rolbypassrls else "the owner"
        return [
            Finding(
                code="login-too-strong",
                severity="critical",
                seen=f"{variable} logs in as {row.role}, who is {held}",
                why="every grant is ignored: the ledger could be changed by any process",
                remedy=(
                    sql("ALTER ROLE chot_app PASSWORD '…'"),
                    f"export {variable}=postgresql://chot_app:…@HOST/DATABASE",
                ),
            )
        ]
    if not row.app:
        return [
            Finding(
                code="login-too-weak",
                severity="critical",
                seen=f"{variable} logs in as {row.role}, who is no member of chot_app",
                why="api and worker need its rights, and wait for them until they have them",
                remedy=(f"export {variable}=postgresql://chot_app:…@HOST/DATABASE",),
            )
        ]
    return []


def _some(names: list[str], most: int = 4) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
