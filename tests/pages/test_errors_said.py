"""Errors as the pages say them: ours in the reader's language, a handler's own words as they are."""

import ast
import re
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from api.ui.error_vietnamese import FINDINGS, SENTENCES, error_sentence
from api.ui.why_vietnamese import local
from shared.access import Role
from tests.factories import claimed_again, expire_lease, fetch, make_job, scalar
from tests.pages.browsing import log_in, text_of
from tests.protocol.api.keys import RED, make_key
from tests.protocol.reasons import crew
from worker.outcome import Failed, fail_job
from worker.reaper import reap_expired
from worker.records.period_checks import SAYS

ROOT = Path(__file__).parents[2]
REFUSALS = {"PermanentError", "RetryableError", "FileRefused"}
# Of an attempt that a worker's death ended.
SHOWN = (
    r"heard of last at 20\d\d-\d\d-\d\d [0-9:]{8} ; the lease ran out at 20\d\d-\d\d-\d\d [0-9:]{8}"
)
DIED = r"heard of last at 20\d\d-\d\d-\d\dT.*Z; the lease ran out at 20\d\d-.*Z"


def codes_of_ours() -> Iterator[tuple[str, str]]:
    """Every code that the worker gives to an error that ends a job, and where."""
    for path in sorted((ROOT / "worker").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Call):
                continue
            name = getattr(node.func, "id", getattr(node.func, "attr", ""))
            if name not in REFUSALS:
                continue
            given = [each.value for each in node.keywords if each.arg == "code"]
            if name == "FileRefused":
                given += node.args[:1]
            for value in given:
                for each in ast.walk(value):
                    if isinstance(each, ast.Constant) and isinstance(each.value, str):
                        yield each.value, path.name


def test_every_code_of_ours_has_a_sentence() -> None:
    """A new one fails here until somebody says in Vietnamese what it means."""
    found = dict(codes_of_ours())
    assert len(found) > 30
    missing = {code: name for code, name in found.items() if re.fullmatch(r"[A-Z][A-Z_]{4,}", code)}
    assert {code: name for code, name in missing.items() if code not in SENTENCES} == {}
    assert set(FINDINGS) == set(SAYS)
    for forms in SENTENCES.values():
        assert not re.search(r"\{", forms[-1]), forms  # the last needs nothing


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (
            {"code": "TIMEOUT", "message": "ran longer than 60 s"},
            "Chạy lâu hơn 60 giây cho phép.",
        ),
        ({"code": "TIMEOUT", "message": "?"}, "Chạy lâu hơn thời gian cho phép."),
        (
            {"code": "PAYLOAD_INVALID", "details": {"errors": [{"field": "a"}, {"field": "b.c"}]}},
            "Dữ liệu gửi vào không hợp với loại công việc: a, b.c.",
        ),
        (
            {
                "code": "PERIOD_NOT_READY",
                "details": {
                    "period": "2026-01",
                    "company": "ACME",
                    "findings": [{"code": "NOT_COSTED", "count": 3}, {"code": "NEW", "count": 1}],
                },
            },
            (
                "Kỳ 2026-01 của công ty ACME vẫn mở như trước: mặt hàng chưa tính giá (3); NEW (1). Hãy "
                "xử lý rồi khóa lại."
            ),
        ),
        (
            {"code": "ITEM_UNKNOWN", "details": {"items": ["A", "B", "C", "D", "E", "F", "G"]}},
            "Công ty không có mặt hàng: A, B, C, D, E … (+2).",
        ),
        ({"code": "PERIOD_CLOSED", "details": "x"}, "Kỳ không mở; chưa có gì thay đổi."),
        ({"code": "PERIOD_NOT_READY", "details": {"findings": [7, {"code": []}]}}, SENTENCES),
        (
            {"type": "Released", "message": "the worker drains"},
            "Worker đang dừng nên trả công việc lại.",
        ),
        ({"type": "Snoozed", "message": "the bank opens later"}, None),
        ({"code": "FAILED", "type": "KeyError", "message": "'brand'"}, None),
        ({"code": ["x"]}, None),
        ("text", None),
        (None, None),
    ],
)
def test_an_error_is_told_by_what_it_holds(error: Any, said: Any) -> None:
    """The richest sentence whose values are there; whatever details are made of, nothing breaks."""
    found = error_sentence(error)
    if said is SENTENCES:
        assert found == SENTENCES["PERIOD_NOT_READY"][-1]
    else:
        assert found == said


async def failed(engine: AsyncEngine, error: str, code: str) -> str:
    """A job that died of it."""
    held = await claimed_again(engine, await make_job(engine), worker="w")
    async with engine.begin() as conn:
        await fail_job(conn, held, Failed(error=error, code=code, permanent=True))
    return str(held.lease.job_id)


