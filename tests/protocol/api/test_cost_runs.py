"""Cost runs over HTTP: what an accountant reads adds up, and half a run is never shown."""

from collections.abc import AsyncIterator
from decimal import Decimal
from fractions import Fraction
from typing import Any

import httpx
import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from api.settings import ApiSettings
from shared.access import Role
from shared.costs import rows
from tests.cost_run_rows import Pool, seed_places, sold, supersede, write_run
from tests.factories import execute, scalar
from tests.protocol.api.app import problem_of, serving
from tests.protocol.api.keys import ACME, BLUE, OTHER, RED, SEED_OTHER, bearer, make_key

THIRD = Pool(
    brand="RED",
    pool="R2",
    item="=B",
    flows={
        "opening": (1_000, 100),
        "receipt": (2_000, 100),
        "transfer_in": (500, 33),
        "issue": (2_000, 133),
        "transfer_out": (500, 33),
        "closing": (1_000, 66),
    },
    price=(200, 3_000),
    more={"v_rounding": 1, "scc_size": 3, "pushes": 1, "dipped": True},
)


@pytest.fixture
async def books(owner_engine: AsyncEngine, company: str) -> AsyncEngine:
    """Owner's engine, on the books of ACME (two digits) and OTHER."""
    assert company == "ACME"
    await execute(owner_engine, SEED_OTHER)
    await seed_places(owner_engine)
    return owner_engine


@pytest.fixture
async def guarded(settings: ApiSettings, books: AsyncEngine) -> AsyncIterator[httpx.AsyncClient]:
    """A client without a key, of an api on these books."""
    assert books is not None
    async with serving(settings.model_copy(update={"api_open": False})) as client:
        yield client


def adds_up(row: dict[str, Any]) -> bool:
    """Opening + in = out + closing, and the totals are those of their flows."""
    for side in ("qty", "value"):
        into, out = row["in"], row["out"]
        beside = Decimal(out["rounding"]) + Decimal(out["true_up"]) if side == "value" else 0
        flows = [Decimal(flow[side]) for name, flow in into.items() if name != "total"]
        assert sum(flows) == Decimal(into["total"][side])
        gone = [
            Decimal(flow[side])
            for name, flow in out.items()
            if name not in {"total", "rounding", "true_up"}
        ]
        assert sum(gone) + beside == Decimal(out["total"][side])
        left = Decimal(row["opening"][side]) + Decimal(into["total"][side])
        if left != Decimal(out["total"][side]) + Decimal(row["closing"][side]):
            return False
    return True


async def test_a_result_adds_up_and_its_price_is_exact(
    client: httpx.AsyncClient, books: AsyncEngine
) -> None:
    """Quantities in units of the item, values in the currency, the price a quotient of both."""
    run = await write_run(books, [THIRD])
    priced = None
    for digits, shown in ((6, "0.666667"), (3, "0.667"), (2, "0.67")):
        answer = await client.get(f"/v1/cost-runs/{run}/results?digits={digits}")
        (priced,) = answer.json()["results"]
        assert priced["unit_price"] == {"num": "2", "den": "3", "shown": shown}
    (row,) = (await client.get(f"/v1/cost-runs/{run}/results")).json()["results"]
    assert row == priced, "two digits are shown where nobody says how many"
    assert adds_up(row)
    assert row["opening"] == {"qty": "1.000", "value": "1.00"}
    assert row["in"]["total"] == {"qty": "2.500", "value": "1.33"}
    assert row["out"]["total"] == {"qty": "2.500", "value": "1.67"}
    assert row["closing"] == {"qty": "1.000", "value": "0.66"}
    assert (row["brand"], row["pool"], row["item"], row["name"]) == ("RED", "R2", "=B", "+Bánh")
    assert (row["scc_size"], row["pushes"], row["negative_within_period"]) == (3, 1, True)
    assert (row["speaks"], row["stale"], row["method"]) == (True, False, "periodic_avg")
    for wrong in ("1", "7", "+2", "2.0"):
        refused = await client.get(f"/v1/cost-runs/{run}/results", params={"digits": wrong})
        problem_of(refused, 422, "invalid-request")


