"""Linear systems in rationals, by the elimination that everybody learns."""

from fractions import Fraction

Matrix = list[list[Fraction]]


class SingularError(Exception):
    """The system has no solution, or more than one."""


def solved(matrix: Matrix, right: list[Fraction]) -> list[Fraction]:
    """The one solution of matrix · x = right; `SingularError` where there is not exactly one."""
    rows = [[*row, value] for row, value in zip(matrix, right, strict=True)]
    for column in range(len(rows)):
        pivot = next((r for r in range(column, len(rows)) if rows[r][column]), None)
        if pivot is None:
            raise SingularError
        rows[column], rows[pivot] = rows[pivot], rows[column]
        top = [cell / rows[column][column] for cell in rows[column]]
        rows[column] = top
        for other, row in enumerate(rows):
            factor = row[column]
            if other != column and factor:
                rows[other] = [cell - factor * above for cell, above in zip(row, top, strict=True)]
    return [row[-1] for row in rows]
