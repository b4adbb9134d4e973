"""Traces of the simulator: made once for all who ask, bounded, and in words for everybody."""

import asyncio
import json
import threading

import pytest

from api.problems import ProblemRaised
from api.ui import simulator
from api.ui.browser import Language
from api.ui.simulator import MOST_WAITING, NEW_BURST, Traces, Wish, made_trace, read_wish, sentence
from api.ui.words import all_words
from shared.model.properties import PROPERTIES
from shared.model.timed.clock import DUE
from shared.model.timed.plan import Plan
from shared.model.timed.play import BEAT, TooLong, play

SMALL = Wish(Plan(workers=1, jobs=1, pieces=1))


async def test_whoever_asks_for_the_same_shares_one_making() -> None:
    going, made = threading.Event(), 0

    def make(wish: Wish, language: Language) -> bytes:
        nonlocal made
        made += 1
        assert going.wait(5)
        return f"{wish}{language}".encode()

    traces = Traces(make=make)
    asking = [asyncio.create_task(traces.get(SMALL, "en", f"s{n}")) for n in range(8)]
    await asyncio.sleep(0)
    asking[0].cancel()  # who goes away takes nothing from the others
    going.set()
    answers = await asyncio.gather(*asking[1:])
    assert made == 1
    assert {answer.body for answer in answers} == {answers[0].body}
    assert (await traces.get(SMALL, "en", "late")).known
    assert not (await traces.get(SMALL, "vi", "late")).known
    traces.close()


async def test_the_least_lately_used_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simulator, "MOST_CACHED_BYTES", 250)
    traces = Traces(make=lambda _wish, _language: b"x" * 100)
    wishes = [Wish(Plan(seed=seed)) for seed in range(3)]
    for wish in (wishes[0], wishes[1], wishes[0], wishes[2]):
        await traces.get(wish, "en", "s")
    assert (await traces.get(wishes[0], "en", "s")).known
    assert (await traces.get(wishes[2], "en", "s")).known
    assert not (await traces.get(wishes[1], "en", "s")).known
    traces.close()


async def test_a_session_is_told_to_wait_and_what_is_known_stays_free() -> None:
    traces = Traces(make=lambda _wish, _language: b"{}")
    for seed in range(NEW_BURST):
        await traces.get(Wish(Plan(seed=seed)), "en", "greedy")
    with pytest.raises(ProblemRaised) as raised:
        await traces.get(Wish(Plan(seed=999)), "en", "greedy")
    assert raised.value.problem.slug == "rate-limited"
    assert (raised.value.problem.retry_after or 0) >= 1
    assert (await traces.get(Wish(Plan(seed=0)), "en", "greedy")).known
    assert not (await traces.get(Wish(Plan(seed=999)), "en", "patient")).known
    traces.close()


async def test_a_queue_that_is_full_says_so_at_once() -> None:
    going = threading.Event()

    def make(_wish: Wish, _language: Language) -> bytes:
        assert going.wait(5)
        return b"{}"

    traces = Traces(make=make)
    wishes = [Wish(Plan(seed=seed)) for seed in range(MOST_WAITING + 1)]
    asking = [
        asyncio.create_task(traces.get(wish, "en", f"s{n}"))
        for n, wish in enumerate(wishes[:MOST_WAITING])
    ]
    await asyncio.sleep(0)
    with pytest.raises(ProblemRaised) as raised:
        await traces.get(wishes[-1], "en", "last")
    assert raised.value.problem.slug == "overloaded"
    going.set()
    await asyncio.gather(*asking)
    assert traces.made == MOST_WAITING
    traces.close()


async def test_a_plan_that_takes_too_long_is_refused_and_asked_again_later() -> None:
    slow = [TooLong()]

    def make(_wish: Wish, _language: Language) -> bytes:
        if slow:
            raise slow.pop()
        return b"{}"

    traces = Traces(make=make)
    with pytest.raises(ProblemRaised) as raised:
        await traces.get(SMALL, "en", "s")
    (error,) = raised.value.problem.errors
    assert error.field == "jobs"
    assert (await traces.get(SMALL, "en", "s")).body == b"{}"
    traces.close()


@pytest.mark.parametrize("language", ["en", "vi"])
def test_every_step_and_promise_has_words(language: Language) -> None:
    """Also those that seldom happen: an action without a sentence would be a page that fails."""
    words = all_words()
    said = {key.removeprefix("simulator.say.") for key in words if ".say." in key}
    assert said == {*DUE, BEAT}
    promised = {key.removeprefix("simulator.property.") for key in words if ".property." in key}
    assert promised == set(PROPERTIES)
    plan = Plan(fence=False, crash=30, pause=30, duplicate=50, loss=30)
    for entry in play(plan).entries:
        told = sentence(entry, plan, language)
        assert "{" not in told
        assert told[0].isupper()


def test_a_trace_is_json_with_all_that_the_script_draws() -> None:
    told = json.loads(made_trace(read_wish([("fence", "off")]), "vi"))
    assert told["doubled"] is not None
    assert told["plan"]["fence"] is False
    first = told["steps"][0]
    assert len(first["workers"]) == told["plan"]["workers"]
    assert len(first["jobs"]) == told["plan"]["jobs"]
    assert {"name", "words"} == set(told["broken"][0])
