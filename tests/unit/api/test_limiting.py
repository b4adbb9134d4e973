"""Limits without a database: buckets, tallies, addresses, and what a rule is called."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field, ValidationError
from starlette.requests import Request

from api.pending import FAR_ROOM, Lane, PendingLimits
from api.problems import invalid_problem, validation_problem
from api.rate import MOST_BUCKETS, RateLimit
from api.source import read_networks, source_of
from shared.jobs.enqueue import Submit
from shared.kinds import Payload
from shared.kinds.costing import PERIOD, CostingRunPayload
from shared.kinds.posting import DAY, PostingPayload

RATES = st.floats(min_value=0.05, max_value=1000, allow_nan=False)


@given(
    per_second=RATES,
    burst=st.integers(1, 50),
    steps=st.lists(st.floats(0, 3, allow_nan=False), max_size=80),
)
def test_who_waits_as_long_as_told_passes(
    per_second: float, burst: int, steps: list[float]
) -> None:
    """After any history: the seconds of a refusal are enough, and a refusal costs nothing."""
    limit, now = RateLimit(per_second=per_second, burst=burst), 1000.0
    for step in steps:
        now += step
        wait = limit.refuse("a", now)
        if wait is None:
            continue
        assert wait >= 1
        assert all(limit.refuse("a", now) is not None for _ in range(3))
        now += wait
        assert limit.refuse("a", now) is None


def test_a_burst_passes_and_then_the_rate_holds() -> None:
    """Exactly as many as the bucket holds, then so many a second; another account has its own."""
    limit = RateLimit(per_second=10, burst=5)
    assert [limit.refuse("a", 0.0) for _ in range(7)] == [None] * 5 + [1, 1]
    assert limit.refuse("b", 0.0) is None
    passed = sum(limit.refuse("a", n / 1000) is None for n in range(10_001))
    assert passed == 100
    assert RateLimit(per_second=0, burst=1).refuse("a", 0.0) is None


def test_buckets_are_bounded_and_the_least_lately_used_goes() -> None:
    """However many names come by, memory does not grow, and who keeps asking stays known."""
    limit = RateLimit(per_second=0.001, burst=1)
    assert limit.refuse("busy", 0.0) is None
    for n in range(MOST_BUCKETS * 2):
        limit.refuse(f"account {n}", 0.0)
        if n % 1000 == 0:
            assert limit.refuse("busy", 0.0) is not None
    assert len(limit._buckets) <= MOST_BUCKETS


def a_job(number: int = 1, brand: str | None = "RED") -> Submit:
    return Submit(kind="k", company="ACME", brand=brand, payload={"number": number})


class Counted:
    """A count that somebody else may change, and that says how often it was asked for."""

    def __init__(self, pending: int, limit: int) -> None:
        self.pending, self.limit, self.asked = pending, limit, 0
        self.limits = PendingLimits(self.count, lambda _kind: self.limit)

    async def count(self, lanes: Mapping[Lane, int]) -> Mapping[Lane, int | None]:
        self.asked += 1
        await asyncio.sleep(0)
        return {lane: min(self.pending, most) for lane, most in lanes.items()}

    async def submit(self, *, makes: bool = True) -> bool:
        """One submit; True when there was room for it."""
        async with self.limits.admit([a_job()]) as admission:
            room = admission.room[Lane("k", "ACME", "RED")] > 0
            if room and makes:
                self.pending += 1
                admission.made(a_job())
        return room


async def test_one_process_never_passes_the_maximum() -> None:
    """Thousands at once, while the count is old: as many as there is room for, to the job."""
    lane = Counted(pending=0, limit=30_000)
    got = await asyncio.gather(*(lane.submit() for _ in range(35_000)))
    assert sum(got) == 30_000
    assert lane.pending == 30_000


async def test_far_from_the_maximum_a_second_has_one_count() -> None:
    """Whoever asks at once counts once, and nobody after them for a while."""
    lane = Counted(pending=5, limit=FAR_ROOM * 3)
    await asyncio.gather(*(lane.submit() for _ in range(1000)))
    assert lane.asked == 1


@pytest.mark.parametrize(("took", "good_for"), [(0.01, 0.2), (0.1, 2.0), (3.0, 5.0)])
async def test_near_the_maximum_a_count_is_good_for_twenty_times_what_it_took(
    monkeypatch: pytest.MonkeyPatch, took: float, good_for: float
) -> None:
    """And for five seconds at most: what another process lets in is known no later than that."""
    clock = [1000.0]
    monkeypatch.setattr("api.pending.monotonic", lambda: clock[0])
    asked = 0

    async def count(lanes: Mapping[Lane, int]) -> Mapping[Lane, int | None]:
        nonlocal asked
        asked += 1
        clock[0] += took
        return dict.fromkeys(lanes, 40)

    limits = PendingLimits(count, lambda _kind: 50)
    for passed, counts in ((0.0, 1), (good_for - 0.01, 1), (0.02, 2)):
        clock[0] += passed
        async with limits.admit([a_job()]):
            assert asked == counts


async def test_far_from_the_maximum_nobody_waits_for_a_new_count(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The old one serves while it is made, one at a time, for five seconds; a failure is heard."""
    clock = [1000.0]
    monkeypatch.setattr("api.pending.monotonic", lambda: clock[0])
    answer: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    answer.set_result(5)
    asked = 0

    async def count(lanes: Mapping[Lane, int]) -> Mapping[Lane, int | None]:
        nonlocal asked
        asked += 1
        return dict.fromkeys(lanes, await answer)

    async def submit() -> int:
        async with limits.admit([a_job()]) as admission:
            admission.made(a_job())
            return admission.room[Lane("k", "ACME", "RED")]

    limits = PendingLimits(count, lambda _kind: 100_000)
    assert await submit() == 100_000 - 5
    clock[0] += 1.1
    answer = asyncio.get_running_loop().create_future()
    assert [await submit() for _ in range(3)] == [100_000 - 5 - n for n in (1, 2, 3)]
    await asyncio.sleep(0)
    assert asked == 2
    clock[0] += 5.0
    waiting = asyncio.create_task(submit())
    await asyncio.sleep(0)
    assert not waiting.done()
    answer.set_result(90_000)
    assert await waiting <= 100_000 - 90_000
    assert asked == 2
    clock[0] += 6.0
    answer = asyncio.get_running_loop().create_future()
    answer.set_exception(LookupError())
    with pytest.raises(LookupError):
        await submit()


