"""Where the engine contradicts itself: a bug of ours, which must not end what others wait for.

An assertion that does not hold leaves no result of its family, and says nothing about any other
one: each is computed from its own rows alone.
"""

import traceback
from typing import NamedTuple

from worker.costing.problems import Code, problem
from worker.costing.results import ItemFailure
from worker.costing.units import ID, Stock, Unit

# What a bug looks like, beside assertions: a division by nothing, a key that is not there.
FAULTS = (AssertionError, ArithmeticError, LookupError)
LONGEST_SAID = 300


class Fault(NamedTuple):
    """One of them: the items of its family, what it said, and the trace for who mends it."""

    items: tuple[str, ...]
    error: str
    trace: str

    def failure(self, stock: Stock) -> ItemFailure:
        """Why the stock has no result; whichever item it was found at, all of the family fail."""
        family = f" (family of {min(self.items)})" if len(self.items) > 1 else ""
        ids = tuple(sorted(row[ID] for row in stock.movements))
        found = problem(Code.ENGINE_FAULT, None, ids, self.error + family)
        return ItemFailure(problems=(found,))


def fault_of(unit: Unit, error: Exception) -> Fault:
    """What is known of an error that was caught while the unit was costed."""
    at = traceback.extract_tb(error.__traceback__)[-1].name
    said = f"{type(error).__name__} in {at}: {error}"[:LONGEST_SAID]
    items = tuple(stock.item for stock in unit.stocks)
    return Fault(items, said, "".join(traceback.format_exception(error)))
