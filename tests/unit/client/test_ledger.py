"""The ledger of the client: what is asked, and how pages are followed."""

import json
from datetime import date

import pytest

from api.ledger_examples import BALANCE, CHAIN, CONTROL, ENTRY, LEDGER, LEDGER_ANSWERS
from shared.client import ChotClient
from shared.client.errors import Unavailable
from shared.client.ledger import Days
from tests.unit.client.conftest import answer, standing

JANUARY = Days(since=date(2026, 1, 1), until=date(2026, 1, 31))


async def test_reports_are_asked_for_by_their_days() -> None:
    """A period or two days; what is not given is not sent."""
    async with standing(answer(BALANCE)) as stand, ChotClient(stand.url) as chot:
        found = await chot.ledger.trial_balance("SAMPLE", JANUARY, level=1)
        await chot.ledger.trial_balance("SAMPLE", Days(period="2026-01"))
    assert found["balanced"] is True
    path = "/v1/ledger/trial-balance?company=SAMPLE"
    days = "date_from=2026-01-01&date_to=2026-01-31"
    assert stand.asked[0].startswith(f"GET {path}&level=1&{days} ")
    assert stand.asked[1].startswith(f"GET {path}&period=2026-01 ")


async def test_lines_are_read_page_by_page() -> None:
    """A cursor that leads nowhere is no answer of ours."""
    async with standing(answer(LEDGER)) as stand, ChotClient(stand.url) as chot:
        lines = chot.ledger.general_ledger("SAMPLE", "131", JANUARY, party="KH0042")
        assert (await anext(lines))["balance"] == "165000"
        assert (await anext(lines))["balance"] == "165000"
        with pytest.raises(Unavailable):
            await anext(lines)
    assert "account=131&party=KH0042" in stand.asked[0]
    assert f"cursor={LEDGER['next_cursor']}" in stand.asked[1]


async def test_lists_end_where_the_api_says() -> None:
    """Accounts, entries and the journal, in their own words."""
    page = {"accounts": [{"code": "1561"}], "entries": [ENTRY], "lines": [], "next_cursor": None}
    async with standing(answer(page)) as stand, ChotClient(stand.url) as chot:
        codes = [each["code"] async for each in chot.ledger.accounts("SAMPLE", below="156")]
        numbers = [
            each["entry_no"]
            async for each in chot.ledger.entries("SAMPLE", days=JANUARY, document=8121)
        ]
        assert [each async for each in chot.ledger.journal("SAMPLE", JANUARY)] == []
    assert (codes, numbers) == (["1561"], [412])
    assert "document=8121" in stand.asked[1]
    assert "period" not in stand.asked[1].partition("\r\n")[0]


async def test_an_entry_and_its_chain_are_shown() -> None:
    """By id; the chain from its first number."""
    async with (
        standing(answer(ENTRY), answer(CHAIN)) as stand,
        ChotClient(stand.url) as chot,
    ):
        assert (await chot.ledger.entry(5017))["entry_lines"][0]["account"] == "131"
        assert (await chot.ledger.chain(5017))["next_from"] == 413
    assert stand.asked[1].startswith("GET /v1/ledger/entries/5017/chain?first=1&limit=200 ")


async def test_a_chart_is_adopted_and_a_report_exported() -> None:
    """Each in one request; the export under a key."""
    adopted = LEDGER_ANSWERS["POST /v1/ledger/chart"]["200"]
    accepted = LEDGER_ANSWERS["POST /v1/ledger/exports"]["202"]
    async with (
        standing(answer(adopted), answer(accepted, "202 Accepted")) as stand,
        ChotClient(stand.url) as chot,
    ):
        assert await chot.ledger.adopt("SAMPLE", "TT200") == adopted["added"]
        told = await chot.ledger.export("SAMPLE", "journal", Days(period="2026-01"), bom=True)
    assert str(told.id) == accepted["id"]
    head, _, body = stand.asked[1].partition("\r\n\r\n")
    assert "idempotency-key: " in head.lower()
    assert json.loads(body) == {
        "company": "SAMPLE",
        "report": "journal",
        "format": "xlsx",
        "bom": True,
        "period": "2026-01",
    }


async def test_control_is_asked_for_a_period() -> None:
    """Whole, with the reasons of its differences."""
    async with standing(answer(CONTROL)) as stand, ChotClient(stand.url) as chot:
        assert await chot.ledger.control("SAMPLE", "2026-01") == CONTROL
    path = "/v1/ledger/control?company=SAMPLE&period=2026-01&limit=50"
    assert stand.asked[0].startswith(f"GET {path} ")
