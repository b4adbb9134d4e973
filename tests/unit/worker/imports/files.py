"""Read a file as an import does, portion by portion."""

from pathlib import Path
from typing import Any, NamedTuple

from worker.imports.layouts import LAYOUTS
from worker.imports.reading import Order, begin, end, take

JOB = "01a22c80-0000-7000-8000-000000000000"


class Found(NamedTuple):
    """The staged values of each line by its number, and what is wrong with the others.

    `said` is what stands in cells that are not written as their values, as it is staged.
    """

    rows: dict[int, dict[str, str]]
    said: dict[int, str]
    problems: list[tuple[int, str | None, str]]
    rules: list[str]
    lines: int
    refused: int


def read(path: Path, content: bytes | str, layout: str = "movements", **given: Any) -> Found:
    """All of it; `most` lines a portion, each portion by an attempt of its own where `again`."""
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    most, again = given.pop("most", 1_000), given.pop("again", False)
    order: dict[str, Any] = {
        "path": str(path),
        "layout": layout,
        "job_id": JOB,
        "company": "ACME",
        **given,
    }
    begin(Order(**order))
    try:
        return _all(path, layout, most, order if again else None)
    finally:
        end(str(path))


def _all(path: Path, layout: str, most: int, again: dict[str, Any] | None) -> Found:
    found = Found({}, {}, [], [], 0, 0)
    while True:
        portion = take(str(path), most)
        for line in portion.copy.decode().splitlines():
            job, number, *cells, said = line.split("\t")
            assert job == JOB
            values = zip(LAYOUTS[layout].staged, cells, strict=True)
            assert int(number) not in found.rows, "each line once"
            found.rows[int(number)] = {k: v for k, v in values if v != "\\N"}
            if said != "\\N":
                found.said[int(number)] = said.replace("\\\\", "\\")
        found.problems.extend((p.line, p.column, p.code) for p in portion.problems)
        found.rules.extend(p.rule for p in portion.problems)
        found = found._replace(
            lines=found.lines + portion.lines, refused=found.refused + portion.refused
        )
        if portion.ended:
            return found
        if again is not None:
            begin(Order(**again | {"after_line": portion.line}))
