"""What a worked example expects, held against what was found; in words where they differ."""

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from worker.costing.answers import add
from worker.costing.vectors import ALL_WAREHOUSES, Vector


def differences(found: Mapping[str, Any], expected: Mapping[str, Any], vector: Vector) -> list[str]:
    """Everything expected that was not found; what is not expected is not compared."""
    if "error" in expected or "error" in found:
        wanted, got = expected.get("error"), found.get("error")
        told = [row["error"] for row in found.get("errors", [])] or [got]
        return [] if wanted in told else [f"error: expected {wanted}, found {got}"]
    if vector.system is not None:
        return _solution(found["x"], expected["x"])
    wrong = []
    if "cogs" in expected and not _equal(expected["cogs"], found["cogs"]):
        wrong.append(f"cogs: expected {expected['cogs']}, found {found['cogs']}")
    closing = _closing_by_place(found)
    for row in expected.get("closing", []):
        key = (row["item"], row["warehouse"])
        wrong += _compare(f"closing of {key}", row, closing.get(key), ("qty", "value"))
    lines = {row["seq"]: row for row in found["lines"]}
    for row in expected.get("lines", []):
        fields = ("value", "variance", "true_up")
        if row["seq"] not in lines:
            wrong.append(f"line {row['seq']}: there is no such movement")
            continue
        wrong += _compare(f"line {row['seq']}", row, lines[row["seq"]], fields)
    return wrong


def _solution(found: list[str], wanted: list[Any]) -> list[str]:
    return [
        f"x[{i}]: expected {right}, found {left}"
        for i, (left, right) in enumerate(zip(found, wanted, strict=True))
        if not _equal(right, left)
    ]


def _closing_by_place(found: Mapping[str, Any]) -> dict[tuple[str, str], Mapping[str, str]]:
    """Rows by (item, warehouse), and under `*` what all warehouses of an item hold together."""
    together: dict[tuple[str, str], Mapping[str, str]] = {}
    for row in found["closing"]:
        key = (row["item"], ALL_WAREHOUSES)
        sofar = together.get(key, {"qty": "0", "value": "0"})
        together[key] = {f: add(sofar[f], row[f]) for f in ("qty", "value")}
    rows = [*found.get("stores", []), *found["closing"]]
    return together | {(row["item"], row["warehouse"]): row for row in rows}


def _compare(
    what: str, wanted: Mapping[str, Any], got: Mapping[str, Any] | None, fields: tuple[str, ...]
) -> list[str]:
    row = got or {}
    return [
        f"{what}: expected {field} {wanted[field]}, found {row.get(field, '0')}"
        for field in fields
        if wanted.get(field) is not None and not _equal(wanted[field], row.get(field, "0"))
    ]


def _equal(wanted: Any, got: str) -> bool:
    return Decimal(str(wanted)) == Decimal(got)
