"""The periodic average as domain rules 1.4 and 1.6 state it: every pool of every item in one
linear system, solved in rationals; integers come only where the rules say so.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from tests.costing_oracle.linear import SingularError, solved
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


def exact(
    stocks: Sequence[ItemStock], pool_of: Mapping[str, str], *, provisional: bool = False
) -> Exact:
    """Cost items that belong together; raises `RefusedError` as the rules demand."""
    return _Period(stocks, pool_of, provisional=provisional).answer()


class _Period:
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

    def answer(self) -> Exact:
        for stock in self.stocks:
            self._tell(stock)
        if not self.provisional:
            # Whatever the prices are, nothing leaves a pool that the period does not hold.
            for node, pool in self.pools.items():
                if self._left(node, pool) < 0:
                    raise RefusedError(Code.NEGATIVE_STOCK, self._first_short(node, pool))
        self._solve()
        self._value()
        return self.result

    # What happened

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

    # What it is worth

    def _denominator(self, node: Node) -> int:
        pool = self.pools[node]
        return pool.quantity + sum(pool.inflow.values()) + pool.made

    def _solve(self) -> None:
        nodes = sorted(node for node in self.pools if self._denominator(node))
        level: dict[Node, Fraction] = {}
        while unfed := self._unfed(nodes):
            level |= dict.fromkeys(*self._round(unfed))
            nodes = [node for node in nodes if node not in level]
        number = {node: n for n, node in enumerate(nodes)}
        matrix = [[Fraction(0)] * len(nodes) for _ in nodes]
        right = []
        for node in nodes:
            row = matrix[number[node]]
            row[number[node]] += self._denominator(node)
            for source, quantity in self._feeds(node):
                if source in number:
                    row[number[source]] -= quantity
                else:
                    price = level.get(source, self._last_price(source))
                    self.pools[node].value += (price or 0) * quantity
            right.append(self.pools[node].value + self.pools[node].made_value)
        try:
            prices = solved(matrix, right)
        except SingularError:
            # Goods made of all that they were made into: no price is right, and no code is.
            raise RefusedError(None) from None
        self.result.prices |= dict(zip(nodes, prices, strict=True)) | level
        self.result.unpriced = self.pools.keys() - set(nodes) - set(level)
        for node in self.pools:
            self.result.prices.setdefault(node, self._last_price(node))

    def _feeds(self, node: Node) -> list[tuple[Node, int]]:
        """The pools whose price makes this one's, and how many of their units."""
        feeds = list(self.pools[node].inflow.items())
        for movement, _ in self.made[node]:
            for source in movement.sources:
                if source in self.owner:
                    consumed = self.every[source]
                    feeds.append(((self.owner[source], self.pool_of[consumed.store]), consumed.qty))
        return feeds

    def _unfed(self, nodes: list[Node]) -> set[Node]:
        """Goods that go round must have come from somewhere: rule 1.6 wants a pool with goods of
        its own behind every circle. Value is not enough, nor that one becomes two on the way.
        """
        fed = {node for node in nodes if self.pools[node].quantity > 0}
        fed |= {n for n in nodes if not self._feeds(n) or self._made_of_others(n)}
        # What comes from a pool outside the system has come from there, whatever it is worth.
        fed |= {n for n in nodes if any(s not in nodes for s, _ in self._feeds(n))}
        grown = True
        while grown:
            more = {n for n in nodes if n not in fed and any(s in fed for s, _ in self._feeds(n))}
            fed |= more
            grown = bool(more)
        return set(nodes) - fed

    def _made_of_others(self, node: Node) -> bool:
        """Whether goods that are costed already went into it: they came from somewhere."""
        return any(s not in self.owner for movement, _ in self.made[node] for s in movement.sources)

    def _round(self, unfed: set[Node]) -> tuple[list[Node], Fraction]:
        """A circle that nothing feeds, and the one price of all its pools.

        That is the last known one, where goods may be lent from nowhere, or where some were found:
        those did come from somewhere, only nobody says at which cost.
        """
        behind = {node: {source for source, _ in self._feeds(node)} & unfed for node in unfed}
        for _ in unfed:
            for seen in behind.values():
                seen |= {further for each in list(seen) for further in behind[each]}
        # Nothing but itself is behind a first circle; what it feeds has no error of its own.
        first = next(n for n in sorted(unfed) if all(n in behind[each] for each in behind[n]))
        circle = sorted(behind[first])
        found = any(self._finds(node) for node in circle)
        known = [price for node in circle if (price := self._remembered(node)) is not None]
        if known and (found or self.provisional) and all(self._only_moves(n) for n in circle):
            return circle, known[0]
        raise RefusedError(Code.MISSING_COST if found else Code.CYCLE_WITHOUT_SOURCE)

    def _only_moves(self, node: Node) -> bool:
        """Whether one price for all satisfies its equation, whichever that is."""
        came = sum(quantity for _, quantity in self._feeds(node))
        pool = self.pools[node]
        return came == self._denominator(node) and not (pool.value or pool.made_value)

    def _remembered(self, node: Node) -> Fraction | None:
        stock = next(s for s in self.stocks if s.item == node[0])
        price = stock.last_prices.get(node[1])
        if price is None or not price.denominator:
            return None
        return Fraction(price.numerator, price.denominator)

    def _finds(self, node: Node) -> bool:
        """Whether goods were found there of which nobody says what they cost."""
        return self.pools[node].found > 0

    def _last_price(self, node: Node) -> Fraction | None:
        """What goods cost when there last were some: before all of them went back, or earlier."""
        quantity, value = self.pools[node].before
        if quantity > 0:
            return value / quantity
        remembered = self._remembered(node)
        if remembered is not None:
            return remembered
        pool = self.pools[node]
        return Fraction(pool.opening_value, pool.opening) if pool.opening else None

    def _value(self) -> None:
        for node, pool in self.pools.items():
            self._close(node, pool)
        for number, (node, quantity) in self.at.items():
            price = self.result.prices[node]
            self.result.lines[number] = (price or Fraction(0)) * quantity
            if number in self.result.variances:
                original = self.result.variances[number]
                self.result.variances[number] = self.result.lines[number] - original
        for made in self.made.values():
            for movement, extra in made:
                stock = next(s for s in self.stocks if s.item == self.owner[movement.id])
                self.result.lines[movement.id] = extra + sum(
                    (self._cost(stock, source) for source in movement.sources), Fraction(0)
                )

    def _cost(self, stock: ItemStock, source: int) -> Fraction:
        if source not in self.owner:
            return Fraction(stock.references[source].value or 0)
        return self.result.lines[source]

    def _close(self, node: Node, pool: Pool) -> None:
        price = self.result.prices[node]
        left = self._left(node, pool)
        if left < 0 and price is None:
            raise RefusedError(Code.NEGATIVE_STOCK, self._first_short(node, pool))
        if not self._denominator(node):
            if pool.value:
                raise RefusedError(Code.ORPHAN_VALUE)
            if pool.opening >= 0 and pool.neutral and price is None:
                raise RefusedError(Code.MISSING_COST)
        elif price is not None and price < 0:
            raise RefusedError(self._why_negative())
        self.result.closing[node] = (left, self._closing_value(node, pool, price or Fraction(0)))

    def _came(self, node: Node, pool: Pool) -> int:
        return self._denominator(node) + pool.neutral + min(pool.opening, 0)

    def _left(self, node: Node, pool: Pool) -> int:
        return self._came(node, pool) - sum(quantity for _, quantity in pool.out)

    def _why_negative(self) -> Code | None:
        """More value was taken off than there was; or goods were found, and then more consumed than
        what has a value: no price is one of which what was found costs as much as the rest.
        """
        taken_off = any((m.value or 0) < 0 for m in self.every.values())
        found = any(self._finds(node) for node in self.pools)
        if taken_off == found:
            return None if found else Code.NEGATIVE_STOCK
        return Code.MISSING_COST if found else Code.RETURN_EXCEEDS_VALUE

    def _closing_value(self, node: Node, pool: Pool, price: Fraction) -> Fraction:
        """What was owed at first is settled by what came, at its average; the rest stays owed."""
        came = self._denominator(node)
        owed, owed_value = max(-pool.opening, 0), -pool.opening_value if pool.opening < 0 else 0
        settled = min(owed, came)
        still = Fraction(owed_value * (owed - settled), owed) if owed else Fraction(0)
        self.result.true_ups[node] = price * settled - (owed_value - still)
        went = sum(quantity for _, quantity in pool.out)
        return price * (came + pool.neutral - went - settled) - still

    def _first_short(self, node: Node, pool: Pool) -> int | None:
        so_far = 0
        came = self._came(node, pool) + sum(quantity for _, quantity in pool.withdrawn)
        rows = [*pool.out, *pool.withdrawn]
        for movement, quantity in sorted(rows, key=lambda row: self.place[row[0].id]):
            so_far += quantity
            if so_far > came:
                return movement.id
        return None
