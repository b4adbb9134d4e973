"""The ledger of a ChotClient: entries with their proof, reports, the chart they are made on."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import date
from functools import partial
from typing import Any, Literal

import httpx

from shared.client.errors import no_answer_of_ours
from shared.client.reading import understood
from shared.client.results import Submitted
from shared.client.wanted import fresh_key, is_replay
from shared.json_text import to_json

Row = Mapping[str, Any]
Report = Literal["trial_balance", "general_ledger", "journal"]
PAGE = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Days:
    """A period, or from one day to another, both included."""

    period: str | None = None
    since: date | None = None
    until: date | None = None

    def asked(self) -> dict[str, str | None]:
        """As the api takes them."""
        return {
            "period": self.period,
            "date_from": None if self.since is None else self.since.isoformat(),
            "date_to": None if self.until is None else self.until.isoformat(),
        }


@dataclass(frozen=True, slots=True)
class Ledger:
    """The calls on a company's ledger; rows are as the api shows them, amounts as text."""

    _ask: Callable[..., Awaitable[httpx.Response]]

    async def adopt(self, company: str, template: str) -> int:
        """Give the company the accounts of a template; how many it had not had."""
        body = to_json({"company": company, "template": template})
        answer = await self._ask("POST", "/v1/ledger/chart", body=body)
        return understood(answer, lambda found: int(found["added"]))

    def accounts(self, company: str, *, below: str | None = None) -> AsyncIterator[Row]:
        """The chart of accounts by code."""
        return self._rows("accounts", "accounts", {"company": company, "below": below})

    def entries(
        self,
        company: str,
        *,
        days: Days | None = None,
        account: str | None = None,
        store: str | None = None,
        party: str | None = None,
        series: str | None = None,
        document: int | None = None,
    ) -> AsyncIterator[Row]:
        """Entries newest first, page by page as they are asked for."""
        asked = (days or Days()).asked()
        del asked["period"]
        lines = {"account": account, "store": store, "party": party, "series": series}
        of_document = None if document is None else str(document)
        given = {"company": company} | asked | lines | {"document": of_document}
        return self._rows("entries", "entries", given)

    async def entry(self, entry_id: int) -> Row:
        """An entry with its lines."""
        answer = await self._ask("GET", f"/v1/ledger/entries/{int(entry_id)}")
        return understood(answer, lambda body: body)

    async def chain(self, entry_id: int, *, first: int = 1, limit: int = PAGE) -> Row:
        """Some numbers of the entry's series, each proven anew; `next_from` begins the next."""
        query = {"first": str(first), "limit": str(limit)}
        path = f"/v1/ledger/entries/{int(entry_id)}/chain"
        answer = await self._ask("GET", path, params=query)
        return understood(answer, lambda body: body)

    async def trial_balance(self, company: str, days: Days, *, level: int | None = None) -> Row:
        """Every account with opening, debits, credits and closing, and their totals."""
        depth = None if level is None else str(level)
        given = {"company": company, "level": depth} | days.asked()
        answer = await self._ask("GET", "/v1/ledger/trial-balance", params=_given(given))
        return understood(answer, lambda body: body)

    def general_ledger(
        self,
        company: str,
        account: str,
        days: Days,
        *,
        store: str | None = None,
        party: str | None = None,
        item: str | None = None,
    ) -> AsyncIterator[Row]:
        """The lines of an account and those below it by day, each with the balance after it."""
        given = {"company": company, "account": account, "store": store, "party": party}
        return self._rows("general-ledger", "lines", given | {"item": item} | days.asked())

    def journal(self, company: str, days: Days) -> AsyncIterator[Row]:
        """Every line of every entry by day."""
        return self._rows("journal", "lines", {"company": company} | days.asked())

    async def control(self, company: str, period: str, *, limit: int = 50) -> Row:
        """Goods in the ledger against what costing says, with what explains each difference."""
        params = {"company": company, "period": period, "limit": limit}
        answer = await self._ask("GET", "/v1/ledger/control", params=params)
        return understood(answer, dict)

    async def export(
        self,
        company: str,
        report: Report,
        days: Days,
        *,
        format: Literal["csv", "xlsx"] = "xlsx",  # noqa: A002 - the api's word
        account: str | None = None,
        level: int | None = None,
        brand: str | None = None,
        bom: bool = False,
        key: str | None = None,
    ) -> Submitted:
        """Ask for a report as a file, once; its job's result has the file for costs.download()."""
        given: dict[str, Any] = {"company": company, "report": report, "format": format}
        given |= {"account": account, "level": level, "brand": brand, "bom": bom, **days.asked()}
        body = to_json({name: value for name, value in given.items() if value is not None})
        key = key or fresh_key()
        answer = await self._ask("POST", "/v1/ledger/exports", body=body, key=key)
        read = partial(Submitted.of, key=key, replayed=is_replay(answer.headers))
        return understood(answer, read, key=key)

    async def _rows(
        self, path: str, name: str, given: Mapping[str, str | None]
    ) -> AsyncIterator[Row]:
        asked = _given(given) | {"limit": str(PAGE)}
        cursor: str | None = ""
        while cursor is not None:
            more = {"cursor": cursor} if cursor else {}
            answer = await self._ask("GET", f"/v1/ledger/{path}", params=asked | more)
            rows, following = understood(answer, lambda body: (body[name], body["next_cursor"]))
            for row in rows:
                yield row
            if following == cursor:
                raise no_answer_of_ours(answer, "next_cursor is the one that was sent: no end")
            cursor = following


def _given(query: Mapping[str, str | None]) -> dict[str, str]:
    return {name: value for name, value in query.items() if value is not None}