async def test_a_price_is_rounded_half_up_once_from_its_quotient(
    client: httpx.AsyncClient, books: AsyncEngine
) -> None:
    """0.125 is 0.13, and 0.1249… of a large quotient is 0.12: no digit is lost on the way."""
    large = 10**30
    prices = {"R1": (125, 10), "R2": (125 * large - 1, 10 * large), "R3": (0, 0)}
    pools = [
        Pool(brand="RED", pool=pool, flows={"opening": (0, 0), "closing": (0, 0)}, price=price)
        for pool, price in prices.items()
    ]
    run = await write_run(books, pools)
    rows = (await client.get(f"/v1/cost-runs/{run}/results")).json()["results"]
    shown = {row["pool"]: row["unit_price"] for row in rows}
    assert shown["R1"] == {"num": "1", "den": "8", "shown": "0.13"}
    assert shown["R2"]["shown"] == "0.12"
    exact = Fraction(int(shown["R2"]["num"]), int(shown["R2"]["den"]))
    assert exact == Fraction(*prices["R2"]) / 100
    assert shown["R3"] is None


async def test_pages_go_through_every_row_once_whatever_its_codes(
    client: httpx.AsyncClient, books: AsyncEngine
) -> None:
    """In the order of the keys; a cursor holds codes of any letters, a bar and a percent sign."""
    names = ["=", "a|b", "á%41", "Đ/ẽ", "z z"]
    pools = [sold(brand, pool) for brand in ("BLUE", "RED") for pool in names]
    run = await write_run(books, pools)
    found, cursor = [], None
    while True:
        params = {"limit": "3"} | ({"cursor": cursor} if cursor else {})
        page = (await client.get(f"/v1/cost-runs/{run}/results", params=params)).json()
        found += [(row["brand"], row["pool"]) for row in page["results"]]
        cursor = page["next_cursor"]
        if cursor is None:
            break
        assert len(page["results"]) == 3
    assert found == sorted((pool.brand, pool.pool) for pool in pools)
    refused = await client.get(f"/v1/cost-runs/{run}/results?cursor=abc")
    problem_of(refused, 422, "invalid-request")


async def test_filters_are_of_item_pool_and_store(
    client: httpx.AsyncClient, books: AsyncEngine
) -> None:
    """A store's filter finds the pools that it lies in."""
    pools = [sold("RED", "R1"), sold("RED", "R2"), sold("BLUE", "B1"), sold("RED", "R1", "=B")]
    run = await write_run(books, pools)
    url = f"/v1/cost-runs/{run}/results"
    for params, found in (
        ({"item": "=B"}, [("R1", "=B")]),
        ({"pool": "R1"}, [("R1", "=B"), ("R1", "A")]),
        ({"store": "R2"}, [("R2", "A")]),
        ({"store": "B1", "item": "A"}, [("B1", "A")]),
        ({"store": "nowhere"}, []),
    ):
        rows = (await client.get(url, params=params)).json()["results"]
        assert [(row["pool"], row["item"]) for row in rows] == found, params
    problem_of(await client.get(url, params={"colour": "red"}), 422, "invalid-request")


async def test_the_proof_is_made_anew_from_the_rows(
    client: httpx.AsyncClient, books: AsyncEngine
) -> None:
    """Totals, invariants, checksum, snapshot; a number that somebody has changed shows."""
    sent = Pool(
        brand="RED",
        pool="R1",
        flows={"opening": (5, 500), "transfer_out": (2, 200), "closing": (3, 300)},
    )
    got = Pool(
        brand="BLUE",
        pool="B1",
        flows={"opening": (0, 0), "transfer_in": (2, 200), "issue": (1, 100), "closing": (1, 100)},
    )
    run = await write_run(books, [sent, got])
    view = (await client.get(f"/v1/cost-runs/{run}")).json()
    assert view["items"] == {"total": 2, "costed": 2, "failed": 0, "speaking": 2, "stale": 0}
    totals = view["proof"]["totals"]
    assert (totals["opening"], totals["issue"], totals["closing"]) == ("5.00", "1.00", "4.00")
    assert (totals["transfer_in"], totals["transfer_out"]) == ("2.00", "2.00")
    checks = {check["id"]: check for check in view["proof"]["checks"]}
    assert list(checks) == ["I1", "I2", "I3", "I4", "totals"]
    assert {(check["checked"], check["broken"]) for check in checks.values()} == {(2, 0)}
    assert len(view["proof"]["checksum"]) == 64
    assert view["proof"]["snapshot"]
    assert view["links"]["results"] == f"/v1/cost-runs/{run}/results"
    # A pool that got one less than was sent, in a row that balances by itself.
    await execute(
        books,
        """UPDATE books.pool_results SET q_transfer_in = 1, q_closing = 0, v_transfer_in = 100,
                  v_closing = 0 WHERE brand = 'BLUE'""",
    )
    view = (await client.get(f"/v1/cost-runs/{run}")).json()
    broken = {check["id"]: check["broken"] for check in view["proof"]["checks"]}
    assert broken == {"I1": 0, "I2": 0, "I3": 1, "I4": 0, "totals": 1}


