"""Large systems, long queues and large numbers: still exact, and within seconds."""

import random
from collections import defaultdict
from fractions import Fraction
from itertools import accumulate

import pytest

from tests.costing_oracle.companies import Company
from tests.costing_oracle.judge import judged
from tests.costing_oracle.laws import LARGEST, obeys
from worker.costing.engine import cost_items
from worker.costing.movements import ItemStock, Method, Movement, in_order
from worker.costing.problems import Code
from worker.costing.results import ItemCosts, ItemFailure, Policy

REPLAYED = (Method.MOVING, Method.FIFO, Method.SPECIFIC)


class Book:
    """Movements of one item, one after the other, one pool a store."""

    def __init__(self, method: Method = Method.PERIODIC) -> None:
        self.method = method
        self.rows: list[Movement] = []

    def add(
        self, kind: str, store: int, qty: int, value: int | None = None, to: int | None = None
    ) -> None:
        number = len(self.rows) + 1
        lot = "x" if self.method == Method.SPECIFIC else None
        target = None if to is None else f"S{to}"
        self.rows.append(
            Movement(
                number, number, 0, kind, f"S{store}", target, qty, value, None, None, None, lot
            )
        )

    def company(self) -> Company:
        stores = {m.store for m in self.rows} | {m.to_store for m in self.rows if m.to_store}
        stock = ItemStock(item="A", method=self.method, movements=in_order(self.rows))
        return Company(stocks=[stock], pool_of={store: f"B/{store}" for store in sorted(stores)})

    def costed(self) -> ItemCosts:
        """What the engine says, after the laws have been asked."""
        company = self.company()
        answer = cost_items(company.stocks, company.pool_of, Policy())["A"]
        assert isinstance(answer, ItemCosts), answer
        obeys(company, "A", answer)
        return answer


def solves(book: Book, costs: ItemCosts) -> None:
    """The prices satisfy the system of domain rule 1.6 exactly; it has one solution, so they are it."""
    quantity: dict[str, int] = defaultdict(int)
    value: dict[str, int] = defaultdict(int)
    moved: dict[tuple[str, str], int] = defaultdict(int)
    for m in book.rows:
        if m.to_store is not None:
            moved[m.store, m.to_store] += m.qty
        elif m.value is not None:
            quantity[m.store] += m.qty
            value[m.store] += m.value
    prices = {p.pool.removeprefix("B/"): Fraction(p.price_num, p.price_den) for p in costs.pools}
    right = {store: Fraction(value[store]) for store in prices}
    for (source, target), units in moved.items():
        quantity[target] += units
        right[target] += units * prices[source]
    for store, price in prices.items():
        assert price * quantity[store] == right[store], f"the equation of {store}"


