"""The sample month: what every method of costing takes without an error must be in it."""

import random
from collections import Counter, defaultdict
from datetime import date
from itertools import count

from dev.sample_catalogue import catalogue, shops
from dev.sample_movements import COLUMNS, HABITS, WHOLE, Habits, Month, Row

IN = {"opening", "receipt", "adjust_in", "sales_return"}
OUT = {"issue", "adjust_out", "purchase_return", "transfer"}


def _month(habits: Habits, movements: int = 30_000, items: int = 2_000) -> list[dict[str, object]]:
    dice = random.Random(7)
    ids = count(1)
    rows: list[Row] = list(
        Month(
            dice,
            catalogue(dice, items),
            shops(),
            company="S",
            first_day=date(2026, 1, 1),
            last_day=date(2026, 1, 31),
            movements=movements,
            next_id=lambda: next(ids),
            habits=habits,
        ).rows()
    )
    return [dict(zip(COLUMNS, row, strict=True)) for row in rows]


def test_the_same_seed_gives_the_same_rows_and_the_number_asked_for() -> None:
    one = _month(WHOLE)
    assert len(one) == 30_000
    assert one == _month(WHOLE)


def test_a_whole_month_has_every_movement_that_costing_knows_of_a_chain() -> None:
    rows = _month(WHOLE)
    kinds = Counter(row["kind"] for row in rows)
    assert set(kinds) == IN | OUT | {"landed_cost", "count"}
    assert any(row["to_brand"] not in {None, row["brand"]} for row in rows)
    assert all(row["lot_id"] is not None for row in rows)


def test_goods_go_in_circles_between_shops() -> None:
    sent = {(r["item"], r["store"], r["to_store"]) for r in _month(WHOLE) if r["to_store"]}
    assert any((item, target, source) in sent for item, source, target in sent)


def test_a_usual_month_knows_no_lots_no_freight_and_no_counts() -> None:
    rows = _month(HABITS)
    assert {row["lot_id"] for row in rows} == {None}
    assert not {"landed_cost", "count"} & {row["kind"] for row in rows}


def test_no_lot_on_no_shelf_ever_goes_below_zero() -> None:
    """In the order of days and sequence, as a replayed method takes them."""
    held: Counter[object] = Counter()
    of_shelf: dict[tuple[object, object], set[object]] = defaultdict(set)
    before: tuple[object, ...] = ()
    for row in _month(WHOLE):
        place = (row["posting_date"], row["posting_seq"])
        assert before < place
        before = place
        shelf = (row["item"], row["store"])
        lot = (*shelf, row["lot_id"])
        quantity = row["qty_base"]
        assert isinstance(quantity, int)
        of_shelf[shelf].add(lot)
        if row["kind"] == "count":
            # A count of one lot is taken for the whole shelf by methods without lots.
            assert not any(held[other] for other in of_shelf[shelf] - {lot})
            held[lot] = quantity
        elif row["kind"] in OUT:
            held[lot] -= quantity
            assert held[lot] >= 0
            if row["to_store"]:
                target = (row["item"], row["to_store"])
                of_shelf[target].add((*target, row["lot_id"]))
                held[(*target, row["lot_id"])] += quantity
        else:
            held[lot] += quantity


def test_a_large_catalogue_has_names_and_codes_of_its_own() -> None:
    items = catalogue(random.Random(1), 20_000)
    assert len(items) == 20_000
    assert len({item.code for item in items}) == len({item.name for item in items}) == 20_000
