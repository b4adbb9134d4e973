"""Results in words: the members of our own kinds' results have names, those of others stay raw."""

import ast
import json
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from api.ui.words import all_words
from shared.access import Role
from tests.factories import claimed_again, execute, make_job
from tests.pages.browsing import log_in, text_of
from tests.protocol.api.keys import make_key
from worker.outcome import complete_job

ROOT = Path(__file__).parents[2]
# Where results are made, and by which functions (None: all of the file).
MAKERS: dict[str, set[str] | None] = {
    "worker/handlers/costing_results.py": None,
    "worker/handlers/cost_documents.py": {"_result"},
    "worker/handlers/exporting.py": {"export_run"},
    "worker/handlers/ledger_exports.py": {"export_ledger"},
    "worker/handlers/migrating.py": {"_result", "_finish"},
    "worker/handlers/stored_files.py": {"tell"},
    "worker/records/posting_list.py": {"summarize"},
    "worker/records/periods.py": {"count_closed"},
}
NOT_OF_RESULTS = {"job_id", "most"}  # binds of the same functions
RESULT = {
    "outcome": "completed_with_errors",
    "run_id": 42,
    "period": "2026-01",
    "items": {"total": 7, "costed": 6, "failed": 1},
    "values": {"opening": "100", "cogs": "60"},
    "warnings": [{"code": "PREVIOUS_PERIOD_STALE", "period": "2025-12"}],
    "of_tomorrow": "new",
}


def members() -> Iterator[tuple[str, str]]:
    """Each member of a result that this repository writes, and where."""
    for place, wanted in MAKERS.items():
        for function in ast.walk(ast.parse((ROOT / place).read_text())):
            if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            if wanted is not None and function.name not in wanted:
                continue
            for each in ast.walk(function):
                if isinstance(each, ast.Dict):
                    for key in each.keys:
                        if isinstance(key, ast.Constant) and isinstance(key.value, str):
                            yield key.value, place


def test_every_member_of_our_results_has_a_name() -> None:
    """A new one fails here until it is called something in both languages."""
    found = {name: place for name, place in members() if name not in NOT_OF_RESULTS}
    assert {place for _, place in members()} >= {
        "worker/handlers/costing_results.py",
        "worker/handlers/migrating.py",
        "worker/records/posting_list.py",
    }
    assert {name: at for name, at in found.items() if f"result.{name}" not in all_words()} == {}


async def finished(engine: AsyncEngine, owner: AsyncEngine, kind: str) -> str:
    """A job of this kind that has this result."""
    held = await claimed_again(engine, await make_job(engine), worker="w")
    async with engine.begin() as conn:
        assert await complete_job(conn, held, json.dumps(RESULT))
    job_id = str(held.lease.job_id)
    statement = "UPDATE chot.jobs SET kind = :kind WHERE id = CAST(:id AS uuid)"
    await execute(owner, statement, kind=kind, id=job_id)
    return job_id


@pytest.mark.parametrize(
    ("language", "said"),
    [
        ("en", ["completed, with errors", "Cost run", "cost of goods sold", "costed", "Warnings"]),
        (
            "vi",
            ["hoàn tất, có lỗi", "Lượt tính giá", "giá vốn hàng bán", "tính được giá", "Cảnh báo"],
        ),
    ],
)
async def test_a_result_is_told_in_words(
    probes: AsyncEngine,
    visitor: httpx.AsyncClient,
    owner_engine: AsyncEngine,
    language: str,
    said: list[str],
) -> None:
    """Facts, counts and tables; the raw name is in the title, and alone where nobody knows it."""
    job_id = await finished(probes, owner_engine, "costing.run")
    other = await finished(probes, owner_engine, "probe.write")
    await log_in(visitor, await make_key(owner_engine, Role.READ))
    page = (await visitor.get(f"/ui/jobs/{job_id}?lang={language}")).text
    result = page.partition('id="result"')[2].partition("<details")[0]
    for words in said:
        assert words in text_of(result)
    assert "run_id" not in text_of(result)
    assert 'title="run_id"' in result
    assert "of_tomorrow" in text_of(result)
    raw = (await visitor.get(f"/ui/jobs/{other}?lang={language}")).text
    shown = text_of(raw.partition('id="result"')[2].partition("<details")[0])
    assert "run_id" in shown
    assert said[1] not in shown
