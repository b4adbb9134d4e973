"""Where the last units of rounding go, so that value is conserved and an empty pool is worth 0."""

from worker.costing.exact import Price, half_up
from worker.costing.results import Policy, ResiduePolicy


def outflow_values(price: Price, quantities: list[int], policy: Policy) -> list[int]:
    """The value of every outflow as the policy rounds it, before what is left is settled."""
    if policy.unit_cost_digits is not None:
        rounded = _rounded_price(price, policy, policy.unit_cost_digits)
        return [rounded.of(quantity) for quantity in quantities]
    if policy.residue is ResiduePolicy.CUMULATIVE:
        return price.each(quantities)
    return [price.of(quantity) for quantity in quantities]


def residue(
    closing_qty: int, closing: int, before_outs: int, ideal_outs: int, policy: Policy
) -> int:
    """By how much the outflows must grow so that the closing value is right.

    An empty pool is worth nothing and no pool is worth less (drain rule); beyond that only the
    policies that round each line alone leave a difference to the sum rounded once.
    """
    if closing_qty == 0:
        return closing
    by_line = policy.residue is not ResiduePolicy.CUMULATIVE and policy.unit_cost_digits is None
    if by_line:
        return closing - max(0, before_outs - ideal_outs)
    return min(closing, 0)


def on_separate_line(policy: Policy) -> bool:
    """Whether the residue is booked beside the movements instead of into one of them."""
    separate = policy.residue is ResiduePolicy.SEPARATE_LINE
    return separate or policy.unit_cost_digits is not None


def push(values: list[int], able: list[bool], rest: int, policy: Policy) -> int:
    """Add the residue to the outflows, the last first; returns how many units moved each line.

    `able` marks lines of which something stayed out, so that a sale returned whole keeps its
    cost. A line never falls below 0; the caller's totals guarantee that the residue finds room.
    """
    if rest == 0:
        return 0
    places = [i for i in reversed(range(len(values))) if able[i]] or list(
        reversed(range(len(values)))
    )
    assert places, "a residue needs an outflow that carries it"
    last = places[0]
    if policy.residue is ResiduePolicy.LAST_ISSUE and values[last] + rest >= 0:
        values[last] += rest
        return abs(rest)
    return _spread(values, places, rest)


def _spread(values: list[int], places: list[int], rest: int) -> int:
    step = 1 if rest > 0 else -1
    rounds = 0
    while rest:
        rounds += 1
        before = rest
        for place in places:
            if rest and values[place] + step >= 0:
                values[place] += step
                rest -= step
        assert rest != before, "the residue finds room in the outflows"
    return rounds


def _rounded_price(price: Price, policy: Policy, digits: int) -> Price:
    """The price a textbook would print: major units a base unit, rounded to so many digits."""
    if price.denominator == 0:
        return price
    minor, scale = 10**policy.minor_digits, 10**policy.qty_scale
    shown = half_up(price.numerator * scale * 10**digits, price.denominator * minor)
    return Price(shown * minor, scale * 10**digits)
