"""The simulator's traces: made off the event loop, once for all who ask for the same, and bounded.

What is asked for is judged by the model's own limits; a trace is a few hundred steps, so that one
thread makes them, one after the other.
"""

import asyncio
import json
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from time import monotonic
from types import MappingProxyType
from typing import Any

from api.problems import Problem, ProblemRaised, field_problem
from api.rate import RateLimit
from api.ui.browser import Language
from api.ui.words import translate
from shared.model.actions import ACTIONS
from shared.model.properties import PROPERTIES
from shared.model.timed.plan import LIMITS, Plan, PlanRefused
from shared.model.timed.play import BEAT, Entry, TooLong, Trace, play, play_counterexample
from shared.model.timed.stories import STORIES
from shared.model.wording import worker_name

MOST_CACHED_BYTES = 8 * 1024 * 1024
MOST_WAITING = 16
# An account has so many new traces at once, and one more every so often, however often it logs
# in; what is known is free.
NEW_BURST, NEW_PER_SECOND = 20, 0.5
SHORTEST = "shortest"
NUMBER_LENGTH = 9
SWITCH = MappingProxyType({"on": True, "off": False})


@dataclass(frozen=True, slots=True)
class Wish:
    """What is to be played: a plan, or (None) the shortest way to a double write."""

    plan: Plan | None

    def play(self) -> Trace:
        """The trace; TooLong where it took more CPU time than it may."""
        return play_counterexample() if self.plan is None else play(self.plan)


def read_wish(query: Iterable[tuple[str, str]]) -> Wish:
    """The wish of a query; ProblemRaised with field, value and rule for what cannot be played."""
    given: dict[str, str] = {}
    for name, value in query:
        if name in given:
            raise _refused(name, value, "is there more than once")
        given[name] = value
    for name in ("lang", "theme", "plain"):
        given.pop(name, None)
    story = given.pop("story", None)
    if story is not None:
        return _read_story(story, given)
    values: dict[str, Any] = {}
    for name, value in given.items():
        values[name] = _read_value(name, value)
    try:
        return Wish(Plan(**values))
    except PlanRefused as refused:
        raise _refused(refused.field, given[refused.field], refused.rule) from None


def _read_story(story: str, given: Mapping[str, str]) -> Wish:
    if given:
        name, value = next(iter(given.items()))
        raise _refused(name, value, "does not go with story, which has its own plan")
    if story == SHORTEST:
        return Wish(None)
    if story not in STORIES:
        raise _refused("story", story, f"must be one of {', '.join((*STORIES, SHORTEST))}")
    return Wish(STORIES[story])


def _read_value(name: str, value: str) -> int | bool:
    if name == "fence":
        if value not in SWITCH:
            raise _refused(name, value, "must be on or off")
        return SWITCH[value]
    if name not in LIMITS:
        known = ", ".join((*LIMITS, "fence", "story"))
        raise _refused(name[:100], value, f"is no parameter of the simulator; there are: {known}")
    least, most = LIMITS[name]
    if not (value.isascii() and value.isdigit() and len(value) <= NUMBER_LENGTH):
        raise _refused(name, value, f"must be a whole number from {least} to {most}")
    return int(value)


def _refused(name: str, value: str, rule: str) -> ProblemRaised:
    return ProblemRaised(field_problem("invalid-request", name, rule, value))


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """A trace as JSON for the script; `known`: it had been made before."""

    body: bytes
    known: bool


