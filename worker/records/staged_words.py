"""What stands in a cell of the file that a staged line came by."""

import json


def said_in_file(said: str | None, column: str, *, line: int | None = None) -> str | None:
    """The cell's own text, where it is not written as its value; of that line of a document."""
    found = json.loads(said) if said else {}
    if line is not None:
        found = found.get(str(line), {})
    words = found.get(column)
    return None if words is None else str(words)
