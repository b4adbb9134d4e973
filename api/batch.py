"""One POST of many jobs: judged item by item, committed together, answered in the order sent.

Each item gets what its own POST would have got: the job as a submit answers it, or the problem. A
bad item spoils no other one. Equal items meet each other as duplicates, the first one creates.
"""

import asyncio
import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Any, Literal

from pydantic import BaseModel, Field, JsonValue

from api.acts import act_among_many
from api.authentication import Caller
from api.bodies import SubmitAnswer, SubmitBody
from api.gate import BATCH_PATH
from api.idempotency import Answer, Asked, ask, store_answer
from api.pending import Admission
from api.problems import (
    FieldError,
    Problem,
    ProblemRaised,
    field_problem,
    problem_body,
)
from api.resources import Resources
from api.strict_json import DEEPEST_NESTING, Malformed, parse_object
from api.submission import (
    accepted_view,
    begin,
    check_submit,
    refusal_problem,
    refuse_beyond_rights,
)
from shared.errors import EnqueueRefused
from shared.jobs.enqueue import Accepted, Submit, enqueue_each, listed_jobs
from shared.json_text import to_json
from shared.kinds import Kind

MOST_JOBS = 1000
# An item may be nested as deep as the body of its own POST; the object and the list around it.
DEEPEST = DEEPEST_NESTING + 2
AT_ONCE = 100  # answers written before the others on the event loop get their turn
INDEX = re.compile(r"^jobs\.(\d+)")


class BatchItem(BaseModel):
    """What became of one item: `job` as its own POST would have answered, or `error`."""

    outcome: Literal["created", "duplicate", "error"]
    job: SubmitAnswer | None = None
    error: dict[str, JsonValue] | None = Field(
        None, description="a problem without `instance`; fields begin with `jobs[N].`"
    )


class BatchAnswer(BaseModel):
    """Outcomes in the order of the items, and how many there are of each."""

    created: int
    duplicates: int
    errors: int
    jobs: list[BatchItem]


BATCH_SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["jobs"],
    "additionalProperties": False,
    "properties": {
        "jobs": {
            "type": "array",
            "minItems": 1,
            "maxItems": MOST_JOBS,
            "items": SubmitBody.model_json_schema(),
        }
    },
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """A batch as parsed, under its key if there is one.

    `checked` has a job or a problem for each item, or is the problem of the whole; `barred` are
    the items that the account has no right to, `listed` the jobs as the database reads them.
    """

    asked: Asked | None
    checked: Sequence[Submit | Problem] | Problem
    barred: Mapping[int, Problem]
    listed: str


def read_batch(
    body: bytes,
    key: str | None,
    kinds: Mapping[str, Kind],
    who: Caller,
    *,
    route: str = BATCH_PATH,
) -> Batch:
    """Everything that is judged without the database; raises Malformed and ProblemRaised.

    CPU work in proportion to the body, on no data but its own: it may run in a thread.
    """
    raw = _parsed(body)
    asked = None
    if key is not None:
        said = condensed(raw, "jobs")
        asked = ask(who.principal, key, method="POST", route=route, body=said)
    broken = _envelope_problem(raw)
    if broken is not None:
        if asked is None:
            raise ProblemRaised(broken)
        return Batch(asked=asked, checked=broken, barred={}, listed="[]")
    checked: list[Submit | Problem] = []
    barred = {}
    for index, item in enumerate(raw["jobs"]):
        judged, is_barred = _judged(item, kinds, who)
        if isinstance(judged, Problem):
            judged = _placed(judged, index)
            if is_barred:
                barred[index] = judged
        checked.append(judged)
    listed = listed_jobs([each for each in checked if isinstance(each, Submit)])
    return Batch(asked=asked, checked=checked, barred=barred, listed=listed)


def _parsed(body: bytes) -> dict[str, Any]:
    try:
        return parse_object(body, deepest=DEEPEST)
    except Malformed as error:
        raise Malformed(INDEX.sub(r"jobs[\1]", error.field), error.rule, error.value) from None


def condensed(raw: dict[str, Any], member: str) -> dict[str, Any]:
    """What tells one batch from another: a digest for each item, made in bounded steps.

    `member` is that of the items.

    Eight megabytes written by one call would hold up the event loop of this process.
    """
    items = raw.get(member)
    if not isinstance(items, list):
        return raw
    prints = [hashlib.sha256(to_json(each, sort_keys=True).encode()).hexdigest() for each in items]
    return raw | {member: prints}


def _envelope_problem(raw: dict[str, Any]) -> Problem | None:
    strange = next((name for name in raw if name != "jobs"), None)
    if strange is not None:
        rule = "is none of the members of a batch: jobs"
        return field_problem("invalid-request", strange[:100], rule, raw[strange])
    items = raw.get("jobs")
    if items is None:
        return field_problem("invalid-request", "jobs", "is required")
    if not isinstance(items, list):
        return field_problem("invalid-request", "jobs", "must be a list", items)
    if not 1 <= len(items) <= MOST_JOBS:
        rule = f"must have 1 to {MOST_JOBS} members, not {len(items)}"
        return field_problem("invalid-request", "jobs", rule)
    return None