def ring(stores: int) -> Book:
    """Each store sends to the next, the last to the first; ten of them receive from outside."""
    book = Book()
    for store in range(stores):
        if store % (stores // 10) == 0:
            book.add("receipt", store, 97 + store, 1_000_003 * (store + 1))
    for store in range(stores):
        # One unit stays in each store on the way to the next that receives.
        book.add("transfer", store, 60 - store % (stores // 10), to=(store + 1) % stores)
    for store in range(0, stores, 9):
        book.add("issue", store, 1 + store % 3)
    return book


def dense(stores: int, *, drained: bool = False) -> Book:
    """Every store sends to every other, and sells some or all of what is left."""
    book, chance = Book(), random.Random(6)
    for store in range(stores):
        book.add("receipt", store, 2 * stores * 9, chance.randrange(1, 10**9))
    for source in range(stores):
        for target in range(stores):
            if source != target:
                book.add("transfer", source, chance.randrange(1, 9), to=target)
    left = [0] * stores
    for m in book.rows:
        left[int(m.store[1:])] += m.qty if m.to_store is None else -m.qty
        if m.to_store is not None:
            left[int(m.to_store[1:])] += m.qty
    for store in range(stores):
        book.add("issue", store, left[store] if drained else stores)
    return book


def test_a_cycle_of_two_hundred_stores_is_solved_exactly() -> None:
    book = ring(200)
    costs = book.costed()
    assert {pool.scc_size for pool in costs.pools} == {200}
    solves(book, costs)


def test_fifty_stores_that_all_send_to_each_other_are_solved_exactly() -> None:
    book = dense(50)
    costs = book.costed()
    assert {pool.scc_size for pool in costs.pools} == {50}
    solves(book, costs)


@pytest.mark.parametrize("drained", [False, True])
def test_twelve_stores_that_all_send_to_each_other_are_what_the_oracle_says(
    *, drained: bool
) -> None:
    """Where nothing is left nothing is worth anything: residues are pushed along the transfers."""
    answer = judged(dense(12, drained=drained).company())["A"]
    assert isinstance(answer, ItemCosts)
    assert drained == all(pool.closing == (0, 0) for pool in answer.pools)
    assert not drained or any(pool.pushes for pool in answer.pools)


def test_a_chain_of_a_thousand_stores_needs_no_recursion() -> None:
    book = Book()
    book.add("receipt", 0, 2000, 1_000_000_007)
    for store in range(1000):
        book.add("transfer", store, 2000 - store, to=store + 1)
    book.add("issue", 1000, 1001)
    costs = book.costed()
    assert {pool.scc_size for pool in costs.pools} == {1}
    solves(book, costs)
    assert sum(pool.closing.qty for pool in costs.pools) == 2000 - 1001


def test_two_stores_that_shuttle_are_solved_where_an_iteration_would_stop_early() -> None:
    """Domain rule 1.6: after 325 rounds an iteration is still 0.2 đồng a unit off."""
    book = Book()
    book.add("receipt", 1, 100, 1_000_000)
    book.add("receipt", 2, 1, 20_000)
    for _ in range(30):
        book.add("transfer", 1, 100, to=2)
        book.add("transfer", 2, 100, to=1)
    judged(book.company())
    solves(book, book.costed())


@pytest.mark.parametrize("method", REPLAYED)
def test_ten_thousand_layers_leave_one_after_the_other(method: Method) -> None:
    layers = 10_000
    book = Book(method)
    for number in range(layers):
        book.add("receipt", 1, 3, 1000 + number % 977)
    for number in range(layers):
        book.add("issue", 1, (2, 4, 1, 5)[number % 4])
    costs = book.costed()
    (pool,) = costs.pools
    assert (pool.closing.qty, pool.closing.value) == (0, 0)
    worth = sum(1000 + number % 977 for number in range(layers))
    assert pool.issue.value == worth
    if method != Method.MOVING:
        _leaves_in_order(costs, layers)


def _leaves_in_order(costs: ItemCosts, layers: int) -> None:
    """By units: the n-th unit of a layer of three takes what is left of it, rounded half up."""
    ends = list(accumulate((2, 4, 1, 5)[n % 4] for n in range(layers)))
    begins = [0, *ends[:-1]]
    held = [[3, 1000 + number % 977] for number in range(layers)]
    lines = {line.movement_id: line.value for line in costs.lines}
    for number, (begin, end) in enumerate(zip(begins, ends, strict=True)):
        wanted = 0
        for layer in range(begin // 3, (end + 2) // 3):
            some = min(end, 3 * layer + 3) - max(begin, 3 * layer)
            quantity, value = held[layer]
            taken = (2 * value * some + quantity) // (2 * quantity)
            held[layer] = [quantity - some, value - taken]
            wanted += taken
        assert lines[layers + 1 + number] == wanted, f"issue {number}"


@pytest.mark.parametrize("method", REPLAYED)
def test_one_issue_takes_ten_thousand_layers(method: Method) -> None:
    book = Book(method)
    for number in range(10_000):
        book.add("receipt", 1, 1 + number % 5, number)
    book.add("transfer", 1, 30_000, to=2)
    book.add("issue", 2, 30_000)
    costs = book.costed()
    assert costs.lines[-1].value == sum(range(10_000))
    assert all(pool.closing == (0, 0) for pool in costs.pools)


@pytest.mark.parametrize("method", Method)
def test_the_largest_number_fits_and_one_more_is_an_overflow(method: Method) -> None:
    book = Book(method)
    book.add("receipt", 1, LARGEST - 1, LARGEST - 5)
    book.add("receipt", 1, 1, 5)
    book.add("issue", 1, LARGEST)
    (pool,) = book.costed().pools
    assert pool.issue == (LARGEST, LARGEST)
    for more in ((1, 0), (0, 1)):
        book.rows[1] = book.rows[1]._replace(qty=1 + more[0], value=5 + more[1])
        company = book.company()
        answer = cost_items(company.stocks, company.pool_of, Policy())["A"]
        assert isinstance(answer, ItemFailure)
        assert Code.OVERFLOW in {problem.code for problem in answer.problems}


@pytest.mark.parametrize("method", Method)
def test_a_price_of_large_numbers_is_not_a_float(method: Method) -> None:
    """A double has 53 bits: it would lose the last units of these."""
    book = Book(method)
    book.add("receipt", 1, 2**61 + 1, 2**62 + 3)
    book.add("issue", 1, 2**60 + 1)
    book.add("issue", 1, 2**60)
    first, second = (line.value for line in book.costed().lines[1:])
    whole = Fraction((2**62 + 3) * (2**60 + 1), 2**61 + 1)
    assert abs(first - whole) <= Fraction(1, 2)
    assert first + second == 2**62 + 3
