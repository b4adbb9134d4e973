"""Cost worked examples (costing-vectors/1) without a database and compare the answers.

A vector with expectations is costed by each method that it names; one without by every method that
its data allow: periodic_avg, moving_avg and fifo; specific where its movements name lots;
linear_system where it is a matrix. Exit code 0: every expectation is met; 1: one is not; 2: the
file is not a set of worked examples, or holds a field or method that nobody knows.
"""

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from worker.costing.answers import answer_of
from worker.costing.comparison import differences
from worker.costing.fields import BadFileError
from worker.costing.vectors import METHODS, Vector, parse_document, read_vectors


def check_file(path: Path, methods: Sequence[str] = ()) -> dict[str, Any]:
    """Every vector of a file with its results; `BadFileError` when it is no such file.

    `methods`: only these, whatever a vector expects.
    """
    return _checked(read_vectors(path), str(path), methods)


def check_document(
    document: Any, source: str = "document", methods: Sequence[str] = ()
) -> dict[str, Any]:
    """As `check_file`, for a set of vectors or a single one that is already parsed."""
    return _checked(parse_document(document, source), source, methods)


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    parser = argparse.ArgumentParser(prog="chot costing check", description=__doc__)
    parser.add_argument("file", type=Path, help="a costing-vectors/1 file, or one vector of it")
    parser.add_argument("--json", action="store_true", help="print it on one line")
    parser.add_argument(
        "--method",
        action="append",
        choices=METHODS,
        default=[],
        help="cost by this method only, whatever a vector expects; may be given again",
    )
    options = parser.parse_args(arguments)
    try:
        report = check_file(options.file, options.method)
    except BadFileError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    indent = None if options.json else 2
    sys.stdout.write(json.dumps(report, ensure_ascii=False, indent=indent) + "\n")
    return 1 if report["summary"]["mismatched"] else 0


def _checked(vectors: list[Vector], source: str, methods: Sequence[str]) -> dict[str, Any]:
    results = [
        _run(vector, method)
        for vector in vectors
        for method in methods or tuple(vector.expected) or vector.methods()
    ]
    matches = [result["matches_expected"] for result in results]
    summary = {
        "matched": matches.count(True),
        "mismatched": matches.count(False),
        "without_expectation": matches.count(None),
    }
    return {"file": source, "vectors": results, "summary": summary}


def _run(vector: Vector, method: str) -> dict[str, Any]:
    found = answer_of(vector, method)
    expected: Mapping[str, Any] | None = vector.expected.get(method)
    wrong = [] if expected is None else differences(found, expected, vector)
    result = {"id": vector.id, "method": method, **found}
    result["matches_expected"] = None if expected is None else not wrong
    if wrong:
        result["differences"] = wrong
    return result


if __name__ == "__main__":
    sys.exit(main())
