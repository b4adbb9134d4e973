"""A physical count: an assertion of a quantity, and of a value where it gives one."""

from worker.costing.exact import half_up
from worker.costing.movements import Movement
from worker.costing.places import GAIN, TRUE_UP, USAGE, Place
from worker.costing.pool_state import RefusedError
from worker.costing.problems import Code
from worker.costing.results import Line
from worker.costing.running import Running


def count(running: Running, movement: Movement) -> None:
    """Hold what was counted against the books of that moment; the difference comes or goes.

    Without a value, what is missing leaves like an issue and what is found costs what such goods
    cost here. With one, everything that the books say goes out and everything counted comes in at
    that value: quantity and value change apart, each a gain or a loss by its own sign.
    """
    place = running.places[movement.store]
    counted = place.pool.counted(movement.lot)
    booked = place.booked() if counted is None else counted
    difference = movement.qty - booked
    if movement.qty == 0 and movement.value:
        raise RefusedError(Code.ORPHAN_VALUE)
    if movement.qty and movement.value is not None and booked >= 0:
        _revalue(running, movement, place, booked)
    elif difference > 0:
        running.enter(
            movement, GAIN, difference, _worth(place, movement, difference), found=difference
        )
    elif difference < 0:
        value = place.pool.issue(-difference, movement.lot, None)
        place.add(USAGE, -difference, value)
        running.note(Line(movement.id, value, 0, difference, 0))
    else:
        running.note(Line(movement.id, 0, 0, 0, 0))


def _worth(place: Place, movement: Movement, difference: int) -> int:
    if movement.qty and movement.value is not None:
        return half_up(movement.value * difference, movement.qty)
    price = place.pool.price(movement.lot)
    if price is None:
        raise RefusedError(Code.MISSING_COST)
    return price.of(difference)


def _revalue(running: Running, movement: Movement, place: Place, booked: int) -> None:
    value = movement.value
    assert value is not None, "a count without a value revalues nothing"
    pool, difference = place.pool, movement.qty - booked
    pieces = pool.draw(booked, movement.lot, None) if booked else []
    out = sum(piece[1] for piece in pieces)
    true_up = pool.receive(movement.qty, value, movement.id, movement.lot)
    gained = value - out
    place.flows[GAIN if difference > 0 else USAGE] += abs(difference)
    place.flows[(GAIN if gained > 0 else USAGE) + 1] += abs(gained)
    place.flows[TRUE_UP] += true_up
    running.note(Line(movement.id, gained if difference >= 0 else -gained, 0, difference, true_up))