def _judged(item: Any, kinds: Mapping[str, Kind], who: Caller) -> tuple[Submit | Problem, bool]:
    """The job or the problem, and whether it is one of rights."""
    if not isinstance(item, dict):
        return field_problem("invalid-request", "", "must be a JSON object", item), False
    checked = check_submit(item, kinds, who.principal)
    try:
        refuse_beyond_rights(item, checked, who)
    except ProblemRaised as raised:
        return raised.problem, True
    return act_among_many(checked, kinds) or checked, False


def _placed(problem: Problem, index: int) -> Problem:
    return place(problem, f"jobs[{index}]")


def place(problem: Problem, where: str) -> Problem:
    """The problem with the place of its item before each field."""
    errors = [_placed_field(each, where) for each in problem.errors]
    return replace(problem, errors=errors)


def _placed_field(error: FieldError, where: str) -> FieldError:
    return replace(error, field=f"{where}.{error.field}".rstrip("."))


async def submit_batch(resources: Resources, batch: Batch) -> Answer:
    """Submit once: all jobs, their messages and the answer are committed together or not at all.

    Raises as submit() does. An item that is refused is part of the answer.
    """
    items = () if isinstance(batch.checked, Problem) else batch.checked
    jobs = [each for each in items if isinstance(each, Submit)]
    async with resources.pending.admit(jobs) as admission, resources.transaction() as conn:
        if batch.asked is not None:
            found = await begin(conn, batch.asked)
            if found is not None:
                refuse_lost_rights(found, batch)
                return found
        if isinstance(batch.checked, Problem):
            raise ProblemRaised(batch.checked)
        checked, listed = batch.checked, batch.listed
        no_room = await admission.beyond(conn)
        if no_room:
            checked = without_room(checked, no_room)
            listed = listed_jobs([each for each in checked if isinstance(each, Submit)])
        met = await enqueue_each(conn, listed) if listed != "[]" else []
        if no_room and not any(isinstance(each, Accepted) for each in met):
            # Nothing is stored, not even under the key: the same batch may pass later.
            raise ProblemRaised(next(iter(no_room.values())))
        tell_made(admission, checked, met)
        answer = await answer_batch(checked, met)
        if batch.asked is not None:
            hours = resources.settings.idempotency_hours
            await store_answer(conn, batch.asked, answer, hours=hours)
    resources.relay.wake()
    return answer


def without_room(
    checked: Sequence[Submit | Problem], no_room: Mapping[int, Problem]
) -> Sequence[Submit | Problem]:
    """The items, with a problem for each job, by its number among the jobs, that has no room."""
    numbers = count()
    return [
        _placed(no_room[number], index)
        if isinstance(each, Submit) and (number := next(numbers)) in no_room
        else each
        for index, each in enumerate(checked)
    ]


def tell_made(
    admission: Admission,
    checked: Sequence[Submit | Problem],
    met: Sequence[Accepted | EnqueueRefused],
) -> None:
    """Say which of the jobs were made of the room that was given."""
    jobs = [each for each in checked if isinstance(each, Submit)]
    for job, answer in zip(jobs, met, strict=True):
        if isinstance(answer, Accepted) and answer.created:
            admission.made(job)


def refuse_lost_rights(stored: Answer, batch: Batch) -> None:
    """ProblemRaised where the stored answer shows a job that the account may not submit today."""
    if not batch.barred:
        return
    items = json.loads(stored.body)["jobs"]
    for index, problem in batch.barred.items():
        if items[index]["outcome"] != "error":
            raise ProblemRaised(problem)


async def answer_batch(
    checked: Sequence[Submit | Problem], met: Sequence[Accepted | EnqueueRefused]
) -> Answer:
    """What BatchAnswer describes, of items and of what became of those that are jobs."""
    counts = {"created": 0, "duplicate": 0, "error": 0}
    written = []
    for index, item in enumerate(_items(checked, met)):
        counts[item["outcome"]] += 1
        written.append(to_json(item))
        if index % AT_ONCE == AT_ONCE - 1:
            await asyncio.sleep(0)
    head = to_json(
        {
            "created": counts["created"],
            "duplicates": counts["duplicate"],
            "errors": counts["error"],
        }
    )
    body = f'{head[:-1]},"jobs":[{",".join(written)}]}}'
    return Answer(status=200, headers={}, body=body.encode(), job_id=None)


def _items(
    checked: Sequence[Submit | Problem], met: Sequence[Accepted | EnqueueRefused]
) -> Iterator[dict[str, Any]]:
    answers = iter(met)
    for index, each in enumerate(checked):
        if isinstance(each, Problem):
            yield {"outcome": "error", "error": problem_body(each)}
            continue
        answer = next(answers)
        if isinstance(answer, EnqueueRefused):
            problem = _placed(refusal_problem(answer, each), index)
            yield {"outcome": "error", "error": problem_body(problem)}
        else:
            outcome = "created" if answer.created else "duplicate"
            yield {"outcome": outcome, "job": accepted_view(each, answer)}
