"""Cost a chunk of whole items: plain tuples in, rows ready for COPY out, so that it can cross a
process boundary cheaply.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from worker.costing.engine import cost_items
from worker.costing.movements import ItemStock, Movement, Opening, Reference, in_order
from worker.costing.problems import Code, problem
from worker.costing.results import ItemCosts, ItemFailure, Policy

Row = tuple[object, ...]


class Unit(NamedTuple):
    """One item of one brand as it was read. `refusal`: a code that forbids to cost it at all."""

    brand: str
    item: str
    openings: Sequence[tuple[str, int, int]]
    movements: Sequence[Row]
    references: Mapping[int, Reference]
    refusal: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkResults:
    """Rows as the result tables take them, without the run's id; `marks` has one row a unit."""

    lines: list[Row] = field(default_factory=list)
    pools: list[Row] = field(default_factory=list)
    stores: list[Row] = field(default_factory=list)
    errors: list[Row] = field(default_factory=list)
    marks: list[tuple[str, str, bool, bytes]] = field(default_factory=list)


def cost_chunk(units: Iterable[Unit], pool_of: Mapping[str, str], policy: Policy) -> ChunkResults:
    """Cost every unit; one that fails leaves its errors and stops no other.

    A unit's digest depends on its own rows alone, so that the checksum over all digests does not
    depend on how units were put into chunks.
    """
    results = ChunkResults()
    for unit in units:
        lines, pools, stores, errors = rows = _cost_unit(unit, pool_of, policy)
        results.lines.extend(lines)
        results.pools.extend(pools)
        results.stores.extend(stores)
        results.errors.extend(errors)
        results.marks.append((unit.brand, unit.item, bool(errors), _digest(unit, rows)))
    return results


UnitRows = tuple[list[Row], list[Row], list[Row], list[Row]]


def _cost_unit(unit: Unit, pool_of: Mapping[str, str], policy: Policy) -> UnitRows:
    movements = in_order(Movement._make((*row, None, ())) for row in unit.movements)
    if unit.refusal is not None:
        first = tuple(movement.id for movement in movements)
        failure = ItemFailure(problems=(problem(Code(unit.refusal), None, first),))
        return [], [], [], _error_rows(unit, failure)
    stock = ItemStock(
        item=unit.item,
        openings=tuple(map(Opening._make, unit.openings)),
        movements=movements,
        references=unit.references,
    )
    costs = cost_items([stock], pool_of, policy)[unit.item]
    if isinstance(costs, ItemFailure):
        return [], [], [], _error_rows(unit, costs)
    return *_result_rows(unit, costs), []


def _result_rows(unit: Unit, costs: ItemCosts) -> tuple[list[Row], list[Row], list[Row]]:
    key = (unit.brand, unit.item)
    lines: list[Row] = [(*key, *line) for line in costs.lines]
    pools: list[Row] = [
        (
            *key,
            _pool(unit, p.pool),
            *p.opening,
            *p.receipt,
            *p.gain,
            *p.sales_return,
            *p.issue,
            *p.usage,
            *p.purchase_return,
            *p.closing,
            *p.transfer_in,
            *p.transfer_out,
            p.rounding,
            p.variance,
            p.true_up,
            p.price_num,
            p.price_den,
            p.pushes,
            p.dipped,
            p.scc_size,
        )
        for p in costs.pools
    ]
    stores: list[Row] = [
        (
            *key,
            s.store,
            _pool(unit, s.pool),
            *s.opening,
            *s.incoming,
            *s.outgoing,
            *s.transfer_in,
            *s.transfer_out,
            *s.closing,
            s.averaging,
        )
        for s in costs.stores
    ]
    return lines, pools, stores


def _error_rows(unit: Unit, failure: ItemFailure) -> list[Row]:
    key = (unit.brand, unit.item)
    return [
        (*key, number, _pool(unit, p.pool), p.code.value, p.detail, list(p.movement_ids))
        for number, p in enumerate(failure.problems, start=1)
    ]


def _pool(unit: Unit, pool: str | None) -> str | None:
    """A pool's name inside its brand; one of another brand keeps that brand before it."""
    return None if pool is None else pool.removeprefix(f"{unit.brand}/")


def _digest(unit: Unit, rows: UnitRows) -> bytes:
    """Canonical: repr of strings, integers, booleans and None is the same on every machine."""
    lines, pools, stores, errors = rows
    in_id_order = sorted(lines, key=lambda line: line[2])  # type: ignore[arg-type,return-value]  # an id
    whole = (unit.brand, unit.item, in_id_order, pools, stores, errors)
    return hashlib.sha256(repr(whole).encode()).digest()
