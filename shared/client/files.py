"""Files of a ChotClient: sent whole, for jobs such as imports to read."""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO
from uuid import UUID

import httpx

from shared.client.errors import Unreachable, error_of_answer
from shared.client.patience import Outcome, Patience
from shared.client.reading import understood

Ask = Callable[..., Awaitable[httpx.Response]]
Send = Callable[[Mapping[str, str], AsyncIterator[bytes], int], Awaitable[httpx.Response]]
PART_BYTES = 1 << 16


@dataclass(frozen=True, slots=True)
class Files:
    """The calls on files that clients send; `costs.download` gets any file."""

    _ask: Ask
    _send: Send
    _deadline: float

    async def send(
        self,
        path: Path | str,
        *,
        company: str,
        brand: str | None = None,
        name: str | None = None,
    ) -> Mapping[str, Any]:
        """The file at `path` as the api has it then: its `id`, `sha256`, `expires_at`.

        Sent from its beginning at each try until the deadline; the api knows it again, so that it
        is there once. OSError where it cannot be read.
        """
        source = await asyncio.to_thread(Path(path).open, "rb")
        try:
            digest = await asyncio.to_thread(hashlib.file_digest, source, "sha256")
            size = await asyncio.to_thread(source.seek, 0, 2)
            given = {"company": company, "name": name or Path(path).name}
            given |= {} if brand is None else {"brand": brand}
            given["sha256"] = digest.hexdigest()
            return await self._sent(source, size, given)
        finally:
            source.close()

    async def remove(self, file_id: UUID | str) -> Mapping[str, Any]:
        """Nobody finds it any more; what it was. FileNotFound: there is none of this account."""
        answer = await self._ask("DELETE", f"/v1/files/{UUID(str(file_id))}")
        return understood(answer, lambda body: body)

    async def _sent(
        self, source: BinaryIO, size: int, given: Mapping[str, str]
    ) -> Mapping[str, Any]:
        patience = Patience(self._deadline)
        while True:
            outcome: Outcome
            try:
                outcome = await self._send(given, _parts(source), size)
            except httpx.TransportError as error:
                outcome = error
            wait = patience.wait_after(outcome)
            if wait is not None:
                await asyncio.sleep(wait)
            elif isinstance(outcome, httpx.TransportError):
                said = f"the file was not taken: {str(outcome) or type(outcome).__name__}"
                raise Unreachable(said, key=None) from outcome
            elif not outcome.is_success:
                raise error_of_answer(outcome, key=None)
            else:
                return understood(outcome, lambda body: body)


async def _parts(source: BinaryIO) -> AsyncIterator[bytes]:
    await asyncio.to_thread(source.seek, 0)
    while part := await asyncio.to_thread(source.read, PART_BYTES):
        yield part
