"""What a job locks: resolved once, in SQL, the same for every way to submit; and who conflicts."""

import json
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from api.bodies import JobView, job_view
from shared.errors import EnqueueRefused
from shared.jobs.enqueue import Submit, enqueue_each, enqueue_many, listed_jobs
from shared.jobs.read import show_job
from tests.factories import NUMBERS, execute, fetch, job_row, make_job, scalar
from tests.protocol.locking import (
    claimed,
    leave_locked,
    locked_job,
    locks,
    rows_of,
    running,
    submit,
    waiting,
)

__all__ = ["locks"]
ALL = ("", "exclusive", "", "~")


def a_job(kind: str = "locked.write", **payload: Any) -> Submit:
    """A submit of a kind that locks."""
    body = {"number": next(NUMBERS), "root": "books"} | payload
    return Submit(kind=kind, company="ACME", brand="RED", payload=body)


@pytest.mark.parametrize(
    ("payload", "expected"),
    [
        ({}, ALL),
        ({"part": None, "start": None, "end": None}, ALL),
        ({"part": "R1"}, ("R1", "exclusive", "", "~")),
        ({"start": "2026-08"}, ("", "exclusive", "2026-08", "~")),
        ({"end": "2026-08-15"}, ("", "exclusive", "", "2026-08-15")),
        ({"start": "2026-08", "end": "2026-08"}, ("", "exclusive", "2026-08", "2026-08")),
    ],
)
async def test_every_way_to_submit_resolves_the_same_locks(
    locks: AsyncEngine, payload: dict[str, Any], expected: tuple[str, ...]
) -> None:
    """Python, many at once, each for itself, and plain SQL."""
    ids = [await locked_job(locks, **payload)]
    async with locks.begin() as conn:
        ids += [one.job_id for one in await enqueue_many(conn, [a_job(**payload)])]
        each = await enqueue_each(conn, listed_jobs([a_job(**payload)]))
        ids += [one.job_id for one in each if not isinstance(one, EnqueueRefused)]
        body = json.dumps({"number": next(NUMBERS), "root": "books"} | payload)
        sql = "SELECT job_id FROM chot.enqueue('locked.write', 'ACME', 'RED', CAST(:b AS jsonb))"
        ids.append(await conn.scalar(text(sql), {"b": body}))
    assert [await rows_of(locks, each) for each in ids] == [[("books", *expected)]] * 4
    assert {tuple((await job_row(locks, each)).lock_roots) for each in ids} == {("books",)}


async def test_a_list_is_a_lock_of_each_member_and_a_long_one_of_all(locks: AsyncEngine) -> None:
    """Twice the same is once; more than a hundred are not worth telling apart; none is none."""
    few = await locked_job(locks, "locked.merge", parts=["b", "a", "b"])
    assert [row[:2] for row in await rows_of(locks, few)] == [
        ("ACME/books", "a"),
        ("ACME/books", "b"),
    ]
    many = await locked_job(locks, "locked.merge", parts=[f"{n}" for n in range(101)])
    assert await rows_of(locks, many) == [("ACME/books", *ALL)]
    none = await locked_job(locks, "locked.merge", parts=[])
    assert await rows_of(locks, none) == []
    assert (await job_row(locks, none)).lock_roots is None
    missing = await locked_job(locks, "locked.merge")
    assert await rows_of(locks, missing) == [("ACME/books", *ALL)]


async def test_roots_are_sorted_and_a_job_has_a_lane_of_its_like(locks: AsyncEngine) -> None:
    """The order in which their rows are locked; who has the same locks has the same lane."""
    one = await locked_job(locks, "locked.both", root="z", other="a")
    two = await locked_job(locks, "locked.both", root="z", other="a")
    three = await locked_job(locks, "locked.both", root="z", other="b")
    assert (await job_row(locks, one)).lock_roots == ["a", "z"]
    lanes = await fetch(locks, "SELECT job_id, lane FROM chot.job_locks")
    by_job = {row.job_id: row.lane for row in lanes}
    assert by_job[one] == by_job[two] != by_job[three]
    assert by_job[one].startswith("x")


