"""Where the last units of rounding go, so that value is conserved and an empty pool is worth 0."""

from worker.costing.exact import Price, half_up
from worker.costing.results import Flow, Policy, ResiduePolicy


def outflow_values(price: Price, quantities: list[int], policy: Policy) -> list[int]:
    """The value of every outflow as the policy rounds it, before what is left is settled."""
    if policy.unit_cost_digits is not None:
        rounded = _rounded_price(price, policy, policy.unit_cost_digits)
        return [rounded.of(quantity) for quantity in quantities]
    if policy.residue is ResiduePolicy.CUMULATIVE:
        return price.each(quantities)
    return [price.of(quantity) for quantity in quantities]


def due(left: Flow) -> int:
    """By how much the outflows must grow so that what is left can be: the drain rule.

    Nothing left is worth nothing; goods are never worth less, goods owed never more.
    """
    if left.qty == 0:
        return left.value
    return min(left.value, 0) if left.qty > 0 else max(left.value, 0)


def residue(left: Flow, total: int, ideal: int, policy: Policy) -> int:
    """By how much the outflows should grow under the policy; at least what is `due`.

    Policies that round each line alone leave a difference to the sum of the lines rounded once,
    which is `ideal`; `total` is the value of all that came in.
    """
    by_line = policy.residue is not ResiduePolicy.CUMULATIVE and policy.unit_cost_digits is None
    if left.qty == 0 or not by_line:
        return due(left)
    wanted = total - ideal
    return left.value - (max(0, wanted) if left.qty > 0 else min(0, wanted))


def on_separate_line(policy: Policy) -> bool:
    """Whether the residue is booked beside the movements instead of into one of them."""
    separate = policy.residue is ResiduePolicy.SEPARATE_LINE
    return separate or policy.unit_cost_digits is not None


def _rounded_price(price: Price, policy: Policy, digits: int) -> Price:
    """The price a textbook would print: major units a base unit, rounded to so many digits."""
    if price.denominator == 0:
        return price
    minor, scale = 10**policy.minor_digits, 10**policy.qty_scale
    shown = half_up(price.numerator * scale * 10**digits, price.denominator * minor)
    return Price(shown * minor, scale * 10**digits)