async def test_a_run_whose_rows_are_gone_or_not_there_yet_shows_none_of_them(
    client: httpx.AsyncClient, books: AsyncEngine
) -> None:
    """409 while it is built, 410 with what speaks now; its header stays, with the totals."""
    first = await write_run(books, [sold("RED", "R1")])
    building = await write_run(books, [sold("RED", "R1")], status="building")
    second = await write_run(books, [sold("RED", "R1", cost=20_000)])
    failed = await write_run(books, status="failed")
    for path in ("results", "errors"):
        problem = problem_of(
            await client.get(f"/v1/cost-runs/{building}/{path}"), 409, "cost-run-building"
        )
        assert problem["job"].startswith("/v1/jobs/")
        for run, status in ((first, "superseded"), (failed, "failed")):
            answer = await client.get(f"/v1/cost-runs/{run}/{path}")
            problem = problem_of(answer, 410, "cost-run-gone")
            assert problem["run_status"] == status
            assert problem["speaking"] == [{"id": second, "url": f"/v1/cost-runs/{second}"}]
            assert (await client.get(problem["costs"])).json()["results"]
    view = (await client.get(f"/v1/cost-runs/{first}")).json()
    assert view["proof"]["totals"]["closing"] == "300.00"
    assert view["proof"]["checks"] == []
    assert set(view["links"]) == {"self", "job"}
    assert (await client.get(f"/v1/cost-runs/{building}")).json()["proof"]["totals"] is None
    for number in (second + 100, 0, "x", 10**19):
        problem_of(await client.get(f"/v1/cost-runs/{number}"), 404, "cost-run-not-found")