@pytest.mark.parametrize(
    ("payload", "field"),
    [
        ({"root": None}, "payload.root"),
        ({"root": ""}, "payload.root"),
        ({"root": ["a"]}, "payload.root"),
        ({"root": 1.5}, "payload.root"),
        ({"root": "x" * 401}, "payload.root"),
        ({"part": True}, "payload.part"),
        ({"start": "2026"}, "payload.start"),
        ({"end": "2026-13"}, "payload.end"),
        ({"start": "2026-09", "end": "2026-08"}, "payload.start"),
    ],
)
async def test_a_value_that_names_no_lock_is_refused_by_its_field(
    locks: AsyncEngine, payload: dict[str, Any], field: str
) -> None:
    """For one job by an error, among many for itself alone."""
    with pytest.raises(EnqueueRefused) as refused:
        await submit(locks, **payload)
    assert (refused.value.code, refused.value.field) == ("CH002", field)
    async with locks.begin() as conn:
        good, bad = await enqueue_each(conn, listed_jobs([a_job(), a_job(**payload)]))
    assert not isinstance(good, EnqueueRefused)
    assert isinstance(bad, EnqueueRefused)
    assert (bad.code, bad.field) == ("CH002", field)


async def test_a_part_of_a_list_must_be_a_name(locks: AsyncEngine) -> None:
    """A null among the members would be no lock, and all would be too many."""
    for parts in (["a", None], [["a"]]):
        with pytest.raises(EnqueueRefused):
            await submit(locks, "locked.merge", parts=parts)


PAIRS = [
    (("r", "", "exclusive", "", "~"), ("r", "", "exclusive", "", "~"), True),
    (("r", "", "exclusive", "", "~"), ("s", "", "exclusive", "", "~"), False),
    (("r", "", "shared", "", "~"), ("r", "", "shared", "", "~"), False),
    (("r", "", "shared", "", "~"), ("r", "a", "exclusive", "", "~"), True),
    (("r", "a", "exclusive", "", "~"), ("r", "b", "exclusive", "", "~"), False),
    (("r", "a", "exclusive", "", "~"), ("r", "a", "shared", "", "~"), True),
    (("r", "", "exclusive", "2026-08", "~"), ("r", "", "exclusive", "", "2026-07"), False),
    (("r", "", "exclusive", "2026-08", "~"), ("r", "", "exclusive", "", "2026-08"), True),
    (("r", "", "exclusive", "2026-08-15", "~"), ("r", "", "exclusive", "", "2026-08"), True),
    (("r", "", "exclusive", "2026-08-15", "~"), ("r", "", "exclusive", "", "2026-08-14"), False),
    (("r", "", "exclusive", "2026-08", "2026-08"), ("r", "", "exclusive", "2026-08-31", "~"), True),
    (
        ("r", "", "exclusive", "2026-09", "~"),
        ("r", "", "exclusive", "2026-08", "2026-08-31"),
        False,
    ),
]


@pytest.mark.parametrize(("one", "other", "expected"), PAIRS)
async def test_two_locks_conflict_by_one_rule(
    locks: AsyncEngine, one: tuple[str, ...], other: tuple[str, ...], *, expected: bool
) -> None:
    """Root, part, mode and period; whichever way round they are asked about."""
    binds = {f"a{n}": value for n, value in enumerate(one)}
    binds |= {f"b{n}": value for n, value in enumerate(other)}
    a, b = (_row(name) for name in "ab")
    for pair in (f"{a}, {b}", f"{b}, {a}"):
        assert await scalar(locks, f"SELECT chot.locks_conflict({pair})", **binds) is expected


def _row(name: str) -> str:
    names = ", ".join(f"CAST(:{name}{n} AS text)" for n in range(5))
    return f"CAST(ROW(NULL, 1, {names}, '', 0, false, NULL) AS chot.job_locks)"


async def test_a_merge_resolves_anew_and_a_waiter_asks_again(locks: AsyncEngine) -> None:
    """The job locks what it will write; what it has waited for is nothing to it any more."""
    holder = await running(locks, "locked.merge", parts=["a"])
    number = next(NUMBERS)
    waiter = await waiting(locks, "locked.merge", parts=["a"], number=number)
    merged = await submit(locks, "locked.merge", parts=["b"], number=number)
    assert (merged.job_id, merged.duplicate) == (waiter, "merged")
    assert [row[1] for row in await rows_of(locks, waiter)] == ["a", "b"]
    rows = await fetch(locks, "SELECT waiting FROM chot.job_locks WHERE job_id = :i", i=waiter)
    assert [row.waiting for row in rows] == [False, False]
    assert (await job_row(locks, waiter)).blocked_by is None
    assert await scalar(locks, "SELECT count(*) FROM chot.outbox WHERE job_id = :i", i=waiter) == 1
    assert await leave_locked(locks, holder, "complete")


