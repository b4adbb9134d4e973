"""Which movements made a number that no column holds: the largest of its pool, by all they say."""

from collections.abc import Iterable, Mapping

from worker.costing.movements import Movement
from worker.costing.problems import Code, Problem, problem
from worker.costing.results import Line


def too_large(
    pool: str, movements: Iterable[Movement], pool_of: Mapping[str, str], lines: Iterable[Line]
) -> Problem:
    """The problem of a pool whose sums exceed 63 bits, naming its movements, the largest first."""
    values = {line.movement_id: abs(line.value) for line in lines}

    def size(movement: Movement) -> tuple[int, int]:
        said = (movement.qty, abs(movement.value or 0), values.get(movement.id, 0))
        return -max(said), movement.id

    inside = [m for m in movements if pool in {pool_of[m.store], pool_of.get(m.to_store or "")}]
    return problem(Code.OVERFLOW, pool, tuple(m.id for m in sorted(inside, key=size)))
