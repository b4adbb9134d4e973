"""What is wrong with a file, or with a cell of it: told by line, column, value and rule."""

from dataclasses import dataclass

LONGEST_SHOWN = 200


class CellRefused(Exception):
    """A cell breaks a rule; the text is the rule, and says what to write instead."""


class FileRefused(Exception):
    """The file as a whole cannot be read; `code` is for programs, the text for people."""

    def __init__(self, code: str, said: str) -> None:
        super().__init__(code, said)
        self.code = code
        self.said = said

    def __str__(self) -> str:
        """The sentence with its code before it."""
        return f"{self.code}: {self.said}"


@dataclass(frozen=True, slots=True)
class LineProblem:
    """One reason why a line of the file is left out; `line` counts from 1, the head's line too."""

    line: int
    column: str | None
    value: str | None
    code: str
    rule: str


def shown(value: str) -> str:
    """A cell as a report may hold it: shortened, and without what no text column takes."""
    printable = "".join(c if c.isprintable() else f"\\u{ord(c):04x}" for c in value[:LONGEST_SHOWN])
    return printable if len(value) <= LONGEST_SHOWN else f"{printable}…"