@dataclass(slots=True)
class Traces:
    """Traces by what was asked for, the least lately used forgotten; two who ask share one making.

    `make` is what runs in the thread.
    """

    make: Callable[[Wish, Language], bytes] = field(default_factory=lambda: made_trace)
    made: int = 0
    _known: "OrderedDict[tuple[Wish, Language], bytes]" = field(default_factory=OrderedDict)
    _bytes: int = 0
    _making: "dict[tuple[Wish, Language], asyncio.Task[bytes]]" = field(default_factory=dict)
    _rate: RateLimit = field(
        default_factory=lambda: RateLimit(per_second=NEW_PER_SECOND, burst=NEW_BURST)
    )
    _thread: ThreadPoolExecutor = field(
        default_factory=lambda: ThreadPoolExecutor(1, thread_name_prefix="simulator")
    )

    async def get(self, wish: Wish, language: Language, account: str) -> Made:
        """The trace; ProblemRaised when this account, or everybody, asks for too many."""
        key = (wish, language)
        known = self._known.get(key)
        if known is not None:
            self._known.move_to_end(key)
            return Made(body=known, known=True)
        task = self._making.get(key)
        if task is None:
            self._refuse_flood(account)
            task = asyncio.create_task(self._make(key), name="simulator trace")
            self._making[key] = task
            task.add_done_callback(lambda done: self._made(key, done))
        # Who goes away does not take the trace from the others who wait for it.
        return Made(body=await asyncio.shield(task), known=False)

    def _refuse_flood(self, account: str) -> None:
        wait = self._rate.refuse(account, monotonic())
        if wait is not None:
            detail = f"an account may have {NEW_BURST} new traces at once; wait {wait} s"
            raise ProblemRaised(Problem(slug="rate-limited", detail=detail, after=wait))
        if len(self._making) >= MOST_WAITING:
            detail = "too many traces are being made at this moment; ask again"
            raise ProblemRaised(Problem(slug="overloaded", detail=detail))

    async def _make(self, key: tuple[Wish, Language]) -> bytes:
        loop = asyncio.get_running_loop()
        try:
            return await loop.run_in_executor(self._thread, self.make, *key)
        except TooLong:
            rule = "make fewer events than these together: the trace takes too long to compute"
            raise _refused("jobs", str(getattr(key[0].plan, "jobs", "")), rule) from None

    def _made(self, key: tuple[Wish, Language], done: "asyncio.Task[bytes]") -> None:
        del self._making[key]
        if done.cancelled() or done.exception() is not None:
            return
        self.made += 1
        body = done.result()
        self._known[key] = body
        self._bytes += len(body)
        while self._bytes > MOST_CACHED_BYTES:
            _, forgotten = self._known.popitem(last=False)
            self._bytes -= len(forgotten)

    def close(self) -> None:
        """Drop what has not begun."""
        self._thread.shutdown(wait=False, cancel_futures=True)


def made_trace(wish: Wish, language: Language) -> bytes:
    """Play it, and put it into the reader's words."""
    return json.dumps(told(wish.play(), language), separators=(",", ":")).encode()


def told(trace: Trace, language: Language) -> dict[str, Any]:
    """The trace as the script draws it: each step with its sentence and what it changed."""
    plan = trace.plan
    shown = {name: getattr(plan, name) for name in LIMITS} | {"fence": plan.fence}
    return {
        "plan": shown,
        "safe": plan.safe,
        "stopped": trace.stopped,
        "doubled": trace.doubled,
        "broken": [
            {"name": name, "words": translate(language, f"simulator.property.{name}")}
            for name in trace.broken
        ],
        "properties": len(PROPERTIES),
        "steps": [_told_step(entry, trace, language) for entry in trace.entries],
    }


def _told_step(entry: Entry, trace: Trace, language: Language) -> dict[str, Any]:
    implements = None if entry.action == BEAT else ACTIONS[entry.action].implements
    return {
        "at": entry.at,
        "action": entry.action,
        "kind": entry.kind,
        "worker": entry.worker,
        "job": entry.job,
        "says": sentence(entry, trace.plan, language),
        "model": entry.words,
        "code": implements or "",
        "broken": list(entry.broken),
        "doubled": entry.doubled,
        "workers": entry.workers,
        "jobs": entry.jobs,
    }


def sentence(entry: Entry, plan: Plan, language: Language) -> str:
    """What happened, for somebody who has never heard the word lease."""
    who = "" if entry.worker is None else worker_name(entry.worker)[-1]
    values = {
        "worker": translate(language, "simulator.worker", name=who),
        "job": translate(language, "simulator.job", n=(entry.job or 0) + 1),
        "fence": entry.fence,
        "piece": entry.piece,
        "lease": plan.lease,
        "visibility": plan.visibility,
    }
    said = translate(language, f"simulator.say.{entry.action}", **values)
    if entry.doubled is not None:
        said += " " + translate(language, "simulator.say_doubled", **values)
    return said[0].upper() + said[1:]
