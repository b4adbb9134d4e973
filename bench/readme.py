"""The table of a run in the project's README: from its JSON, between markers, never by hand."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.machine import machine_line
from bench.suite import RowRun
from bench.words import markdown
from dev.stack_config import ROOT

README = ROOT / "README.md"
BEGIN = "<!-- bench: written by `python -m bench --write` -->"
END = "<!-- bench: end -->"


class NoMarkers(Exception):
    """The text has no place for the table, or more than one."""


def section(told: Mapping[str, Any], runs: Sequence[RowRun]) -> str:
    """What stands between the markers."""
    judged = [each for run in runs for each in run.figures if each.target is not None]
    failed = sum(run.failed is not None for run in runs)
    reached = sum(each.reached is True for each in judged)
    days = sorted({run.taken_at[:10] for run in runs})
    elsewhere = [run.name for run in runs if run.commit != told["versions"]["commit"]]
    scales = " and ".join(_scales(runs))
    other = f" Of another run: {', '.join(elsewhere)}." if elsewhere else ""
    return (
        f"{reached} of {len(judged) + failed} targets reached; {' and '.join(days)}, scale "
        f"{scales}. A ratio is the median over rounds in which limit and ours took turns, "
        f"in brackets the least and the largest; small: ours and the limit themselves.{other}\n\n"
        f"{markdown(runs)}\n\n![How far each figure is from its target](bench/run.svg)\n\n"
        f"<sub>{machine_line(told['machine'], told['versions'])}</sub>"
    )


def _scales(runs: Sequence[RowRun]) -> list[str]:
    """Each scale that rows were measured at; of several, with the names of its rows."""
    names: dict[str, list[str]] = {}
    for run in runs:
        names.setdefault(run.scale, []).append(run.name)
    if len(names) == 1:
        return [f"`{scale}`" for scale in names]
    return [f"`{scale}` ({', '.join(rows)})" for scale, rows in names.items()]


def between(text: str, written: str) -> str:
    """The text with what stands between its markers replaced; NoMarkers where there are none."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end) or BEGIN in rest or END in before + after:
        raise NoMarkers(f"expected {BEGIN} and then {END}, once each")
    return f"{before}{BEGIN}\n{written}\n{END}{after}"


def write_readme(told: Mapping[str, Any], runs: Sequence[RowRun], path: Path = README) -> None:
    """Put the table of this run where people look first."""
    text = path.read_text(encoding="utf-8")
    path.write_text(between(text, section(told, runs)), encoding="utf-8")
