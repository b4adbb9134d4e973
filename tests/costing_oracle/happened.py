"""What happened in a period, as domain rules 1.4 and 1.6 tell it: what each pool had, got and gave."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from tests.costing_oracle.story import (
    Place,
    RefusedError,
    cancelled,
    differences,
    part,
    places,
    returned_before,
    rounded,
)
from worker.costing.movements import ItemStock, Movement, Reference
from worker.costing.problems import Code

Node = tuple[str, str]


@dataclass
class Pool:
    """A node of the system: what came from outside, what came from other nodes, what goes out."""

    opening: int = 0
    opening_value: int = 0
    quantity: int = 0
    value: Fraction = Fraction(0)
    inflow: dict[Node, int] = field(default_factory=lambda: defaultdict(int))
    made: int = 0
    made_value: int = 0  # what is known of it: what was added, and what goods of others had cost
    before: tuple[int, Fraction] = (0, Fraction(0))  # what went back at cost
    neutral: int = 0
    found: int = 0  # of which nobody has sold: what was found without a value
    out: list[tuple[Movement, int]] = field(default_factory=list)
    withdrawn: list[tuple[Movement, int]] = field(default_factory=list)


@dataclass
class Exact:
    """The answer before any rounding. `lines` has each movement's value, `known` those that are
    integers by rule; `closing` each pool's quantity and value.
    """

    prices: dict[Node, Fraction | None] = field(default_factory=dict)
    closing: dict[Node, tuple[int, Fraction]] = field(default_factory=dict)
    lines: dict[int, Fraction] = field(default_factory=dict)
    known: dict[int, int] = field(default_factory=dict)
    variances: dict[int, Fraction] = field(default_factory=dict)
    true_ups: dict[Node, Fraction] = field(default_factory=dict)
    cancelled: set[int] = field(default_factory=set)
    unpriced: set[Node] = field(default_factory=set)


class Happened:
    """The pools of items that belong together, once all that happened to them is told."""

    def __init__(
        self, stocks: Sequence[ItemStock], pool_of: Mapping[str, str], *, provisional: bool
    ) -> None:
        self.stocks, self.pool_of, self.provisional = stocks, pool_of, provisional
        self.pools: dict[Node, Pool] = defaultdict(Pool)
        self.at: dict[int, tuple[Node, int]] = {}  # movement -> whose price it has, and how often
        self.parts: dict[int, tuple[int, int]] = {}  # return -> its sale and its quantity
        self.made: dict[Node, list[tuple[Movement, int]]] = defaultdict(list)
        self.place: dict[int, Place] = {}
        self.result = Exact()
        self.owner = {m.id: stock.item for stock in stocks for m in stock.movements}
        self.every = {m.id: m for stock in stocks for m in stock.movements}
        for stock in stocks:
            self._tell(stock)

    def _tell(self, stock: ItemStock) -> None:
        gone = cancelled(stock)
        place = places(stock.movements)
        self.place |= place
        order = sorted(stock.movements, key=lambda m: place[m.id])
        lives = {m.id: m for m in order if m.id not in gone}
        before = returned_before(stock, lives.values(), lives)
        found = differences(stock, lives.values())
        for opening in stock.openings:
            pool = self.pools[stock.item, self.pool_of[opening.store]]
            pool.opening += opening.qty
            pool.opening_value += opening.value
        for item, name in list(self.pools):
            pool = self.pools[item, name]
            if item == stock.item and pool.opening >= 0:
                pool.quantity += pool.opening
                pool.value += pool.opening_value
        returns: list[Movement] = []
        for movement in order:
            if movement.id in gone:
                self.result.cancelled.add(movement.id)
                continue
            if movement.kind == "purchase_return" and movement.basis == "average" and movement.ref:
                original, _ = self._original(stock, movement, lives, before)
                self.result.variances[movement.id] = Fraction(original)
            if self._leaves_inputs(movement):
                returns.append(movement)
            else:
                self._enter(stock, movement, lives, before, found)
        self._remember(stock)
        for movement in returns:
            self._return_purchase(stock, movement, lives, before)

    def _remember(self, stock: ItemStock) -> None:
        for (item, _), pool in self.pools.items():
            if item == stock.item:
                pool.before = (pool.quantity, pool.value)

    @staticmethod
    def _leaves_inputs(movement: Movement) -> bool:
        if movement.reverses is not None:
            return movement.kind in {"opening", "receipt", "produce", "sales_return", "adjust_in"}
        return movement.kind == "purchase_return" and movement.basis != "average"

    def _enter(
        self,
        stock: ItemStock,
        m: Movement,
        lives: Mapping[int, Movement],
        before: Mapping[int, int],
        found: Mapping[int, int],
    ) -> None:
        node = (stock.item, self.pool_of[m.store])
        if m.reverses is not None:
            self._take_back(stock, m, node)
        elif m.kind in {"issue", "consume", "adjust_out", "purchase_return"}:
            self._out(node, m, m.qty)
        elif m.kind == "transfer":
            self._transfer(stock, node, m)
        elif m.kind == "sales_return":
            self._return_sale(stock, node, m, lives, before)
        elif m.kind == "landed_cost":
            self._freight(stock, node, m, lives)
        elif m.kind == "count":
            self._count(node, m, found[m.id])
        elif m.sources:
            self._make(stock, node, m)
        else:
            self._receive(node, m)

    def _count(self, node: Node, m: Movement, difference: int) -> None:
        if m.value and not m.qty:
            raise RefusedError(Code.ORPHAN_VALUE, m.id)
        if difference < 0:
            self._out(node, m, -difference)
        elif difference and m.qty and m.value is not None:
            self._known(node, m, difference, part(m.value, difference, 0, m.qty))
        else:
            self._found(node, m, difference)

    def _make(self, stock: ItemStock, node: Node, m: Movement) -> None:
        known = (m.value or 0) + sum(self._outside(stock, source) for source in m.sources)
        if not any(source in self.owner for source in m.sources):
            self._known(node, m, m.qty, known)
            return
        # What is made of goods that are costed with it is no opening and no input from outside: no
        # return can be of it, nor take its value. A return takes quantity and value of the same.
        pool = self.pools[node]
        pool.made += m.qty
        pool.made_value += known
        self.made[node].append((m, m.value or 0))

    def _receive(self, node: Node, m: Movement) -> None:
        if m.value is not None:
            self._known(node, m, m.qty, m.value)
        elif m.kind == "adjust_in":
            self._found(node, m, m.qty)
        else:
            raise RefusedError(Code.MISSING_COST, m.id)

    def _outside(self, stock: ItemStock, source: int) -> int:
        """What a source costs that is not among the stocks at hand."""
        if source in self.owner:
            return 0
        reference = stock.references.get(source)
        if reference is None or reference.value is None:
            raise RefusedError(Code.MISSING_COST, None)
        return reference.value

    def _known(self, node: Node, m: Movement, quantity: int, value: int) -> None:
        self.pools[node].quantity += quantity
        self.pools[node].value += value
        self.result.known[m.id] = value

    def _out(self, node: Node, m: Movement, quantity: int) -> None:
        self.pools[node].out.append((m, quantity))
        self.at[m.id] = (node, quantity)

    def _found(self, node: Node, m: Movement, quantity: int) -> None:
        """Takes the average and does not move it."""
        self.pools[node].neutral += quantity
        self.pools[node].found += quantity
        self.at[m.id] = (node, quantity)

    def _transfer(self, stock: ItemStock, node: Node, m: Movement) -> None:
        assert m.to_store is not None
        target = (stock.item, self.pool_of[m.to_store])
        self.at[m.id] = (node, m.qty)
        pool = self.pools[node]
        if target != node:
            pool.out.append((m, m.qty))
            self.pools[target].inflow[node] += m.qty

    def _return_sale(
        self,
        stock: ItemStock,
        node: Node,
        m: Movement,
        lives: Mapping[int, Movement],
        before: Mapping[int, int],
    ) -> None:
        sale = lives.get(m.ref) if m.ref is not None else None
        if sale is not None:
            origin = (stock.item, self.pool_of[sale.store])
            self.at[m.id] = (origin, m.qty)
            self.parts[m.id] = (sale.id, m.qty)
            if origin == node:
                self.pools[node].neutral += m.qty
            else:
                self.pools[node].inflow[origin] += m.qty
            return
        earlier = stock.references.get(m.ref) if m.ref is not None else None
        if earlier is not None and earlier.value is not None:
            value = part(earlier.value, m.qty, before[m.id], earlier.qty)
            self._known(node, m, m.qty, value)
        elif m.value is not None:
            self._known(node, m, m.qty, m.value)
        else:
            code = Code.RETURN_WITHOUT_REF if earlier is None else Code.MISSING_COST
            raise RefusedError(code, m.id)

    def _freight(
        self, stock: ItemStock, node: Node, m: Movement, lives: Mapping[int, Movement]
    ) -> None:
        """Wherever it is booked, it is a cost of its receipt, where that stands."""
        if m.value is None:
            raise RefusedError(Code.MISSING_COST, m.id)
        receipt = lives.get(m.ref) if m.ref is not None else None
        if receipt is not None:
            node = (stock.item, self.pool_of[receipt.store])
        earlier = stock.references.get(m.ref) if m.ref is not None else None
        value, gone = m.value, 0
        if earlier is not None and m.ref not in self.every:
            left = min(max(self.pools[node].opening, 0), earlier.qty)
            value = rounded(Fraction(m.value * left, earlier.qty))
            gone = m.value - value
        self._known(node, m, 0, value)
        self.result.variances[m.id] = Fraction(gone)

    def _take_back(self, stock: ItemStock, m: Movement, node: Node) -> None:
        """What went out in an earlier period comes back at what it had cost."""
        assert m.reverses is not None
        reference = stock.references[m.reverses]
        if m.kind == "landed_cost":
            self._known(node, m, 0, -(reference.value or 0))
        elif reference.value is None:
            raise RefusedError(Code.MISSING_COST, m.id)
        else:
            self._known(node, m, m.qty, reference.value)

    def _return_purchase(
        self,
        stock: ItemStock,
        m: Movement,
        lives: Mapping[int, Movement],
        before: Mapping[int, int],
    ) -> None:
        node = (stock.item, self.pool_of[m.store])
        pool = self.pools[node]
        original, origin = self._original(stock, m, lives, before)
        if origin != node or m.qty > pool.quantity:
            self._out(node, m, m.qty)
            self.result.variances[m.id] = Fraction(original)
            return
        value = min(Fraction(original), max(pool.value, Fraction(0)))
        if m.qty == pool.quantity and not (pool.made or any(pool.inflow.values())):
            # Drain rule: all of it. Where goods of other pools are left, they carry the rest.
            value = pool.value
        pool.quantity -= m.qty
        pool.value -= value
        pool.withdrawn.append((m, m.qty))
        self.result.known[m.id] = int(value)
        self.result.variances[m.id] = value - original

    def _original(
        self,
        stock: ItemStock,
        m: Movement,
        lives: Mapping[int, Movement],
        before: Mapping[int, int],
    ) -> tuple[int, Node]:
        """What the goods had cost, and the pool that had received them."""
        named = m.reverses if m.reverses is not None else m.ref
        receipt: Movement | Reference | None = None
        if named is not None:
            receipt = lives.get(named) or stock.references.get(named)
            if receipt is None:
                raise RefusedError(Code.RETURN_WITHOUT_REF, m.id)
        if receipt is None or receipt.value is None:
            if m.value is None:
                raise RefusedError(Code.RETURN_WITHOUT_REF, m.id)
            return m.value, (stock.item, self.pool_of[m.store])
        assert receipt.value is not None
        origin = (stock.item, self.pool_of[receipt.store])
        if m.reverses is not None:
            return receipt.value, origin
        freight = sum(
            x.value or 0 for x in lives.values() if x.kind == "landed_cost" and x.ref == named
        )
        value = receipt.value + (freight if named in lives else 0)
        return part(value, m.qty, before[m.id], receipt.qty), origin
