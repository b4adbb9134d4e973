"""Costs of the client: rows over all pages, exports once, and files whole or not at all."""

import hashlib
import json
from pathlib import Path
from uuid import UUID

import pytest

from api.cost_examples import COSTS, FILE_ID, RESULTS, RUN
from shared.client import ApiError, ChotClient, Unreachable
from shared.client.errors import CostRunGone, FileNotFound
from tests.unit.client.conftest import JOB_ID, answer, standing

BYTES = b"Brand,Item\r\n" * 1000
ETAG = f'"{hashlib.sha256(BYTES).hexdigest()}"'
ACCEPTED = {
    "id": JOB_ID,
    "state": "pending",
    "created": True,
    "duplicate": None,
    "input_as_of": None,
    "status_url": f"/v1/jobs/{JOB_ID}",
}


def left_in(directory: Path) -> list[str]:
    return [path.name for path in directory.iterdir()]


async def test_rows_come_over_all_pages() -> None:
    """With the cursor of each page and the same filters; numbers stay text."""
    async with (
        standing(
            answer(RESULTS | {"next_cursor": "abc"}), answer(RESULTS | {"next_cursor": None})
        ) as stand,
        ChotClient(stand.url) as chot,
    ):
        rows = [row async for row in chot.costs.results(42, store="R1", digits=4)]
    assert [row["closing"]["value"] for row in rows] == ["1854000", "1854000"]
    assert "GET /v1/cost-runs/42/results?store=R1&digits=4&limit=200" in stand.asked[0]
    assert "cursor=abc" in stand.asked[1]


async def test_a_run_and_what_holds_now_are_told_as_they_are() -> None:
    """As the api shows them."""
    async with (
        standing(answer(RUN), answer(COSTS | {"next_cursor": None})) as stand,
        ChotClient(stand.url) as chot,
    ):
        assert (await chot.costs.run(1042))["proof"]["checksum"] == RUN["proof"]["checksum"]
        assert [row["item"] async for row in chot.costs.now("SAMPLE", "2026-01")] == ["SP-00017"]


async def test_a_run_that_goes_between_two_pages_is_an_error() -> None:
    """Not a shorter list."""
    gone = {"type": "https://chot.example/problems/cost-run-gone", "title": "gone", "speaking": []}
    async with (
        standing(answer(RESULTS), answer(gone, "410 Gone")) as stand,
        ChotClient(stand.url) as chot,
    ):
        with pytest.raises(CostRunGone):
            assert [row async for row in chot.costs.results(42)]


async def test_an_export_goes_out_under_one_key() -> None:
    """However often it is sent."""
    async with (
        standing(b"", answer(ACCEPTED, "202 Accepted")) as stand,
        ChotClient(stand.url) as chot,
    ):
        submitted = await chot.costs.export(42, table="movements", format="csv")
    assert submitted.id == UUID(JOB_ID)
    keys = {
        line
        for asked in stand.asked
        for line in asked.splitlines()
        if "idempotency" in line.lower()
    }
    assert len(stand.asked) == 2
    assert len(keys) == 1
    assert json.loads(stand.asked[1].rpartition("\r\n\r\n")[2])["table"] == "movements"


async def test_a_file_is_there_once_it_is_whole(tmp_path: Path) -> None:
    """One that breaks off, or is not what was stored, is begun again."""
    target = tmp_path / "costs.csv"
    whole = answer(BYTES, ETag=ETAG)
    async with (
        standing(whole[:-500], answer(b"else", ETag=ETAG), whole) as stand,
        ChotClient(stand.url) as chot,
    ):
        assert await chot.costs.download(FILE_ID, target) == target
    assert target.read_bytes() == BYTES
    assert len(stand.asked) == 3
    assert left_in(tmp_path) == [target.name]


async def test_a_file_that_does_not_come_leaves_nothing(tmp_path: Path) -> None:
    """Nor one that is not there."""
    missing = {"type": "https://chot.example/problems/file-not-found", "title": "no file"}
    for said, error in ((answer(missing, "404 Not Found"), FileNotFound), (b"", Unreachable)):
        async with standing(said) as stand, ChotClient(stand.url, deadline=0.3) as chot:
            with pytest.raises(error):
                await chot.costs.download(FILE_ID, tmp_path / "x.csv")
    assert left_in(tmp_path) == []
    assert issubclass(FileNotFound, ApiError)