async def test_a_run_that_is_superseded_while_it_is_read_gives_no_part_of_itself(
    client: httpx.AsyncClient, books: AsyncEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its rows went after the look at its header: what came of the page is thrown away."""
    run = await write_run(books, [sold("RED", "R1"), sold("RED", "R2")])
    reading = rows.run_results

    async def dropped_meanwhile(conn: Any, *args: Any, **more: Any) -> Any:
        found = await reading(conn, *args, **more)
        # Not dropped: that waits for this very reader. Its half would be in the next page.
        await supersede(books, run, drop=False)
        return found

    monkeypatch.setattr("api.routes.cost_results.run_results", dropped_meanwhile)
    problem_of(await client.get(f"/v1/cost-runs/{run}/results"), 410, "cost-run-gone")


async def test_an_item_that_a_later_run_has_taken_over_says_so(
    client: httpx.AsyncClient, books: AsyncEngine
) -> None:
    """The old run stays readable while it speaks for others; /costs shows each item's newest."""
    first = await write_run(books, [sold("RED", "R1"), sold("RED", "R1", "=B")])
    second = await write_run(books, [sold("RED", "R1", cost=20_000)])
    rows = (await client.get(f"/v1/cost-runs/{first}/results")).json()["results"]
    assert [(row["item"], row["speaks"]) for row in rows] == [("=B", True), ("A", False)]
    shown = (await client.get("/v1/costs?company=ACME&period=2026-01")).json()
    assert [(row["item"], row["run_id"]) for row in shown["results"]] == [
        ("=B", first),
        ("A", second),
    ]
    await execute(books, "UPDATE books.active_results SET stale = true WHERE item = 'A'")
    shown = (await client.get("/v1/costs?company=ACME&period=2026-01&item=A")).json()
    assert [row["stale"] for row in shown["results"]] == [True]
    assert shown["items"] == {"total": 2, "failed": 0, "stale": 1, "late": 0}


async def test_what_brands_share_comes_first_and_once(
    client: httpx.AsyncClient, books: AsyncEngine
) -> None:
    """A pool of the whole company is a row without a brand, however many brands its item has."""
    shared = sold("", "*")
    pools = [shared, sold("BLUE", "B1", "=B"), sold("RED", "R1", "=B")]
    run = await write_run(books, pools)
    for url in (f"/v1/cost-runs/{run}/results?", "/v1/costs?company=ACME&period=2026-01&"):
        found, cursor = [], ""
        while cursor is not None:
            page = (await client.get(f"{url}limit=1{cursor and f'&cursor={cursor}'}")).json()
            found += [(row["brand"], row["pool"], row["speaks"]) for row in page["results"]]
            cursor = page["next_cursor"]
        assert found == [(None, "*", True), ("BLUE", "B1", True), ("RED", "R1", True)]


async def test_a_list_is_newest_first_by_period_and_status(
    client: httpx.AsyncClient, books: AsyncEngine
) -> None:
    """Unknown companies and periods are told apart from empty lists."""
    runs = [await write_run(books, [sold("RED", "R1", item)]) for item in ("A", "=B")]
    later = await write_run(books, [sold("RED", "R1")], period="2026-02")
    await write_run(books, [sold("RED", "R9")], company="OTHER")
    page = (await client.get("/v1/cost-runs?company=ACME&limit=2")).json()
    rest = (await client.get(f"/v1/cost-runs?company=ACME&cursor={page['next_cursor']}")).json()
    assert [run["id"] for run in page["runs"] + rest["runs"]] == [later, *reversed(runs)]
    january = (await client.get("/v1/cost-runs?company=ACME&period=2026-01&status=active")).json()
    assert [run["id"] for run in january["runs"]] == [*reversed(runs)]
    for path in ("cost-runs", "costs"):
        for query, slug in (
            ("company=NONE&period=2026-01", "unknown-company"),
            ("company=ACME&period=2031-01", "invalid-request"),
            ("company=ACME&period=2026-13", "invalid-request"),
            ("period=2026-01", "invalid-request"),
        ):
            problem_of(await client.get(f"/v1/{path}?{query}"), 422, slug)


MOVE = """
    INSERT INTO books.stock_movements (company, brand, item, store, kind, doc_id, doc_line,
           posting_date, qty_base, value)
    VALUES ('ACME', 'RED', '=B', 'R1', 'issue', 'PX-7', 3, '2026-01-09', 1500, NULL) RETURNING id"""


async def test_an_error_comes_with_the_movements_that_cause_it(
    client: httpx.AsyncClient, books: AsyncEngine
) -> None:
    """Document, day, store, quantity: enough to find the slip."""
    async with books.begin() as conn:
        moved = int((await conn.execute(text(MOVE))).scalar_one())
    error = {
        "brand": "RED",
        "item": "=B",
        "number": 1,
        "pool": "R1",
        "code": "NEGATIVE_STOCK",
        "detail": "more goes out than there is",
        "movement_ids": [moved],
    }
    whole = error | {"number": 2, "pool": None, "code": "MISSING_COST", "movement_ids": []}
    run = await write_run(books, [sold("BLUE", "B1")], errors=[error, whole])
    url = f"/v1/cost-runs/{run}/errors"
    first = (await client.get(f"{url}?limit=1")).json()
    (shown,) = first["errors"]
    assert (shown["code"], shown["item"], shown["name"]) == ("NEGATIVE_STOCK", "=B", "+Bánh")
    (movement,) = shown["movements"]
    assert movement | {"id": 0} == {
        "id": 0,
        "date": "2026-01-09",
        "kind": "issue",
        "store": "R1",
        "to_store": None,
        "document": "PX-7",
        "line": 3,
        "qty": "1.500",
        "value": None,
        "lot": None,
        "refers_to": None,
        "reverses": None,
    }
    rest = (await client.get(f"{url}?cursor={first['next_cursor']}")).json()
    assert [(each["pool"], each["movements"]) for each in rest["errors"]] == [(None, [])]
    only = (await client.get(f"{url}?code=MISSING_COST&item==B")).json()
    assert [each["code"] for each in only["errors"]] == ["MISSING_COST"]
    now = "/v1/costs?company=ACME&period=2026-01"
    items = {"total": 2, "failed": 1, "stale": 0, "late": 0}
    assert (await client.get(now)).json()["items"] == items
    async with books.begin() as conn:
        await conn.execute(text(MOVE))
    assert (await client.get(now)).json()["items"] == items | {"late": 1}, "no result holds it"


DIFFERENCES = [
    {"brand": "RED", "item": "A", "account": "1561", "before": 100, "after": 250},
    {"brand": "RED", "item": "A", "account": "632", "before": 0, "after": -150},
    {"brand": "BLUE", "item": "=B", "account": "632", "before": 7, "after": 0},
]


async def test_a_preview_has_differences_and_nothing_else(
    client: httpx.AsyncClient, books: AsyncEngine
) -> None:
    """Per item and account, and added up by account; it never spoke."""
    run = await write_run(books, status="previewed", differences=DIFFERENCES)
    url = f"/v1/cost-runs/{run}/differences"
    first = (await client.get(f"{url}?limit=2")).json()
    rest = (await client.get(f"{url}?limit=2&cursor={first['next_cursor']}")).json()
    shown = [
        (each["item"], each["account"], each["before"], each["after"], each["difference"])
        for each in first["differences"] + rest["differences"]
    ]
    assert shown == [
        ("=B", "632", "0.07", "0.00", "-0.07"),
        ("A", "1561", "1.00", "2.50", "1.50"),
        ("A", "632", "0.00", "-1.50", "-1.50"),
    ]
    by_account = {each["account"]: each["difference"] for each in rest["accounts"]}
    assert by_account == {"1561": "1.50", "632": "-1.57"}
    gone = problem_of(await client.get(f"/v1/cost-runs/{run}/results"), 410, "cost-run-gone")
    assert "differences and errors" in gone["detail"]
    assert (await client.get(f"/v1/cost-runs/{run}/errors")).json()["errors"] == []
    spoken = await write_run(books, [sold("RED", "R1")])
    url = f"/v1/cost-runs/{spoken}/differences"
    problem_of(await client.get(url), 409, "not-a-preview")


async def test_a_brands_key_sees_its_part_and_no_number_of_the_others(
    guarded: httpx.AsyncClient, books: AsyncEngine
) -> None:
    """Rows, totals, counts, errors and differences; what brands share is nobody's part."""
    pools = [sold("RED", "R1"), sold("BLUE", "B1", cost=7_777), sold("", "*", "=B", cost=8_888)]
    error = {
        "brand": "BLUE",
        "item": "X",
        "number": 1,
        "pool": None,
        "code": "OVERFLOW",
        "detail": "secret",
        "movement_ids": [],
    }
    await execute(
        books,
        "INSERT INTO books.items (company, code, name, base_uom) VALUES ('ACME', 'X', 'X', 'x')",
    )
    run = await write_run(books, pools, errors=[error])
    preview = await write_run(books, status="previewed", differences=DIFFERENCES)
    key = bearer(await make_key(books, Role.READ, scope=RED))
    for path in (
        "/v1/cost-runs?company=ACME",
        f"/v1/cost-runs/{run}",
        f"/v1/cost-runs/{run}/results",
        f"/v1/cost-runs/{run}/errors",
        f"/v1/cost-runs/{preview}/differences",
        "/v1/costs?company=ACME&period=2026-01",
    ):
        answer = await guarded.get(path, headers=key)
        assert answer.status_code == 200, answer.text
        for told in ("BLUE", "77.77", "88.88", "233.31", "secret", "0.07"):
            assert told not in answer.text, (path, told)
    view = (await guarded.get(f"/v1/cost-runs/{run}", headers=key)).json()
    assert view["of_brands"] == ["RED"]
    assert view["proof"]["totals"]["closing"] == "300.00"
    assert view["items"]["failed"] == 0
    assert [check["id"] for check in view["proof"]["checks"]] == ["I1", "I2", "I4"]
    listed = (await guarded.get("/v1/cost-runs?company=ACME", headers=key)).json()
    assert [each["id"] for each in listed["runs"]] == [preview, run]
    await supersede(books, run)
    view = (await guarded.get(f"/v1/cost-runs/{run}", headers=key)).json()
    assert view["proof"]["totals"] is None


async def test_a_run_of_others_is_like_none_at_all(
    guarded: httpx.AsyncClient, books: AsyncEngine
) -> None:
    """Of another company, or of another brand: 404 with the words of a number that is none."""
    run = await write_run(books, [sold("RED", "R1")], brand="RED")
    for scope in (BLUE, OTHER):
        key = bearer(await make_key(books, Role.ADMIN, scope=scope))
        for path in ("", "/results", "/errors", "/differences"):
            told = await guarded.get(f"/v1/cost-runs/{run}{path}", headers=key)
            none = await guarded.get(f"/v1/cost-runs/{run + 9}{path}", headers=key)
            said = problem_of(told, 404, "cost-run-not-found")["detail"]
            assert said.replace(str(run), "N") == problem_of(none, 404, "cost-run-not-found")[
                "detail"
            ].replace(str(run + 9), "N")
        body = {"table": "results", "format": "csv"}
        refused = await guarded.post(f"/v1/cost-runs/{run}/exports", json=body, headers=key)
        problem_of(refused, 404, "cost-run-not-found")
    other = bearer(await make_key(books, Role.READ, scope=OTHER))
    for path in ("cost-runs", "costs"):
        refused = await guarded.get(f"/v1/{path}?company=ACME&period=2026-01", headers=other)
        none = await guarded.get(f"/v1/{path}?company=NONE&period=2026-01", headers=other)
        said = problem_of(refused, 422, "unknown-company")["detail"]
        assert said == problem_of(none, 422, "unknown-company")["detail"]
    assert ACME.covers_company("ACME")
    assert await scalar(books, "SELECT count(*) FROM chot.jobs") == 0
