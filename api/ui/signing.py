"""What sessions are signed with: secrets in PostgreSQL, so that all api processes agree.

The newest signs; one is replaced after ROTATE_DAYS and still believed until every session that it
signed has ended. Only role app reads the table. Whoever has them all the same, by a dump say, signs
nothing that is believed: a session has a row of its own too (session_rows.py).
"""

import asyncio
import hashlib
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from time import monotonic
from typing import Any

from itsdangerous import BadSignature, URLSafeSerializer
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from api.resources import Resources
from shared.database import transaction
from shared.sessions import SESSION_HOURS

SECRET_BYTES = 32
ROTATE_DAYS = 30
# How old the list of secrets may be, and how soon a cookie that none of them knows may have it
# read again: another process may have made one just now, and a guesser must not ask for us.
KNOWN_SECONDS = 60.0
AGAIN_SECONDS = 1.0

READ_SECRETS = text(f"""
    SELECT secret FROM chot.session_secrets
     WHERE created_at > clock_timestamp() - interval '{ROTATE_DAYS} days {SESSION_HOURS + 1} hours'
     ORDER BY created_at, id""")
NEED_SECRET = text(f"""
    SELECT NOT EXISTS (SELECT FROM chot.session_secrets
                        WHERE created_at > clock_timestamp() - interval '{ROTATE_DAYS} days')""")
# Whoever comes second finds the first one's: a new statement after the lock sees what it committed.
LOCK_SECRETS = text("SELECT pg_advisory_xact_lock(hashtextextended('chot session secrets', 0))")
ADD_SECRET = text("INSERT INTO chot.session_secrets (secret) VALUES (:secret)")
DROP_SECRETS = text(f"""
    DELETE FROM chot.session_secrets
     WHERE created_at <= clock_timestamp() - interval '{ROTATE_DAYS} days {SESSION_HOURS + 1} hours'
""")


@dataclass(slots=True)
class Signer:
    """Signs and reads small JSON values; the database is asked once a minute at most."""

    resources: Resources
    _secrets: Sequence[bytes] = ()
    _read_at: float = float("-inf")
    _made_at: float = float("-inf")
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    _reading: "asyncio.Task[None] | None" = None

    async def sign(self, value: Any) -> str:
        """The value as text for a cookie; makes a secret where there is none or it is old."""
        if not self._secrets or monotonic() - self._made_at > KNOWN_SECONDS:
            await self._renew()
        return str(self._serializer().dumps(value))

    async def read(self, signed: str) -> Any:
        """The value, or None for what none of today's secrets has signed."""
        await self._read(KNOWN_SECONDS)
        value = self._value(signed)
        if value is None and await self._read(AGAIN_SECONDS):
            value = self._value(signed)
        return value

    def _value(self, signed: str) -> Any:
        if not self._secrets:
            return None
        try:
            return self._serializer().loads(signed)
        except BadSignature:
            return None

    def _serializer(self) -> URLSafeSerializer:
        return URLSafeSerializer(
            list(self._secrets),
            salt="chot.session",
            signer_kwargs={"digest_method": hashlib.sha256, "key_derivation": "hmac"},
        )

    async def _read(self, age: float) -> bool:
        """Read the secrets unless they are younger than `age` (seconds); whether it did.

        Who comes while they are read shares that look, and its failure: one after the other, each
        would wait as long for a database that is away as the first one has.
        """
        if monotonic() - self._read_at <= age:
            return False
        if self._reading is None:
            self._reading = asyncio.create_task(self._read_now(), name="read session secrets")
            self._reading.add_done_callback(self._have_read)
        await asyncio.shield(self._reading)
        return True

    def _have_read(self, task: "asyncio.Task[None]") -> None:
        self._reading = None
        if not task.cancelled():
            task.exception()  # seen: where nobody waits any more, nobody else would look

    async def _renew(self) -> None:
        """See to it that the newest secret is young; reading alone would keep an old one."""
        async with self._turn:
            began = monotonic()
            await self._make()
            await self._read_now()
            self._made_at = began

    async def _read_now(self) -> None:
        began = monotonic()
        async with self.resources.reading() as conn:
            found = await _secrets(conn)
        if began >= self._read_at:  # a look that began later has seen more
            self._secrets, self._read_at = found, began

    async def _make(self) -> None:
        async with transaction(
            self.resources.engine, lock_timeout=self.resources.settings.request_lock_timeout
        ) as conn:
            if not await conn.scalar(NEED_SECRET):
                return
            await conn.execute(LOCK_SECRETS)
            if await conn.scalar(NEED_SECRET):
                await conn.execute(ADD_SECRET, {"secret": secrets.token_bytes(SECRET_BYTES)})
                await conn.execute(DROP_SECRETS)


async def _secrets(conn: AsyncConnection) -> Sequence[bytes]:
    return [bytes(row.secret) for row in (await conn.execute(READ_SECRETS)).all()]
