"""What is costed together: an item of one brand, or more of them where goods or costs cross.

Read rows in, units out: everything in a unit depends on nothing outside it, so that one unit fails
or is costed again without the others.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from worker.costing.movements import Reference
from worker.costing.problems import Code

Row = tuple[Any, ...]
# Where a movement's row has what ties it to others.
ID, STORE, TO_STORE, REF, REVERSES = 0, 4, 5, 8, 10


class State(NamedTuple):
    """What one brand's item opens or closes with, as rows of the tables say it.

    Balances are (store, pool, quantity, value), layers (pool, lot, quantity, value, origin, day),
    prices (pool, numerator, denominator) of pools without stock. Pools are named inside the brand,
    one that brands share by its key.
    """

    balances: Sequence[tuple[str, str, int, int]] = ()
    layers: Sequence[tuple[str, str | None, int, int, int | None, Any]] = ()
    prices: Sequence[tuple[str, int, int]] = ()


class Refusal(NamedTuple):
    """Why an item is not costed at all."""

    code: Code
    movement_ids: tuple[int, ...]


class Stock(NamedTuple):
    """One item with all brands of its unit; a state a brand (None: it has none that is valid)."""

    item: str
    method: str
    brands: Sequence[str]
    states: Sequence[State | None]
    movements: Sequence[Row]
    references: Mapping[int, Reference]
    refusal: Refusal | None


class Unit(NamedTuple):
    """Items that are costed together; `sources` has, by production, what it is made of."""

    stocks: Sequence[Stock]
    sources: Mapping[int, tuple[int, ...]]


class Layout(NamedTuple):
    """Where each store lies: its brand and the key of its pool."""

    brand_of: Mapping[str, str]
    pool_of: Mapping[str, str]

    @property
    def shares(self) -> bool:
        """Whether any pool spans brands."""
        return any(is_shared(pool) for pool in self.pool_of.values())


def is_shared(pool: str) -> bool:
    """Whether a pool (by key or by name) is one that brands share."""
    return pool.startswith("/")


def pool_name(brand: str, key: str) -> str:
    """A pool's name inside a brand; one of another brand keeps that brand before it."""
    return key.removeprefix(f"{brand}/")


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One item of one brand as it was read. `crossing`: movements that a brand cannot cost."""

    brand: str
    item: str
    method: str
    state: State | None
    movements: list[Row]
    references: Mapping[int, Reference]
    crossing: tuple[int, ...] = ()
    out_of_scope: bool = False


def group(
    nodes: Sequence[Node],
    layout: Layout,
    sources: Mapping[int, tuple[int, ...]],
    *,
    whole_company: bool,
) -> list[Unit]:
    """The units of whole families, in the order of their first node.

    Without the whole company nothing that crosses to another brand is costed: OUT_OF_SCOPE.
    """
    ties = _Ties(nodes, layout)
    shares = layout.shares
    by_item: dict[str, list[int]] = {}
    for n, node in enumerate(nodes):
        by_item.setdefault(node.item, []).append(n)
    if whole_company:
        for members in by_item.values():
            if len(members) > 1:
                ties.tie_brands(members, shares=shares)
    ties.tie_sources(sources)
    refused = {n for n, node in enumerate(nodes) if node.out_of_scope}
    if shares and not whole_company:
        refused |= {n for n in range(len(nodes)) if ties.is_in_shared_pool(n)}
    return [_unit(members, nodes, sources, refused) for members in ties.groups()]


class _Ties:
    """Union-find over the nodes; a tie is found by looking at rows once."""

    def __init__(self, nodes: Sequence[Node], layout: Layout) -> None:
        self.nodes = nodes
        self.layout = layout
        self.parent = list(range(len(nodes)))

    def find(self, n: int) -> int:
        while self.parent[n] != n:
            self.parent[n] = self.parent[self.parent[n]]
            n = self.parent[n]
        return n

    def tie(self, one: int, other: int) -> None:
        low, high = sorted((self.find(one), self.find(other)))
        self.parent[high] = low

    def groups(self) -> list[list[int]]:
        found: dict[int, list[int]] = {}
        for n in range(len(self.nodes)):
            found.setdefault(self.find(n), []).append(n)
        return list(found.values())

    def tie_brands(self, members: list[int], *, shares: bool) -> None:
        """Nodes of one item: by goods that cross, by returns that name another, by their pool."""
        of_brand = {self.nodes[n].brand: n for n in members}
        owner: dict[int, int] = {}
        for n in members:
            self._tie_rows(n, of_brand)
            owner |= dict.fromkeys((row[ID] for row in self.nodes[n].movements), n)
        for n in members:
            for named in _named(self.nodes[n].movements):
                if named in owner:
                    self.tie(n, owner[named])
        if shares:
            first: dict[str, int] = {}
            for n in members:
                for pool in sorted(self._shared_pools(n)):
                    self.tie(n, first.setdefault(pool, n))

    def _tie_rows(self, n: int, of_brand: Mapping[str, int]) -> None:
        brand = self.nodes[n].brand
        for row in self.nodes[n].movements:
            to_store = row[TO_STORE]
            if to_store is not None and self.layout.brand_of[to_store] != brand:
                self.tie(n, of_brand[self.layout.brand_of[to_store]])

    def _shared_pools(self, n: int) -> set[str]:
        node, pool_of = self.nodes[n], self.layout.pool_of
        stores = {row[STORE] for row in node.movements}
        stores |= {row[TO_STORE] for row in node.movements} - {None}
        if node.state is not None:
            # A pool may hold one lot and owe another, and its stores sum up to nothing.
            owing = {layer[0] for layer in node.state.layers if layer[2] < 0}
            stores |= {
                s for s, pool, qty, value in node.state.balances if qty or value or pool in owing
            }
        return {pool_of[store] for store in stores if is_shared(pool_of[store])}

    def is_in_shared_pool(self, n: int) -> bool:
        """Whether any of a node's goods lies in a pool that brands share."""
        return bool(self._shared_pools(n))

    def tie_sources(self, sources: Mapping[int, tuple[int, ...]]) -> None:
        """What is made is tied to what it is made of, whatever item and brand that is."""
        if not sources:
            return
        wanted = set(sources).union(*sources.values())
        owner = {
            row[ID]: n
            for n, node in enumerate(self.nodes)
            for row in node.movements
            if row[ID] in wanted
        }
        for made, used in sources.items():
            for source in used:
                if made in owner and source in owner:
                    self.tie(owner[made], owner[source])


