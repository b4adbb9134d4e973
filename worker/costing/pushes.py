"""Push what rounding left over to where it can be carried: along the ways on which goods went.

Lines are integers, prices are not. A pool that is empty but for a few units of value, or worth
less than nothing by them, hands them on: by the last lines that it sent to the next pool, until
there is a pool with an issue that carries them out, or with stock left.
"""

from collections import deque
from collections.abc import Sequence
from itertools import pairwise
from math import inf
from typing import NamedTuple

from worker.costing.entries import Role
from worker.costing.movements import Kind
from worker.costing.pools import Book, Pool
from worker.costing.problems import Code, Problem, problem
from worker.costing.residues import due, on_separate_line, residue
from worker.costing.results import Flow, Policy, ResiduePolicy


class _Lines(NamedTuple):
    """A pool's lines that can carry value, the last first: out of the books, or on to a pool."""

    out: list[int]
    wholly_returned: list[int]
    onward: dict[int, list[int]]


def push_residues(pools: Sequence[Pool], book: Book, policy: Policy) -> list[tuple[Pool, Problem]]:
    """Step 5: an empty pool is worth nothing, no pool less; every unit stays in the books."""
    pushes: _Pushes | None = None
    stuck = []
    for number, pool in enumerate(pools):
        gone = pool.settled + sum(entry.qty for entry in pool.outs)
        rest = residue(pool.left, pool.total, pool.price.of(gone), policy)
        if rest == 0:
            continue
        if on_separate_line(policy):
            pool.rounding = rest
            pool.left = Flow(pool.left.qty, pool.left.value - rest)
            continue
        pushes = pushes or _Pushes(pools, book, policy)
        if not pushes.push(number, rest):
            stuck.append((pool, problem(Code.RETURN_EXCEEDS_VALUE, pool.name)))
    return stuck


class _Pushes:
    """The pools with their lines, while residues are moved."""

    def __init__(self, pools: Sequence[Pool], book: Book, policy: Policy) -> None:
        self.pools = pools
        self.book = book
        self.policy = policy
        self.target: dict[int, int] = {}
        self.made: dict[int, int] = {}
        self.known: dict[int, _Lines] = {}
        for number, pool in enumerate(pools):
            for entry in pool.linked:
                if entry.role is Role.MADE:
                    for source in book.sources[entry.movement.id]:
                        self.target[source] = number
                        self.made[source] = entry.movement.id
                elif entry.movement.kind == Kind.TRANSFER:
                    self.target[entry.movement.id] = number

    def push(self, number: int, rest: int) -> bool:
        """Move a residue out of a pool; whether it found a place."""
        if rest != due(self.pools[number].left):
            # The last issue absorbs what equal slips leave, as far as it can; stock keeps the rest.
            self._carry_out(number, rest)
        must = due(self.pools[number].left)
        while must:
            # A sale that came back whole keeps its cost, if any other line can change.
            path = self._nearest(number, must) or self._nearest(number, must, any_line=True)
            if path is None:
                return False
            must -= self._move(path, must)
        return True

    def _lines(self, number: int) -> _Lines:
        found = self.known.get(number)
        if found is None:
            found = self.known[number] = _Lines([], [], {})
            for entry in reversed(self.pools[number].outs):
                line = entry.movement.id
                target = self.target.get(line)
                if target is not None:
                    found.onward.setdefault(target, []).append(line)
                elif self.book.returned.get(line, 0) < entry.qty:
                    found.out.append(line)
                else:
                    found.wholly_returned.append(line)
        return found

    def _nearest(self, start: int, amount: int, *, any_line: bool = False) -> list[int] | None:
        """The shortest way to a pool that can take some of it."""
        came_from = {start: start}
        queue = deque([start])
        while queue:
            here = queue.popleft()
            if self._room(here, amount, any_line=any_line):
                path = [here]
                while path[-1] != start:
                    path.append(came_from[path[-1]])
                return path[::-1]
            for there, lines in sorted(self._lines(here).onward.items()):
                if there not in came_from and self._capacity(lines, amount):
                    came_from[there] = here
                    queue.append(there)
        return None

    def _move(self, path: list[int], amount: int) -> int:
        """Hand a residue on along a path, as much of it as the narrowest place takes."""
        steps = [self._lines(here).onward[there] for here, there in pairwise(path)]
        rooms = [self._room(path[-1], amount, any_line=True)]
        rooms += [self._capacity(step, amount) for step in steps]
        moved = _at_most(amount, min(rooms))
        for step in steps:
            self._spread(step, moved)
        self._take(path[0], moved)
        self._end(path[-1], moved)
        return moved

    def _end(self, number: int, amount: int) -> None:
        """Where a residue comes to rest: an issue, what covered negative stock, or the stock."""
        lines, pool = self._lines(number), self.pools[number]
        for carrying in (lines.out, lines.wholly_returned):
            if self._capacity(carrying, amount):
                self._spread(carrying, amount)
                return
        if self._settlement(number, amount):
            pool.settlement += amount
        else:
            self._take(number, -amount)

    def _carry_out(self, number: int, rest: int) -> None:
        out = self._lines(number).out
        amount = _at_most(rest, self._capacity(out, rest))
        self._spread(out, amount)
        self._take(number, amount)

    def _take(self, number: int, amount: int) -> None:
        pool = self.pools[number]
        pool.left = Flow(pool.left.qty, pool.left.value - amount)

    def _room(self, number: int, amount: int, *, any_line: bool) -> float:
        lines = self._lines(number)
        room = self._capacity(lines.out, amount)
        if any_line and not room:
            room = self._capacity(lines.wholly_returned, amount)
        return room or self._settlement(number, amount) or self._stock(number, amount)

    def _capacity(self, lines: list[int], amount: int) -> float:
        """How much lines can take: any surplus, but of a deficit no more than they are worth."""
        if not lines:
            return 0
        return inf if amount > 0 else sum(self.book.values[line] for line in lines)

    def _settlement(self, number: int, amount: int) -> float:
        pool = self.pools[number]
        if not pool.settled:
            return 0
        return inf if amount > 0 else max(0, pool.settlement)

    def _stock(self, number: int, amount: int) -> float:
        """As with lines: stock is not worth less than nothing, and stock that is owed not more."""
        quantity, value = self.pools[number].left
        if quantity == 0:
            return 0
        grows_away_from_zero = (amount > 0) == (quantity > 0)
        return inf if grows_away_from_zero else max(0, value if quantity > 0 else -value)

    def _spread(self, lines: list[int], amount: int) -> None:
        """Change lines by single units, the last line first; under `last_issue` that one alone."""
        if self.policy.residue is ResiduePolicy.LAST_ISSUE and amount:
            last = lines[0]
            if self.book.values[last] + amount >= 0:
                self._change(last, amount)
                return
        step = 1 if amount > 0 else -1
        while amount:
            for line in lines:
                if amount and self.book.values[line] + step >= 0:
                    self._change(line, step)
                    amount -= step

    def _change(self, line: int, amount: int) -> None:
        self.book.values[line] += amount
        self.book.moved[line] = self.book.moved.get(line, 0) + abs(amount)
        made = self.made.get(line)
        if made is not None:
            self.book.values[made] += amount


def _at_most(amount: int, room: float) -> int:
    if room == inf:
        return amount
    limited = min(abs(amount), int(room))
    return limited if amount > 0 else -limited
