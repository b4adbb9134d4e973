"""The public peer: the same movements through Tryton's recompute and through ours, side by side.

Tryton lives in an environment of its own and in a database of its own on the same PostgreSQL. Its
method `average` is our moving average, its `fifo` our FIFO; one pool for the whole company.
"""

import csv
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

from bench.peer_movements import DAYS, DIGITS, FIRST_DAY, STORES, Move, peer_movements
from bench.running import Bench, BenchFailed, run_costing
from dev.stack_config import ROOT
from shared.database import driver_connection, transaction

METHODS = {"average": "moving_avg", "fifo": "fifo"}
MODULES = ("stock", "product_cost_fifo", "product_cost_warehouse")
TEMPLATE = "tryton"
LONGEST_SECONDS = 3600.0
HALF = Decimal(1).scaleb(-DIGITS) / 2  # the most that one rounding of ours is off


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """One method on so many movements. `allowed_there` is what roundings may do to that item.

    `theirs` is None where the peer was not asked for so many.
    """

    method: str
    movements: int
    items: int
    ours: float
    theirs: float | None
    largest_difference: str | None
    allowed_there: str | None

    def as_json(self) -> dict[str, Any]:
        """Everything, for --json and for the table."""
        return asdict(self)


class Peer:
    """Tryton, installed and with a template database of its modules."""

    def __init__(self, environment: Path, home: Path) -> None:
        self._python = environment / "bin" / "python"
        self._home = home
        self._settings = home / "trytond.conf"

    def install(self) -> None:
        """Make the environment and install what bench/peer.txt names. Idempotent."""
        if not self._python.exists():
            self._run(sys.executable, "-m", "venv", str(self._python.parents[1]))
        pip = (str(self._python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
        self._run(*pip, "-r", str(ROOT / "bench" / "peer.txt"))

    async def prepare(self, bench: Bench) -> None:
        """Its database with its modules, once; each run gets a copy."""
        self._settings.write_text(
            f"[database]\nuri = postgresql://postgres@127.0.0.1:{bench.server.port}/\n"
            f"path = {self._home}\n"
        )
        password = self._home / "password"
        password.write_text("bench")
        await bench.superuser.execute(f"CREATE DATABASE {TEMPLATE}")
        self._run(
            str(self._python.with_name("trytond-admin")),
            *("-c", str(self._settings), "-d", TEMPLATE, "--email", "bench@example.com"),
            *("--activate-dependencies", "-u", *MODULES),
            environment={"TRYTONPASSFILE": str(password)},
        )

    async def recompute(self, bench: Bench, moves: Sequence[Move], method: str) -> dict[str, Any]:
        """Load the movements into a fresh copy and time the recompute; what the script tells."""
        database = f"tryton_{method}_{len(moves)}"
        await bench.superuser.execute(f"CREATE DATABASE {database} TEMPLATE {TEMPLATE}")
        file = self._home / f"{database}.csv"
        with file.open("w", encoding="utf-8", newline="") as written:
            csv.writer(written).writerows([Move._fields, *moves])
        script = str(ROOT / "bench" / "peer_script.py")
        told = self._run(
            str(self._python), script, str(self._settings), database, str(file), method
        )
        await bench.superuser.execute(f"DROP DATABASE {database} WITH (FORCE)")
        answer: dict[str, Any] = json.loads(told)
        return answer

    def _run(self, *argv: str, environment: dict[str, str] | None = None) -> str:
        kept = {"PATH": os.environ["PATH"], "HOME": str(self._home), "LC_ALL": "C.UTF-8"}
        pip = {name: value for name, value in os.environ.items() if name.startswith("PIP_")}
        ran = subprocess.run(
            argv,
            env={**kept, **pip, **(environment or {})},
            capture_output=True,
            text=True,
            check=False,
            timeout=LONGEST_SECONDS,
        )
        if ran.returncode != 0:
            raise BenchFailed(f"{' '.join(argv[:3])}: {ran.stderr[-2000:]}")
        return ran.stdout


async def compare(bench: Bench, peer: Peer | None, method: str, movements: int) -> Compared:
    """Both on the same movements; BenchFailed where a quantity or a value is not the same."""
    moves = list(peer_movements(movements))
    company = f"{method.upper()}{movements}"
    await _load(bench, company, moves, METHODS[method])
    ran = await run_costing(bench, company, pool="company")
    closing = await _closing(bench, ran.result["run_id"])
    issues = _count_issues(moves)
    theirs = None if peer is None else await peer.recompute(bench, moves, method)
    worst = (Decimal(0), Decimal(0))
    for item, (their_quantity, their_value, their_rounding) in (
        {} if theirs is None else theirs["closing"]
    ).items():
        quantity, value = closing[_code(int(item))]
        allowed = Decimal(their_rounding) + HALF * issues[int(item)]
        difference = abs(value - Decimal(their_value))
        if quantity != Decimal(their_quantity) or difference > allowed:
            raise BenchFailed(
                f"{method}, item {item}: ours {quantity} worth {value}, theirs {their_quantity} "
                f"worth {their_value}; roundings may differ by {allowed}"
            )
        worst = max(worst, (difference, allowed))
    return Compared(
        method=method,
        movements=len(moves),
        items=len(closing),
        ours=ran.seconds,
        theirs=None if theirs is None else theirs["seconds"],
        largest_difference=None if theirs is None else f"{worst[0]:f}",
        allowed_there=None if theirs is None else f"{worst[1]:f}",
    )


def _code(item: int) -> str:
    return f"I{item:06d}"


def _count_issues(moves: Sequence[Move]) -> dict[int, int]:
    counts: dict[int, int] = {}
    for move in moves:
        counts[move.item] = counts.get(move.item, 0) + (move.kind == "issue")
    return counts


async def _load(bench: Bench, company: str, moves: Sequence[Move], method: str) -> None:
    """The company with values as fine as the peer's prices, and its movements."""
    items = sorted({move.item for move in moves})
    last = FIRST_DAY.replace(day=DAYS)
    async with transaction(bench.app, lock_timeout=10) as conn:
        driver = await driver_connection(conn)
        await driver.execute(
            "INSERT INTO books.companies (code, name, minor_digits) VALUES ($1, $1, $2)",
            company,
            DIGITS,
        )
        await driver.execute(
            "INSERT INTO books.brands (company, code, name) VALUES ($1, 'B', 'B')", company
        )
        await driver.execute(
            """INSERT INTO books.periods (company, period, starts_on, ends_on)
               VALUES ($1, '2026-01', $2, $3)""",
            company,
            FIRST_DAY,
            last,
        )
        await driver.copy_records_to_table(
            "stores",
            schema_name="books",
            columns=("company", "code", "brand", "name"),
            records=[(company, f"S{n}", "B", f"S{n}") for n in range(STORES)],
        )
        await driver.copy_records_to_table(
            "items",
            schema_name="books",
            columns=("company", "code", "name", "base_uom", "costing_method"),
            records=[(company, _code(item), _code(item), "u", method) for item in items],
        )
        await driver.copy_records_to_table(
            "stock_movements",
            schema_name="books",
            columns=COLUMNS,
            records=(_row(company, move) for move in moves),
        )
    await bench.superuser.execute("ANALYZE")


COLUMNS = (
    *("company", "brand", "item", "store", "to_brand", "to_store", "kind", "doc_id", "doc_line"),
    *("posting_date", "posting_seq", "qty_base", "value"),
)


def _row(company: str, move: Move) -> tuple[object, ...]:
    to_store = None if move.to_store is None else f"S{move.to_store}"
    return (
        company,
        "B",
        _code(move.item),
        f"S{move.store}",
        None if to_store is None else "B",
        to_store,
        move.kind,
        f"D{move.id}",
        1,
        move.day,
        move.id,
        move.quantity,
        None if move.price is None else move.price * move.quantity,
    )


CLOSING = """
    SELECT item, sum(q_closing) AS quantity, sum(v_closing) AS value
      FROM books.pool_results WHERE run_id = $1 GROUP BY item"""


async def _closing(bench: Bench, run_id: int) -> dict[str, tuple[Decimal, Decimal]]:
    return {
        row["item"]: (row["quantity"], Decimal(row["value"]).scaleb(-DIGITS))
        for row in await bench.superuser.fetch(CLOSING, run_id)
    }
