"""Cost runs and postings as an accountant reads them: a real costing, a real posting, its file."""

import asyncio
import csv
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from openpyxl import load_workbook
from playwright.async_api import expect

from dev.sqs import SqsServer
from tests.pages.books import Month, fill_books
from tests.pages.chromium import Theme, Window, shared_names, shot, sideways
from tests.pages.stack import Stack, open_stack
from tests.services import DatabaseServer

pytestmark = pytest.mark.pages
MONTH: dict[str, Month] = {}


@pytest.fixture(scope="module")
def stack(
    postgres: DatabaseServer,
    sqs_server: SqsServer,
    sqs: Any,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Stack]:
    """As everywhere here, with a worker that costs and posts, and a month of books."""
    mine = postgres.create()
    prefix, logs = f"t{secrets.token_hex(4)}", tmp_path_factory.mktemp("stack")
    queues = "default,costing,posting"
    with open_stack(mine, prefix, sqs_server.endpoint, logs, sqs, CHOT_QUEUES=queues) as opened:
        MONTH[opened.url] = asyncio.run(fill_books(opened))
        yield opened
    postgres.drop(mine)


@pytest.fixture
def month(stack: Stack) -> Month:
    """What was run in the stack's books."""
    return MONTH[stack.url]


async def test_the_list_names_runs_postings_and_what_is_stale(window: Window, month: Month) -> None:
    page = await window.open("/ui/runs")
    await expect(page.get_by_role("link", name=str(month.runs["again"]), exact=True)).to_have_count(
        2
    )
    await expect(page.locator(".flash.stale")).to_contain_text("2026-02: 1 items are stale")
    await expect(page.get_by_text("posting of costs")).to_be_visible()
    await shot(page, "runs-en-light-desk")
    await page.get_by_label("Period", exact=True).select_option("2026-02")
    await page.get_by_role("button", name="Show").click()
    rows = page.locator("section[aria-labelledby=h-runs] tbody tr")
    await expect(rows).to_have_count(1)


async def test_a_run_shows_its_proof_totals_and_errors(window: Window, month: Month) -> None:
    page = await window.open(f"/ui/runs/{month.runs['whole']}")
    proof = page.locator("#proof")
    assert await proof.locator(".check.ok").count() == 5
    assert await proof.locator(".check.bad").count() == 0
    for mark in await proof.locator(".mark").all_inner_texts():
        assert mark == "✓"
    await expect(proof).to_contain_text("Which movements the run has seen.")
    await expect(page.locator("#errors")).to_contain_text("NEGATIVE_STOCK")
    await expect(page.locator("#errors")).to_contain_text("PX-B/1")
    await expect(page.get_by_text("It holds for 61 of 62 items")).to_be_visible()
    await shot(page, "cost-run-en-light-desk")


async def test_results_are_filtered_and_paged_to_the_end(window: Window, month: Month) -> None:
    page = await window.open(f"/ui/runs/{month.runs['whole']}")
    results = page.locator("#results")
    following = results.get_by_role("link", name="Next page")
    seen = await results.locator("tbody tr td:first-child").all_inner_texts()
    while await following.count():
        await following.click()
        await page.wait_for_load_state()
        seen += await results.locator("tbody tr td:first-child").all_inner_texts()
    assert len(seen) == len(set(seen)) == 61
    await results.get_by_label("Item", exact=True).fill("A")
    await results.get_by_role("button", name="Filter").click()
    row = results.locator("tbody tr")
    await expect(row).to_have_count(1)
    # Opening, in, out, closing: 1,000,000 + 2,090,000 - 1,236,000 = 1,854,000
    for amount in ("1,000,000", "2,090,000", "1,236,000", "1,854,000", "103,000.00"):
        await expect(row).to_contain_text(amount)