async def test_room_that_was_not_used_is_given_back() -> None:
    """A duplicate, a refusal, a lost connection: none of them made a job."""
    lane = Counted(pending=0, limit=20_001)
    for _ in range(50):
        await lane.submit(makes=False)
    with pytest.raises(LookupError):
        async with lane.limits.admit([a_job()]):
            raise LookupError
    (tally,) = lane.limits._tallies.values()
    assert (tally.since, tally.held) == (0, 0)


async def test_lanes_are_of_kind_company_and_brand() -> None:
    """Jobs without a brand have one of their own; room of one is none of another; one count."""
    asked: list[set[Lane]] = []

    async def count(lanes: Mapping[Lane, int]) -> Mapping[Lane, int | None]:
        asked.append(set(lanes))
        return {lane: 5 if lane.brand == "RED" else 0 for lane in lanes}

    limits = PendingLimits(count, lambda _kind: 5)
    async with limits.admit([a_job(), a_job(2, "BLUE"), a_job(3, None), a_job(4, None)]) as found:
        assert {lane.brand: room for lane, room in found.room.items()} == {
            "RED": 0,
            "BLUE": 5,
            None: 5,
        }
    assert [len(lanes) for lanes in asked] == [3]


async def test_what_somebody_invented_is_not_kept() -> None:
    """A thousand names in a batch are one question, and push no tally out."""
    asked: list[int] = []

    async def count(lanes: Mapping[Lane, int]) -> Mapping[Lane, int | None]:
        asked.append(len(lanes))
        return {lane: 0 if lane.brand == "RED" else None for lane in lanes}

    limits = PendingLimits(count, lambda _kind: 50_000)
    async with limits.admit([a_job(n, f"invented {n}") for n in range(1000)] + [a_job()]):
        pass
    assert asked == [1001]
    assert {lane.brand for lane in limits._tallies} == {"RED"}


async def test_batches_of_the_same_lanes_do_not_wait_for_each_other_for_ever() -> None:
    """Whatever their order: the lanes are counted, and each is let in."""
    brands = [f"B{n}" for n in range(20)]

    async def count(lanes: Mapping[Lane, int]) -> Mapping[Lane, int | None]:
        await asyncio.sleep(0)
        return dict.fromkeys(lanes, 0)

    limits = PendingLimits(count, lambda _kind: 1000)

    async def batch(order: Sequence[str]) -> None:
        async with limits.admit([a_job(brand=brand) for brand in order]):
            await asyncio.sleep(0)

    async with asyncio.timeout(10):
        await asyncio.gather(*(batch(brands[:: 1 if n % 2 else -1]) for n in range(50)))


PROXIES = read_networks("10.0.0.0/8, 2001:db8::/32,::1/128")