async def test_our_errors_are_vietnamese_on_vietnamese_pages(
    probes: AsyncEngine, visitor: httpx.AsyncClient, owner_engine: AsyncEngine
) -> None:
    """On the job, in the list and among the dead, with the original behind; English stays as is."""
    ours = await failed(probes, "ran longer than 90 s", "TIMEOUT")
    theirs = await failed(probes, "the oven is cold", "OVEN_COLD")
    await log_in(visitor, await make_key(owner_engine, Role.ADMIN))
    for place in (f"/ui/jobs/{ours}", "/ui/jobs", "/ui/dead-letters"):
        english = text_of((await visitor.get(f"{place}?lang=en")).text)
        assert "ran longer than 90 s" in english or place == "/ui/dead-letters"
        assert "Chạy lâu" not in english
        said = text_of((await visitor.get(f"{place}?lang=vi")).text)
        assert "Chạy lâu hơn 90 giây cho phép." in said
    job = text_of((await visitor.get(f"/ui/jobs/{ours}?lang=vi")).text)
    assert "(TIMEOUT: Chạy lâu hơn 90 giây cho phép)" in job  # the sentence of /why
    assert "ran longer than 90 s" in job
    other = text_of((await visitor.get(f"/ui/jobs/{theirs}?lang=vi")).text)
    assert "the oven is cold" in other


async def lost(engine: AsyncEngine, *, reaped: bool) -> str:
    """A job whose first worker vanished; another took over, or a reaper found it and then one."""
    await crew(engine, name="host-1-aaaaaaaa")
    await crew(engine, name="host-2-bbbbbbbb")
    job_id = await make_job(engine)
    await claimed_again(engine, job_id, worker="host-1-aaaaaaaa")
    await expire_lease(engine, job_id)
    if reaped:
        async with engine.connect() as conn:
            await conn.execution_options(isolation_level="AUTOCOMMIT")
            assert await reap_expired(conn) == 1
    await claimed_again(engine, job_id, worker="host-2-bbbbbbbb")
    return str(job_id)


@pytest.mark.parametrize("reaped", [False, True])
async def test_a_lost_lease_says_what_happened(
    probes: AsyncEngine, visitor: httpx.AsyncClient, owner_engine: AsyncEngine, *, reaped: bool
) -> None:
    """Who fell silent when, when the lease ran out, who took over: page and API, both languages."""
    job_id = await lost(probes, reaped=reaped)
    key = await make_key(owner_engine, Role.READ)
    shown = await visitor.get(f"/v1/jobs/{job_id}", headers={"Authorization": f"Bearer {key}"})
    first, second = shown.json()["attempts"]
    error = first["error"]
    assert error["code"] == ("WORKER_LOST" if reaped else "LEASE_LOST")
    assert re.search(DIED, error["message"]), error
    assert error["message"].startswith("worker host-1-aaaaaaaa was heard of last at ")
    assert f"worker host-2-bbbbbbbb took over at {error['details']['taken_over_at']}" in str(error)
    assert second["error"] is None
    (row,) = await fetch(
        probes,
        """SELECT w.seen_at, a.ended_at FROM chot.workers w
             JOIN chot.attempts a ON a.worker_id = w.worker_id AND a.outcome = 'lost_lease'""",
    )
    until = datetime.fromisoformat(error["details"]["lease_until"])
    assert datetime.fromisoformat(error["details"]["seen_at"]) == row.seen_at.replace(microsecond=0)
    assert 0 < (row.ended_at - until).total_seconds() < 30
    await log_in(visitor, key)
    said = text_of((await visitor.get(f"/ui/jobs/{job_id}?lang=vi")).text)
    assert f"Worker host-1-aaaaaaaa báo lần cuối lúc {local(row.seen_at)}" in said
    assert f"quyền giữ hết hạn lúc {local(until)}; worker host-2-bbbbbbbb tiếp quản lúc" in said
    english = text_of((await visitor.get(f"/ui/jobs/{job_id}?lang=en")).text)
    assert re.search(SHOWN, english), english


async def test_a_brands_reader_is_not_told_where_workers_are(
    probes: AsyncEngine, visitor: httpx.AsyncClient, owner_engine: AsyncEngine
) -> None:
    """The end of each id, in the sentence as in the column."""
    job_id = await lost(probes, reaped=False)
    await log_in(visitor, await make_key(owner_engine, Role.READ, scope=RED))
    for language in ("en", "vi"):
        page = (await visitor.get(f"/ui/jobs/{job_id}?lang={language}")).text
        assert "aaaaaaaa" in page
        assert "host-1" not in page
        assert "host-2" not in page


async def test_takeovers_are_counted_as_before(probes: AsyncEngine) -> None:
    """What a trigger writes of a lost lease does not make a takeover a reaped one."""
    await lost(probes, reaped=False)
    await lost(probes, reaped=True)
    counted = """SELECT count(*) FILTER (WHERE taken_over) || ' of ' || count(*)
                   FROM chot.attempt_ends WHERE outcome = 'lost_lease'"""
    assert await scalar(probes, counted) == "1 of 2"
    assert await scalar(probes, "SELECT count(*) FROM chot.lease_losses") == 2
