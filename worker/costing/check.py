"""`python -m worker.costing.check FILE.json`: cost worked examples and compare the answers.

Exit code 0: every vector that this engine supports and that has an expectation matches; 1: one
does not; 2: the file is not a set of worked examples.
"""

import argparse
import json
import sys
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

from worker.costing.movements import ItemStock, Kind, in_order
from worker.costing.problems import Code
from worker.costing.results import Flow, ItemFailure, Policy
from worker.costing.vectors import (
    ALL_WAREHOUSES,
    BadFileError,
    Vector,
    parse_document,
    read_vectors,
)
from worker.costing.weighted_average import cost_item

METHOD = "periodic_avg"
_NOT_YET = {Code.CROSS_POOL_TRANSFER, Code.CROSS_POOL_RETURN}


def check_file(path: Path) -> dict[str, Any]:
    """Every vector of a file with its result; `BadFileError` when it is no such file."""
    return _checked(read_vectors(path), str(path))


def check_document(document: Any, source: str = "document") -> dict[str, Any]:
    """As `check_file`, for a set of vectors or a single one that is already parsed."""
    return _checked(parse_document(document, source), source)


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    parser = argparse.ArgumentParser(prog="costing check", description=__doc__)
    parser.add_argument("file", type=Path, help="a costing-vectors/1 file, or one vector of it")
    parser.add_argument("--json", action="store_true", help="print one JSON document (the default)")
    options = parser.parse_args(arguments)
    try:
        report = check_file(options.file)
    except BadFileError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    indent = None if options.json else 2
    sys.stdout.write(json.dumps(report, ensure_ascii=False, indent=indent) + "\n")
    return 1 if report["summary"]["mismatched"] else 0


def _checked(vectors: list[Vector], source: str) -> dict[str, Any]:
    results = [result for vector in vectors for result in _check_vector(vector)]
    matches = [result["matches_expected"] for result in results]
    summary = {
        "matched": matches.count(True),
        "mismatched": matches.count(False),
        "unsupported": sum("unsupported" in result for result in results),
        "without_expectation": sum(
            result["matches_expected"] is None and "unsupported" not in result for result in results
        ),
    }
    return {"file": source, "vectors": results, "summary": summary}


def _check_vector(vector: Vector) -> list[dict[str, Any]]:
    if not vector.expected:
        return [_run(vector, None)]
    return [
        _run(vector, expected)
        if method == METHOD
        else _unsupported(vector, method, f"the method {method} is not part of this engine")
        for method, expected in vector.expected.items()
    ]


def _unsupported(vector: Vector, method: str, reason: str) -> dict[str, Any]:
    return {
        "id": vector.id,
        "method": method,
        "unsupported": reason,
        "matches_expected": None,
    }


def _run(vector: Vector, expected: Mapping[str, Any] | None) -> dict[str, Any]:
    if vector.unsupported is not None:
        return _unsupported(vector, METHOD, vector.unsupported)
    found = _cost(vector)
    if found.get("error") in _NOT_YET:
        return _unsupported(vector, METHOD, f"{found['error']}: {found['detail']}")
    differences = [] if expected is None else _differences(found, expected)
    result = {"id": vector.id, "method": METHOD, **found}
    result["matches_expected"] = None if expected is None else not differences
    if differences:
        result["differences"] = differences
    return result


def _cost(vector: Vector) -> dict[str, Any]:
    policy = Policy(
        unit_cost_digits=vector.unit_cost_digits,
        minor_digits=vector.minor_digits,
        qty_scale=vector.qty_scale,
    )
    closing: list[dict[str, str]] = []
    places: list[dict[str, str]] = []
    lines: list[tuple[int, int, int]] = []
    cogs = rounding = 0
    for item, movements in vector.movements.items():
        stores = {m.store for m in movements} | {m.to_store for m in movements if m.to_store}
        pools = {store: ALL_WAREHOUSES if vector.pooled else store for store in stores}
        stock = ItemStock(item=item, movements=in_order(movements))
        costs = cost_item(stock, pools, policy)
        if isinstance(costs, ItemFailure):
            return _failure(item, costs)
        closing += [_closing(vector, item, pool.pool, pool.closing) for pool in costs.pools]
        if vector.pooled:
            places += [_closing(vector, item, s.store, s.closing) for s in costs.stores]
        # Inside its pool a transfer moves no value; what it shows is only the price it moves at.
        neutral = {m.id for m in movements if m.kind == Kind.TRANSFER}
        lines += [
            (line.movement_id, 0 if line.movement_id in neutral else line.value, line.variance)
            for line in costs.lines
        ]
        cogs += sum(p.issue.value - p.sales_return.value + p.rounding for p in costs.pools)
        rounding += sum(p.rounding for p in costs.pools)
    answer = _answer(vector, lines, cogs, rounding)
    return {"closing": closing, **({"stores": places} if places else {}), **answer}


