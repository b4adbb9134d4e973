"""What is costed together, and what a run of one brand may not cost."""

from collections.abc import Sequence

from worker.costing.problems import Code
from worker.costing.units import Layout, Node, Row, State, Unit, group

BRANDS = {"R1": "RED", "R2": "RED", "B1": "BLUE", "G1": "GREEN"}
APART = Layout(BRANDS, {store: f"{brand}/{brand}" for store, brand in BRANDS.items()})


def row(number: int, store: str, *, to: str | None = None, ref: int | None = None) -> Row:
    """A movement, as far as units look at it."""
    return (number, None, 0, "issue", store, to, 1, None, ref, None, None, None)


def node(brand: str, *rows: Row, item: str = "A", **more: object) -> Node:
    """An item of a brand with these movements."""
    fields = {"method": "periodic_avg", "state": State(), "references": {}} | more
    return Node(brand=brand, item=item, movements=list(rows), **fields)  # type: ignore[arg-type]


def names(units: Sequence[Unit]) -> list[list[tuple[str, tuple[str, ...]]]]:
    """Items and brands of each unit."""
    return [[(stock.item, tuple(stock.brands)) for stock in unit.stocks] for unit in units]


def grouped(
    *nodes: Node, layout: Layout = APART, sources: dict[int, tuple[int, ...]] | None = None
) -> list[list[tuple[str, tuple[str, ...]]]]:
    """As a run of the company groups them."""
    return names(group(nodes, layout, sources or {}, whole_company=True))


def test_brands_that_have_nothing_to_do_with_each_other_are_apart() -> None:
    found = grouped(node("BLUE", row(1, "B1")), node("RED", row(2, "R1", to="R2")))
    assert found == [[("A", ("BLUE",))], [("A", ("RED",))]]


def test_a_transfer_or_a_return_ties_its_brands() -> None:
    others = (node("BLUE", row(1, "B1")), node("GREEN", row(2, "G1")))
    tied = [[("A", ("BLUE", "RED"))], [("A", ("GREEN",))]]
    assert grouped(*others, node("RED", row(3, "R1", to="B1"))) == tied
    assert grouped(*others, node("RED", row(3, "R1", ref=1))) == tied


def test_a_pool_that_is_shared_ties_whoever_has_goods_in_it() -> None:
    pools = Layout(BRANDS, dict(APART.pool_of) | {"R2": "/x", "B1": "/x", "G1": "/x"})
    holding = node("GREEN", state=State([("G1", "/x", 1, 1)]))
    empty = node("GREEN", state=State([("G1", "/x", 0, 0)]))
    blue, red = node("BLUE", row(1, "B1")), node("RED", row(2, "R1", to="R2"))
    assert grouped(blue, holding, red, layout=pools) == [[("A", ("BLUE", "GREEN", "RED"))]]
    assert grouped(blue, empty, red, layout=pools)[1] == [("A", ("GREEN",))]


def test_what_is_made_is_with_what_it_is_made_of() -> None:
    made, used = node("RED", row(1, "R1"), item="C"), node("BLUE", row(2, "B1"), item="A")
    units = group([used, made], APART, {1: (2,), 9: (8,)}, whole_company=True)
    assert names(units) == [[("A", ("BLUE",)), ("C", ("RED",))]]
    assert units[0].sources == {1: (2,)}


def test_a_run_of_one_brand_refuses_what_crosses_and_what_is_shared() -> None:
    pools = Layout(BRANDS, dict(APART.pool_of) | {"R2": "/x"})
    nodes = [
        node("RED", row(1, "R1", to="B1"), crossing=(1,)),
        node("RED", row(2, "R2"), item="B"),
        node("RED", row(3, "R1"), item="C"),
        node("RED", row(4, "R1"), item="D", out_of_scope=True),
    ]
    units = group(nodes, pools, {}, whole_company=False)
    refusals = [unit.stocks[0].refusal for unit in units]
    codes = [None if each is None else each.code for each in refusals]
    assert codes == [Code.OUT_OF_SCOPE, Code.OUT_OF_SCOPE, None, Code.OUT_OF_SCOPE]
    assert refusals[0] is not None
    assert refusals[0].movement_ids == (1,)


def test_an_opening_that_nobody_knows_refuses_all_brands_that_are_tied_to_it() -> None:
    units = group(
        [node("BLUE", row(1, "B1"), state=None), node("RED", row(2, "R1", to="B1"))],
        APART,
        {},
        whole_company=True,
    )
    refusal = units[0].stocks[0].refusal
    assert refusal is not None
    assert (refusal.code, refusal.movement_ids) == (Code.OPENING_NOT_COSTED, (1, 2))
