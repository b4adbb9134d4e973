"""Figures in words: a table for the terminal, and the same in Markdown."""

from collections.abc import Sequence

from bench.figures import Figure
from bench.suite import RowRun

HEADS = ("row", "figure", "measured", "target", "", "ours", "limit")
REACHED = {True: "reached", False: "NOT reached", None: ""}


def number(value: float) -> str:
    """Three digits that count, thousands apart."""
    if value == 0 or abs(value) >= 100:
        return f"{value:,.0f}"
    digits = 1 if abs(value) >= 10 else 2 if abs(value) >= 1 else 3
    return f"{value:.{digits}f}"


def measured(figure: Figure) -> str:
    """The value with its spread."""
    value = _valued(figure, figure.value)
    if figure.low == figure.high:
        return value
    return f"{value} ({number(figure.low)} to {number(figure.high)})"


def target(figure: Figure) -> str:
    """What is to be reached."""
    if figure.target is None:
        return ""
    return f"{'≥' if figure.at_least else '≤'} {_valued(figure, figure.target)}"


def _valued(figure: Figure, value: float) -> str:
    match figure.kind:
        case "ratio":
            return f"{number(value)} ×"
        case "difference":
            return f"{'+' if value >= 0 else '−'}{number(abs(value))} {figure.unit}".strip()
        case "count":
            return f"{number(value)} {figure.unit}".strip()


def absolute(figure: Figure, value: float | None) -> str:
    """One side's own number, of which only the ratio counts."""
    if value is None or figure.kind == "count":
        return ""
    unit = figure.unit if figure.unit.startswith("/") else f" {figure.unit}"
    return f"{number(value)}{unit}"


def cells(run: RowRun, figure: Figure) -> tuple[str, ...]:
    """One line of the table."""
    return (
        run.name,
        figure.name,
        measured(figure),
        target(figure),
        REACHED[figure.reached],
        absolute(figure, figure.ours),
        absolute(figure, figure.limit),
    )


def table(runs: Sequence[RowRun]) -> str:
    """For the terminal: every figure, the judged ones first in each row."""
    lines: list[tuple[str, ...]] = [HEADS]
    for run in runs:
        if run.failed is not None:
            lines.append((run.name, "FAILED", run.failed.splitlines()[0][:100], "", "", "", ""))
        lines += [cells(run, figure) for figure in run.figures]
    widths = [max(len(line[place]) for line in lines) for place in range(len(HEADS))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


def markdown(runs: Sequence[RowRun]) -> str:
    """The judged figures as a Markdown table; absolutes are small."""
    lines = ["| figure | measured against | ratio | target | |", "|---|---|--:|--:|---|"]
    for run in runs:
        if run.failed is not None:
            why = run.failed.splitlines()[0][:100].replace("|", "\\|")
            lines.append(f"| {run.title} | {run.against} | failed: {why} | | not reached |")
        judged = [figure for figure in run.figures if figure.target is not None]
        lines += [_markdown_line(run, figure) for figure in judged]
    return "\n".join(lines)


def _markdown_line(run: RowRun, figure: Figure) -> str:
    said = f"[{run.name}](bench/README.md#{run.name}): {figure.name}"
    sides = ""
    if figure.kind != "count":
        ours, limit = absolute(figure, figure.ours), absolute(figure, figure.limit)
        sides = f" <sub>{ours} : {limit}</sub>"
    verdict = "reached" if figure.reached else "**not reached**"
    return f"| {said} | {run.against} | {measured(figure)}{sides} | {target(figure)} | {verdict} |"