async def test_a_run_tells_what_it_changed_against_the_one_before(
    window: Window, month: Month
) -> None:
    page = await window.open(f"/ui/runs/{month.runs['again']}")
    await expect(page.get_by_text("totals cannot be compared, items can")).to_be_visible()
    row = page.locator("#results tbody tr")
    # 3,590,000 / 34 each: 12 go out for 1,267,059 instead of 1,236,000
    await expect(row.locator("td.changed").first).to_have_text("31,059")
    await expect(row.locator("td.changed").last).to_have_text("468,941")


async def test_a_preview_shows_differences_by_item_and_account(
    window: Window, month: Month
) -> None:
    page = await window.open(f"/ui/runs/{month.runs['preview']}")
    differences = page.locator("#differences")
    await expect(differences.get_by_role("link", name="632")).to_be_visible()
    await expect(differences).to_contain_text("31,059")
    await differences.get_by_role("link", name="632").click()
    await expect(page.locator("#differences")).to_contain_text("31,059")


async def test_a_file_is_made_by_a_job_and_downloaded_from_the_page(
    window: Window, month: Month, tmp_path: Path
) -> None:
    page = await window.open(f"/ui/runs/{month.runs['whole']}", who="reader")
    await page.get_by_role("button", name="Make the file").click()
    await page.wait_for_url("**/exports/*")
    link = page.get_by_role("link", name="Download")
    await link.wait_for()
    await shot(page, "export-en-light-desk")
    async with page.expect_download() as downloading:
        await link.click()
    download = await downloading.value
    path = tmp_path / download.suggested_filename
    await download.save_as(path)
    assert path.suffix == ".xlsx"
    sheet = load_workbook(path).worksheets[0]
    assert sheet.max_row == 62


async def test_a_posting_shows_outcomes_balance_and_control(window: Window, month: Month) -> None:
    page = await window.open(f"/ui/runs/{month.postings['documents']}")
    await expect(page.locator("section[aria-labelledby=h-tally]")).to_contain_text("POSTED")
    await page.get_by_role("link", name="UNBALANCED").click()
    rows = page.locator("#documents tbody tr")
    await expect(rows).to_have_count(1)
    await expect(rows).to_contain_text("BT-LECH")
    await expect(page.locator("#balance .good")).to_contain_text("balances")
    await page.get_by_role("link", name="Compare now").click()
    await expect(page.locator("#control")).to_contain_text("pools differ")
    await shot(page, "posting-en-light-desk")


async def test_cost_documents_name_their_runs_and_amounts(window: Window, month: Month) -> None:
    page = await window.open(f"/ui/runs/{month.postings['costs']}")
    await expect(page.get_by_role("heading", name="Cost documents")).to_be_visible()
    await expect(page.locator("main")).to_contain_text("cost of sales")
    await expect(page.locator("main")).to_contain_text("1 items could not be costed")
    await shot(page, "posting-costs-en-light-desk")


async def test_a_posting_tells_by_account_what_it_changed(window: Window, month: Month) -> None:
    """Of costs against what was posted before; of documents the period beside the one before."""
    page = await window.open(f"/ui/runs/{month.postings['costs']}")
    changed = page.locator("#accounts")
    row = changed.locator("tbody tr", has_text="632").first
    await expect(row.locator("td").nth(1)).to_have_text("0")
    await expect(row.locator("td").nth(3)).to_have_class("number changed")
    after = await row.locator("td").nth(2).inner_text()
    assert after == await row.locator("td").nth(3).inner_text()
    assert after != "0"
    await shot(page, "posting-accounts-en-light-desk")
    page = await window.open(f"/ui/runs/{month.postings['nothing']}", lang="vi", phone=True)
    beside = page.locator("#accounts")
    await expect(beside).to_contain_text("so với kỳ trước")
    row = beside.locator("tbody tr", has_text="511").first
    before, now, difference = [await row.locator("td").nth(n).inner_text() for n in (1, 2, 3)]
    assert (now, difference) == ("0", before.removeprefix("-"))
    assert await sideways(page) == 0
    await shot(page, "posting-beside-vi-light-phone")


