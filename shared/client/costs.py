"""Costs of a ChotClient: cost runs, their results and errors, what holds now, exports, files."""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal
from uuid import UUID

import httpx

from shared.client.errors import Unreachable, error_of_answer, no_answer_of_ours
from shared.client.patience import Outcome, Patience
from shared.client.reading import understood
from shared.client.results import Submitted
from shared.client.wanted import fresh_key, is_replay
from shared.json_text import to_json

Ask = Callable[..., Awaitable[httpx.Response]]
Stream = Callable[[str], AbstractAsyncContextManager[httpx.Response]]
Row = Mapping[str, Any]
Table = Literal["results", "stores", "movements", "errors", "differences"]
PAGE = 200


@dataclass(frozen=True, slots=True)
class Costs:
    """The calls on what costings have found; rows are as the api shows them, numbers as text."""

    _ask: Ask
    _stream: Stream
    _deadline: float

    def runs(
        self, company: str, *, period: str | None = None, status: str | None = None
    ) -> AsyncIterator[Row]:
        """Cost runs newest first, page by page as they are asked for."""
        given = {"company": company, "period": period, "status": status}
        return self._rows("/v1/cost-runs", "runs", given)

    async def run(self, run_id: int) -> Row:
        """A cost run with its proof."""
        answer = await self._ask("GET", f"/v1/cost-runs/{int(run_id)}")
        return understood(answer, lambda body: body)

    def results(
        self,
        run_id: int,
        *,
        item: str | None = None,
        pool: str | None = None,
        store: str | None = None,
        digits: int = 2,
    ) -> AsyncIterator[Row]:
        """What a run found, an item and pool a row. CostRunGone once a later one has replaced it,
        also between two pages: what came before then is no whole.
        """
        given = {"item": item, "pool": pool, "store": store, "digits": str(digits)}
        return self._rows(f"/v1/cost-runs/{int(run_id)}/results", "results", given)

    def errors(
        self, run_id: int, *, item: str | None = None, code: str | None = None
    ) -> AsyncIterator[Row]:
        """Which items a run could not cost, and why."""
        given = {"item": item, "code": code}
        return self._rows(f"/v1/cost-runs/{int(run_id)}/errors", "errors", given)

    def differences(
        self, run_id: int, *, item: str | None = None, account: str | None = None
    ) -> AsyncIterator[Row]:
        """What a preview would change, an item, brand and account a row."""
        given = {"item": item, "account": account}
        return self._rows(f"/v1/cost-runs/{int(run_id)}/differences", "differences", given)

    def now(
        self,
        company: str,
        period: str,
        *,
        item: str | None = None,
        pool: str | None = None,
        store: str | None = None,
        digits: int = 2,
    ) -> AsyncIterator[Row]:
        """What holds for a period now, whichever run found it."""
        place = {"company": company, "period": period}
        given = {"item": item, "pool": pool, "store": store, "digits": str(digits)}
        return self._rows("/v1/costs", "results", place | given)

    async def export(
        self,
        run_id: int,
        *,
        table: Table = "results",
        format: Literal["csv", "xlsx"] = "xlsx",  # noqa: A002 - the api's word
        digits: int = 2,
        bom: bool = False,
        brand: str | None = None,
        key: str | None = None,
    ) -> Submitted:
        """Ask for a table as a file, once; its job's result has the file for download()."""
        given = {"table": table, "format": format, "digits": digits, "bom": bom, "brand": brand}
        body = to_json({name: value for name, value in given.items() if value is not None})
        key = key or fresh_key()
        path = f"/v1/cost-runs/{int(run_id)}/exports"
        answer = await self._ask("POST", path, body=body, key=key)
        read = partial(Submitted.of, key=key, replayed=is_replay(answer.headers))
        return understood(answer, read, key=key)

    async def download(self, file_id: UUID | str, to: Path | str) -> Path:
        """The file under that name, once every byte is here and is what was stored.

        One that breaks off is begun again. FileNotFound: it has been removed, or is not this
        account's.
        """
        path, url = Path(to), f"/v1/files/{UUID(str(file_id))}"
        part = path.with_name(f"{path.name}.part")
        patience = Patience(self._deadline)
        try:
            while True:
                outcome = await self._fetched(url, part)
                if outcome is None:
                    await asyncio.to_thread(part.replace, path)
                    return path
                wait = patience.wait_after(outcome)
                if wait is None:
                    raise _failed(outcome)
                await asyncio.sleep(wait)
        finally:
            await asyncio.to_thread(part.unlink, missing_ok=True)

    async def _fetched(self, url: str, part: Path) -> Outcome | None:
        """None where it has all of it."""
        digest = hashlib.sha256()
        try:
            async with self._stream(url) as answer:
                if not answer.is_success:
                    await answer.aread()
                    return answer
                with await asyncio.to_thread(part.open, "wb") as target:
                    async for content in answer.aiter_bytes():
                        digest.update(content)
                        await asyncio.to_thread(target.write, content)
                tag = answer.headers.get("etag", "")
        except httpx.TransportError as error:
            return error
        if tag != f'"{digest.hexdigest()}"':
            return httpx.RemoteProtocolError("what arrived is not what was stored")
        return None

    async def _rows(
        self, path: str, name: str, given: Mapping[str, str | None]
    ) -> AsyncIterator[Row]:
        params = {key: value for key, value in given.items() if value is not None}
        cursor: str | None = ""
        while cursor is not None:
            asked = params | {"limit": str(PAGE)} | ({"cursor": cursor} if cursor else {})
            answer = await self._ask("GET", path, params=asked)
            rows, following = understood(answer, lambda body: (body[name], body["next_cursor"]))
            for row in rows:
                yield row
            if following == cursor:
                raise no_answer_of_ours(answer, "next_cursor is the one that was sent: no end")
            cursor = following


def _failed(outcome: Outcome) -> Exception:
    if isinstance(outcome, httpx.Response):
        return error_of_answer(outcome, key=None)
    return Unreachable(
        f"the file did not arrive: {str(outcome) or type(outcome).__name__}", key=None
    )
