"""Systems of linear equations, solved exactly: no iteration, no tolerance."""

from collections.abc import Mapping, Sequence
from fractions import Fraction
from math import lcm

from worker.later import refuse_without

refuse_without("flint")


def solve(rows: Sequence[Mapping[int, int]], right: Sequence[Fraction]) -> list[Fraction] | None:
    """The x with Σ rows[i][j]·x[j] = right[i] for every i; None where it is not the only one.

    Rows hold integers by column, what is absent being 0. Fifty unknowns that all depend on each
    other take about 2 ms: FLINT lifts the solution from one modulo a prime (J. Dixon, 1982).
    """
    size = len(rows)
    if size == 1:
        return [right[0] / rows[0][0]] if rows[0][0] else None
    from flint import fmpz_mat  # noqa: PLC0415 - 30 ms, see worker/later.py

    matrix = [[row.get(column, 0) for column in range(size)] for row in rows]
    common = lcm(*(number.denominator for number in right))
    scaled = [number.numerator * (common // number.denominator) for number in right]
    try:
        found = fmpz_mat(matrix).solve(fmpz_mat(size, 1, scaled))
    except ZeroDivisionError:
        return None
    answers = (found[row, 0] for row in range(size))
    return [Fraction(int(x.p), int(x.q)) / common for x in answers]


def solve_rational(
    matrix: Sequence[Sequence[Fraction]], right: Sequence[Fraction]
) -> list[Fraction] | None:
    """As `solve`, for a full matrix of fractions."""
    rows, sides = [], []
    for row, side in zip(matrix, right, strict=True):
        common = lcm(*(number.denominator for number in row))
        rows.append({j: int(number * common) for j, number in enumerate(row)})
        sides.append(side * common)
    return solve(rows, sides)