def _answer(
    vector: Vector, lines: list[tuple[int, int, int]], cogs: int, rounding: int
) -> dict[str, Any]:
    digits = vector.minor_digits
    shown = [
        {"seq": seq, "value": _decimal(value, digits)}
        | ({"variance": _decimal(variance, digits)} if variance else {})
        for seq, value, variance in sorted(lines)
    ]
    answer: dict[str, Any] = {"cogs": _decimal(cogs, digits), "lines": shown}
    if rounding:
        answer["rounding"] = _decimal(rounding, digits)
    return answer


def _failure(item: str, failure: ItemFailure) -> dict[str, Any]:
    first = failure.problems[0]
    return {
        "error": first.code.value,
        "detail": first.detail,
        "item": item,
        "warehouse": first.pool,
        "movements": list(first.movement_ids),
    }


def _closing(vector: Vector, item: str, place: str, closing: Flow) -> dict[str, str]:
    return {
        "item": item,
        "warehouse": place,
        "qty": _decimal(closing.qty, vector.qty_scale),
        "value": _decimal(closing.value, vector.minor_digits),
    }


def _differences(found: Mapping[str, Any], expected: Mapping[str, Any]) -> list[str]:
    """In words, everything expected that was not found; what is not expected is not compared."""
    if "error" in expected or "error" in found:
        wanted, got = expected.get("error"), found.get("error")
        return [] if wanted == got else [f"error: expected {wanted}, found {got}"]
    differences = []
    if "cogs" in expected and not _equal(expected["cogs"], found["cogs"]):
        differences.append(f"cogs: expected {expected['cogs']}, found {found['cogs']}")
    closing = _closing_by_place(found)
    for row in expected.get("closing", []):
        key = (row["item"], row["warehouse"])
        differences += _compare(f"closing of {key}", row, closing.get(key), ("qty", "value"))
    lines = {row["seq"]: row for row in found["lines"]}
    for row in expected.get("lines", []):
        line = lines.get(row["seq"])
        differences += _compare(f"line {row['seq']}", row, line, ("value", "variance"))
    return differences


def _closing_by_place(found: Mapping[str, Any]) -> dict[tuple[str, str], Mapping[str, str]]:
    """Rows by (item, warehouse), and under `*` what all warehouses of an item hold together."""
    together: dict[tuple[str, str], Mapping[str, str]] = {}
    for row in found["closing"]:
        key = (row["item"], ALL_WAREHOUSES)
        sofar = together.get(key, {"qty": "0", "value": "0"})
        together[key] = {f: str(Decimal(sofar[f]) + Decimal(row[f])) for f in ("qty", "value")}
    rows = [*found.get("stores", []), *found["closing"]]
    return together | {(row["item"], row["warehouse"]): row for row in rows}


def _compare(
    what: str, wanted: Mapping[str, Any], got: Mapping[str, Any] | None, fields: tuple[str, ...]
) -> list[str]:
    row = got or {}
    return [
        f"{what}: expected {field} {wanted[field]}, found {row.get(field, '0')}"
        for field in fields
        if field in wanted and not _equal(wanted[field], row.get(field, "0"))
    ]


def _equal(wanted: Any, got: str) -> bool:
    return Decimal(str(wanted)) == Decimal(got)


def _decimal(number: int, digits: int) -> str:
    return f"{Decimal(number).scaleb(-digits):f}"


if __name__ == "__main__":
    sys.exit(main())
