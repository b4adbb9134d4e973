"""The periodic average as domain rules 1.4 and 1.6 state it: every pool of every item in one
linear system, solved in rationals; integers come only where the rules say so.
"""

from collections.abc import Mapping, Sequence
from fractions import Fraction

from tests.costing_oracle.happened import Exact, Happened, Node, Pool
from tests.costing_oracle.linear import SingularError, solved
from tests.costing_oracle.story import RefusedError
from worker.costing.movements import ItemStock
from worker.costing.problems import Code


def exact(
    stocks: Sequence[ItemStock], pool_of: Mapping[str, str], *, provisional: bool = False
) -> Exact:
    """Cost items that belong together; raises `RefusedError` as the rules demand."""
    return _Period(stocks, pool_of, provisional=provisional).answer()


class _Period(Happened):
    def answer(self) -> Exact:
        if not self.provisional:
            # Whatever the prices are, nothing leaves a pool that the period does not hold.
            for node, pool in self.pools.items():
                if self._left(node, pool) < 0:
                    raise RefusedError(Code.NEGATIVE_STOCK, self._first_short(node, pool))
        self._solve()
        self._value()
        return self.result

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
