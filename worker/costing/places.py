"""The stores of an item while its movements are replayed, and the results made of their sums."""

from worker.costing.exact import Price, half_down
from worker.costing.laws import assert_lawful
from worker.costing.pool_state import Pool
from worker.costing.results import ClosingLayer, Flow, PoolResult, StoreBalance

# Where a store's sums stand: the quantity, and the value after it.
OPENING, RECEIPT, GAIN, SALES_RETURN, CAME, CAME_INSIDE = range(0, 12, 2)
ISSUE, USAGE, PURCHASE_RETURN, WENT, WENT_INSIDE = range(12, 22, 2)
TRUE_UP, VARIANCE = 22, 23
NOTHING = Flow(0, 0)


class Place:
    """One store: the pool that it belongs to, and the sums of what came and went."""

    __slots__ = ("flows", "pool", "store")

    def __init__(self, store: str, pool: Pool) -> None:
        self.store = store
        self.pool = pool
        self.flows = [0] * 24

    def add(self, column: int, qty: int, value: int) -> None:
        """Add a flow to one of the columns."""
        self.flows[column] += qty
        self.flows[column + 1] += value

    def booked(self) -> int:
        """The quantity that lies here by the books."""
        f = self.flows
        into = f[OPENING] + f[RECEIPT] + f[GAIN] + f[SALES_RETURN] + f[CAME] + f[CAME_INSIDE]
        return into - f[ISSUE] - f[USAGE] - f[PURCHASE_RETURN] - f[WENT] - f[WENT_INSIDE]


def pool_result(pool: Pool, places: list[Place], layers: list[ClosingLayer]) -> PoolResult:
    """The pool over the period: the sums of its stores, and the state that the replay ended in."""
    sums = _sums(places)
    price = pool.shown()
    flows = list(map(Flow._make, zip(sums[0:22:2], sums[1:22:2], strict=True)))
    opening, receipt, gain, back, came, _, issue, usage, returned, went, _ = flows
    closing = Flow(pool.qty, pool.value)
    return PoolResult(
        pool=pool.name,
        opening=opening,
        receipt=receipt,
        gain=gain,
        sales_return=back,
        issue=issue,
        usage=usage,
        purchase_return=returned,
        closing=closing,
        rounding=pool.rounding,
        variance=sums[VARIANCE],
        price_num=price.numerator,
        price_den=price.denominator,
        pushes=0,
        dipped=pool.dipped,
        true_up=sums[TRUE_UP],
        transfer_in=came,
        transfer_out=went,
        owed=_owed(closing, layers) if pool.dipped else NOTHING,
    )


def _owed(closing: Flow, layers: list[ClosingLayer]) -> Flow:
    if not layers:
        return Flow(-closing.qty, -closing.value) if closing.qty < 0 else NOTHING
    owed = [layer for layer in layers if layer.qty < 0]
    return Flow(-sum(layer.qty for layer in owed), -sum(layer.value for layer in owed))


def _sums(places: list[Place]) -> list[int]:
    if len(places) == 1:
        return places[0].flows
    return [sum(column) for column in zip(*(place.flows for place in places), strict=True)]


def store_balances(result: PoolResult, places: list[Place]) -> list[StoreBalance]:
    """Each store's part of its pool: its quantity at the pool's price, in the order of codes."""
    quantities = [place.booked() for place in places]
    assert sum(quantities) == result.closing.qty, "the stores hold what the pool holds"
    price = Price(result.price_num, result.price_den)
    values = _split(price, result.closing, quantities)
    return [
        _balance(place, result.pool, Flow(quantity, value))
        for place, quantity, value in zip(places, quantities, values, strict=True)
    ]


def _split(price: Price, closing: Flow, quantities: list[int]) -> list[int]:
    if len(quantities) == 1:
        return [closing.value]
    values = []
    before = so_far = 0
    for quantity in quantities:
        so_far += quantity
        after = half_down(price.numerator * so_far, price.denominator) if price.denominator else 0
        values.append(after - before)
        before = after
    holding = max((i for i, quantity in enumerate(quantities) if quantity), default=-1)
    if values:
        values[holding] += closing.value - before
    return values


def _balance(place: Place, pool: str, closing: Flow) -> StoreBalance:
    f = place.flows
    into = f[RECEIPT + 1] + f[GAIN + 1] + f[SALES_RETURN + 1]
    out = f[ISSUE + 1] + f[USAGE + 1] + f[PURCHASE_RETURN + 1] + f[TRUE_UP]
    came, went = f[CAME + 1] + f[CAME_INSIDE + 1], f[WENT + 1] + f[WENT_INSIDE + 1]
    return StoreBalance(
        store=place.store,
        pool=pool,
        opening=Flow(f[OPENING], f[OPENING + 1]),
        incoming=Flow(f[RECEIPT] + f[GAIN] + f[SALES_RETURN], into),
        outgoing=Flow(f[ISSUE] + f[USAGE] + f[PURCHASE_RETURN], out),
        transfer_in=Flow(f[CAME] + f[CAME_INSIDE], came),
        transfer_out=Flow(f[WENT] + f[WENT_INSIDE], went),
        closing=closing,
        averaging=closing.value - (f[OPENING + 1] + into - out + came - went),
    )


def assert_replayed(result: PoolResult, pool: Pool, layers: list[ClosingLayer]) -> None:
    """I1 to I6, where the replay ends: state and flows were summed apart, and must agree."""
    assert_lawful(result)
    if layers:
        closing = result.closing
        assert sum(layer.qty for layer in layers) == closing.qty, "I6: layers hold the quantity"
        assert sum(layer.value for layer in layers) == closing.value, "I6: and the value"
        sound = (layer.value * layer.qty >= 0 != layer.qty for layer in layers)
        assert all(sound), "I6: a layer is goods or a debt, never nothing"
    assert pool.dipped or result.closing.qty >= 0, "negative stock was refused before"