@pytest.mark.parametrize(
    ("peer", "forwarded", "source"),
    [
        ("198.51.100.1", ["203.0.113.5"], "198.51.100.1"),
        ("10.0.0.1", [], "10.0.0.1"),
        ("10.0.0.1", ["203.0.113.5"], "203.0.113.5"),
        ("10.0.0.1", ["1.1.1.1, 203.0.113.5"], "203.0.113.5"),
        ("10.0.0.1", ["1.1.1.1", "203.0.113.5"], "203.0.113.5"),
        ("10.0.0.1", ["203.0.113.5, 10.0.0.2,10.0.0.3"], "203.0.113.5"),
        ("10.0.0.1", ["10.0.0.7, 10.0.0.2"], "10.0.0.7"),
        ("10.0.0.1", ["203.0.113.5:4711"], "203.0.113.5"),
        ("10.0.0.1", ["203.0.113.5, unknown"], "10.0.0.1"),
        ("10.0.0.1", ["<script>"], "10.0.0.1"),
        ("10.0.0.1", [""], "10.0.0.1"),
        ("::ffff:10.0.0.1", ["::ffff:203.0.113.5"], "203.0.113.5"),
        ("::1", ["[2001:db9::1]:443"], "2001:db9::1"),
        ("2001:db8::5", ["2001:db9::1"], "2001:db9::1"),
        ("fe80::1%eth0", [], "fe80::1"),
        (None, ["203.0.113.5"], None),
        ("testclient", ["203.0.113.5"], None),
    ],
)
def test_a_source_is_the_right_most_address_that_is_no_proxy(
    peer: str | None, forwarded: list[str], source: str | None
) -> None:
    """What a client wrote itself stands further left, and never counts."""
    headers = [(b"x-forwarded-for", line.encode()) for line in forwarded]
    scope = {"type": "http", "headers": headers, "client": peer and (peer, 4711)}
    assert source_of(Request(scope), PROXIES) == source


class Inner(Payload):
    """What lies inside."""

    size: int = Field(ge=1, le=9)


class Outer(Payload):
    """What lies around it."""

    name: str = Field(min_length=1, max_length=3)
    inner: Inner | None = None
    several: list[Inner] = Field(default_factory=list, max_length=1)


@pytest.mark.parametrize(
    ("model", "sent", "field", "rule"),
    [
        (Outer, {}, "name", "is required"),
        (Outer, {"name": ""}, "name", "must not be empty"),
        (Outer, {"name": "abcd"}, "name", "must have at most 3 characters"),
        (Outer, {"name": 7}, "name", "must be a string"),
        (
            Outer,
            {"name": "a", "nam": 1},
            "nam",
            "is not a member of this object; known members: name, inner, several",
        ),
        (
            Outer,
            {"name": "a", "inner": {"size": 1, "x": 1}},
            "inner.x",
            "is not a member of this object; known members: size",
        ),
        (
            Outer,
            {"name": "a", "several": [{"size": 1, "x": 1}]},
            "several.0.x",
            "is not a member of this object; known members: size",
        ),
        (Outer, {"name": "a", "inner": {"size": 0}}, "inner.size", "must be at least 1"),
        (Outer, {"name": "a", "inner": {"size": 10}}, "inner.size", "must be at most 9"),
        (Outer, {"name": "a", "inner": {"size": 1.5}}, "inner.size", "must be a whole number"),
        (Outer, {"name": "a", "inner": []}, "inner", "must be an object"),
        (Outer, {"name": "a", "several": {}}, "several", "must be a list"),
        (
            Outer,
            {"name": "a", "several": [{"size": 1}] * 2},
            "several",
            "must have at most 1 members",
        ),
        (
            CostingRunPayload,
            {"period": "2026-13"},
            "period",
            f"must be like 2026-01 (accounting period, YYYY-MM; pattern {PERIOD})",
        ),
        (
            PostingPayload,
            {"date_from": "01/06/2026"},
            "date_from",
            f"must be like 2026-01-31 (YYYY-MM-DD; pattern {DAY})",
        ),
        (
            CostingRunPayload,
            {"period": "2026-01", "pool": "shop"},
            "pool",
            "must be one of 'map', 'brand', 'store' or 'company'",
        ),
    ],
)
def test_a_rule_is_told_in_plain_english(
    model: type[BaseModel], sent: dict[str, Any], field: str, rule: str
) -> None:
    """By what would have been right, with the names that are known at that very place."""
    with pytest.raises(ValidationError) as caught:
        model.model_validate_json(json.dumps(sent), strict=True)
    (error,) = validation_problem(caught.value, model).errors
    assert (error.field, error.rule) == (field, rule)


def test_a_parameter_is_told_as_such() -> None:
    """A query has parameters, not members; without a model nothing is invented."""
    with pytest.raises(ValidationError) as caught:
        Inner.model_validate({"size": 1, "x": 1})
    details = caught.value.errors()
    (error,) = invalid_problem(details, model=Inner, query=True).errors
    assert error.rule == "is not a parameter of this route; known parameters: size"
    (error,) = invalid_problem(details).errors
    assert error.rule == "is not a member of this object"


def test_words_that_no_table_has_stay_pydantics(monkeypatch: pytest.MonkeyPatch) -> None:
    """A type that comes with a later version is told, if less kindly."""
    monkeypatch.setattr("api.wording.WORDS", {})
    with pytest.raises(ValidationError) as caught:
        Inner.model_validate({"size": 0})
    (error,) = validation_problem(caught.value, Inner).errors
    assert error.rule == "Input should be greater than or equal to 1"