async def test_a_merge_that_changes_nothing_keeps_the_place(locks: AsyncEngine) -> None:
    """And one that raises the priority moves it, and lets it ask again."""
    holder = await running(locks, "locked.merge", parts=["a"])
    number = next(NUMBERS)
    waiter = await waiting(locks, "locked.merge", parts=["a"], number=number)
    await submit(locks, "locked.merge", parts=["a"], note="more", number=number)
    turn = "SELECT turn, waiting, woken_at FROM chot.job_locks WHERE job_id = :i"
    assert tuple((await fetch(locks, turn, i=waiter))[0]) == (4, True, None)
    await submit(locks, "locked.merge", parts=["a"], number=number, priority=8)
    row = (await fetch(locks, turn, i=waiter))[0]
    assert (row.turn, row.waiting, row.woken_at is None) == (1, True, False)
    assert await leave_locked(locks, holder, "complete")


@pytest.mark.parametrize("how", ["complete", "cancel", "fail_permanently"])
async def test_a_follow_up_locks_what_its_own_payload_says(locks: AsyncEngine, how: str) -> None:
    """Made by the exit of its predecessor, in SQL, from the payload that was kept for it."""
    number = next(NUMBERS)
    held = await running(locks, "locked.follow", parts=["a"], number=number)
    later = await submit(locks, "locked.follow", parts=["b"], number=number)
    assert later.duplicate == "follow_up"
    assert await leave_locked(locks, held, how)
    ids = await fetch(locks, "SELECT id FROM chot.jobs WHERE state = 'pending'")
    assert [[row[1] for row in await rows_of(locks, one.id)] for one in ids] == [["b"]]
    assert (await job_row(locks, ids[0].id)).lock_roots == ["ACME/books"]


async def test_a_follow_up_that_cannot_be_resolved_locks_what_was_locked(
    locks: AsyncEngine,
) -> None:
    """Its kind may have changed meanwhile; an exit must not fail for that."""
    number = next(NUMBERS)
    held = await running(locks, "locked.follow", parts=["a"], number=number)
    await submit(locks, "locked.follow", parts=["b"], number=number)
    await execute(
        locks,
        """UPDATE chot.kinds SET locks = '[{"root": "{payload.gone}", "mode": "exclusive"}]'
            WHERE name = 'locked.follow'""",
    )
    assert await leave_locked(locks, held, "complete")
    (follow,) = await fetch(locks, "SELECT id FROM chot.jobs WHERE state = 'pending'")
    assert await rows_of(locks, follow.id) == [("ACME/books", "a", "exclusive", "", "~")]
    await execute(locks, "DELETE FROM chot.outbox")
    await claimed(locks, follow.id)


async def test_an_archived_job_takes_its_locks_and_unused_roots_along(
    locks: AsyncEngine, owner_engine: AsyncEngine
) -> None:
    """A root that another job names stays."""
    gone = await running(locks, root="only mine")
    shared = await running(locks, root="ours")
    await locked_job(locks, root="ours")
    for held in (gone, shared):
        assert await leave_locked(locks, held, "complete")
    await execute(
        owner_engine,
        "UPDATE chot.jobs SET created_at = created_at - interval '9 days', "
        "finished_at = finished_at - interval '9 days'",
    )
    moved = "SELECT moved FROM chot.archive_jobs(CAST(:after AS uuid), interval '1 day', 100)"
    async with locks.begin() as conn:
        binds = {"after": "00000000-0000-0000-0000-000000000000"}
        assert await conn.scalar(text(moved), binds) == 2
    assert [one["root"] for one in await shown(locks, gone.lease.job_id)] == ["only mine"]
    roots = await fetch(locks, "SELECT root FROM chot.lock_roots")
    assert [row.root for row in roots] == ["ours"]
    assert await rows_of(locks, gone.lease.job_id) == []


async def shown(engine: AsyncEngine, job_id: UUID) -> list[dict[str, Any]]:
    """The locks that GET /v1/jobs/{id} shows."""
    async with engine.connect() as conn:
        row = await show_job(conn, job_id)
    assert row is not None
    view = JobView.model_validate(job_view(row, everywhere=True))
    return [one.model_dump() for one in view.locks]


async def test_a_job_shows_what_it_locks(locks: AsyncEngine) -> None:
    """Null is all, and an open end; a job without locks shows none."""
    locking = await locked_job(locks, part="R1", start="2026-08")
    assert await shown(locks, locking) == [
        {
            "root": "books",
            "part": "R1",
            "mode": "exclusive",
            "period_from": "2026-08",
            "period_to": None,
        }
    ]
    everything = await locked_job(locks, "locked.read")
    assert (await shown(locks, everything))[0]["part"] is None
    assert await shown(locks, await make_job(locks)) == []