def _named(rows: Iterable[Row]) -> set[int]:
    return {row[column] for row in rows for column in (REF, REVERSES)} - {None}


def _unit(
    members: list[int],
    nodes: Sequence[Node],
    sources: Mapping[int, tuple[int, ...]],
    refused: set[int],
) -> Unit:
    by_item: dict[str, list[int]] = {}
    for n in members:
        by_item.setdefault(nodes[n].item, []).append(n)
    stocks = [_stock([nodes[n] for n in ns], refused & set(ns)) for ns in by_item.values()]
    if not sources:
        return Unit(stocks, {})
    ids = {row[ID] for stock in stocks for row in stock.movements}
    return Unit(stocks, {made: used for made, used in sources.items() if made in ids})


def _stock(nodes: list[Node], refused: set[int]) -> Stock:
    first = nodes[0]
    if len(nodes) == 1:
        movements, references = first.movements, first.references
    else:
        movements = [row for node in nodes for row in node.movements]
        references = {i: r for node in nodes for i, r in node.references.items()}
    refusal = None
    crossing = tuple(sorted({i for node in nodes for i in node.crossing}))
    if crossing or refused:
        refusal = Refusal(Code.OUT_OF_SCOPE, crossing)
    elif any(node.state is None for node in nodes):
        refusal = Refusal(Code.OPENING_NOT_COSTED, tuple(sorted(row[ID] for row in movements)))
    return Stock(
        first.item,
        first.method,
        tuple(node.brand for node in nodes),
        tuple(node.state for node in nodes),
        movements,
        references,
        refusal,
    )