async def test_a_run_leads_to_who_replaced_it_its_previews_and_its_postings(
    window: Window, month: Month
) -> None:
    """Replaced in part by the next; the preview stands at both; the posting has its accounts."""
    page = await window.open(f"/ui/runs/{month.runs['whole']}")
    again, preview = month.runs["again"], month.runs["preview"]
    await expect(page.locator("#replaced-by a")).to_have_attribute("href", f"/ui/runs/{again}")
    await expect(page.locator("#previews a")).to_have_attribute("href", f"/ui/runs/{preview}")
    await shot(page, "cost-run-links-en-light-desk")
    await page.locator("#posted-by a").click()
    await expect(page.locator("#accounts")).to_contain_text("632")
    page = await window.open(f"/ui/runs/{again}")
    await expect(page.locator("#previews a")).to_have_count(1)
    await expect(page.locator("#replaced-by")).to_have_count(0)


async def test_a_csv_is_downloaded_in_the_browser_and_is_read_by_excel(
    window: Window, month: Month, tmp_path: Path
) -> None:
    """With its mark for Excel, one line an item, and the numbers of the page."""
    page = await window.open(f"/ui/runs/{month.runs['whole']}", who="reader", phone=True)
    await page.locator("#x-format").select_option("csv")
    await page.get_by_role("button", name="Make the file").click()
    await page.wait_for_url("**/exports/*")
    link = page.get_by_role("link", name="Download")
    await link.wait_for()
    async with page.expect_download() as downloading:
        await link.click()
    download = await downloading.value
    path = tmp_path / download.suggested_filename
    await download.save_as(path)
    assert path.suffix == ".csv"
    data = path.read_bytes()
    assert data.startswith(b"\xef\xbb\xbf")
    rows = list(csv.DictReader(data.decode("utf-8-sig").splitlines()))
    assert len(rows) == 61
    (goods,) = [row for row in rows if "A" in row.values()]
    assert {"1000000", "2090000", "1854000"} <= set(goods.values())


async def test_an_account_of_one_brand_sees_its_part_and_no_other_company(
    window: Window, stack: Stack, month: Month
) -> None:
    page = await window.open(f"/ui/runs/{month.runs['whole']}", who="red")
    await expect(page.get_by_text("You see the part of your brands: RED.")).to_be_visible()
    assert await page.locator("#proof .check").count() == 3
    answer = await page.request.get(f"{stack.url}/ui/runs/{month.postings['documents']}")
    assert answer.status == 404
    for wrong in ("0", "99999999", "nothing", "9" * 40):
        assert (await page.request.get(f"{stack.url}/ui/runs/{wrong}")).status == 404


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("name", ["runs", "cost-run", "posting"])
async def test_a_run_reads_on_a_phone_in_vietnamese(
    window: Window, month: Month, name: str, theme: Theme
) -> None:
    places = {
        "runs": "/ui/runs",
        "cost-run": f"/ui/runs/{month.runs['again']}",
        "posting": f"/ui/runs/{month.postings['documents']}?check=1",
    }
    page = await window.open(places[name], phone=True, lang="vi", theme=theme)
    assert await page.locator("html").get_attribute("lang") == "vi"
    said = {"runs": "toàn công ty", "cost-run": "Tồn cuối kỳ", "posting": "Sổ cái"}
    await expect(page.locator("main")).to_contain_text(said[name])
    assert await sideways(page) == 0
    assert await shared_names(page) == []
    await shot(page, f"{name}-vi-{theme}-phone")


async def test_words_of_accounting_are_those_of_the_field(window: Window, month: Month) -> None:
    page = await window.open(f"/ui/runs/{month.runs['whole']}", lang="vi", theme="dark")
    for words in ("Tồn đầu kỳ", "Nhập", "Xuất", "Tồn cuối kỳ", "giá vốn hàng bán", "Chênh lệch"):
        await expect(page.locator("main")).to_contain_text(words)
    await expect(page.locator("#results")).to_contain_text("1.854.000")
    await expect(page.locator("#proof")).to_contain_text("số tổng")
    await expect(page.locator("#proof")).not_to_contain_text("totals")
    await shot(page, "cost-run-vi-dark-desk")
