"""One POST: from the raw body to the stored answer, in one READ COMMITTED transaction."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, assert_never
from uuid import UUID

from pydantic import ValidationError
from sqlalchemy.ext.asyncio import AsyncConnection

from api.acts import note_if_act, refuse_act, strange_approval
from api.authentication import Caller
from api.bodies import SubmitBody, job_url, show_instant
from api.idempotency import (
    Answer,
    Asked,
    Fresh,
    InProgress,
    KeyReused,
    ask,
    replay_or_begin,
    store_answer,
)
from api.migration_rights import refuse_operating_task
from api.pending import Admission
from api.problems import Problem, ProblemRaised, field_problem, validation_problem
from api.resources import Resources
from api.signals import REPLAYS
from api.strict_json import parse_object
from api.submit_at_once import submit_at_once
from shared.access import Role
from shared.errors import EnqueueRefused
from shared.jobs.enqueue import Accepted, JsonText, Submit, enqueue
from shared.json_text import to_json
from shared.kinds import Kind
from shared.tracing import spans

SUBMIT_ROUTE = "/v1/jobs"
HIGHEST_PRIORITY = 9
# One text for codes that nobody has and codes of others, so that no answer tells them apart.
NOT_YOURS = {
    "unknown-company": "is no company that this account may submit for",
    "unknown-brand": "is no brand of this company that this account may submit for",
}
# What chot.enqueue() may still refuse although the body passed here.
REFUSALS = {"company": "unknown-company", "brand": "unknown-brand", "kind": "unknown-kind"}
MOST_KINDS_TOLD = 20
UNKNOWN = frozenset({"CH001", "CH005"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A submit as parsed, under its key if there is one.

    `checked` may be a problem: a stored answer is found before it counts, so that a rule that came
    later turns no honest retry away.
    """

    asked: Asked | None
    checked: Submit | Problem
    approval: UUID | None = None


def read_submission(
    body: bytes, key: str | None, kinds: Mapping[str, Kind], who: Caller
) -> Request:
    """Everything that is judged without the database; raises Malformed and ProblemRaised.

    CPU work in proportion to the body, on no data but its own: it may run in a thread.
    """
    raw = parse_object(body)
    asked = None
    if key is not None:
        asked = ask(who.principal, key, method="POST", route=SUBMIT_ROUTE, body=raw)
    checked = check_submit(raw, kinds, who.principal)
    # Before the key is looked up: who has lost a right gets no stored answer either.
    refuse_beyond_rights(raw, checked, who)
    refuse_act(checked, kinds, who)
    if asked is None and isinstance(checked, Problem):
        raise ProblemRaised(checked)
    approval = None
    if isinstance(checked, Submit) and raw.get("approval") is not None:
        approval = UUID(raw["approval"])
    return Request(asked=asked, checked=checked, approval=approval)


def check_submit(
    raw: dict[str, Any], kinds: Mapping[str, Kind], principal: str
) -> Submit | Problem:
    """The job that the body asks for, or the problem with it. The payload stays as it was sent.

    As text: ten thousand small objects that wait for the database are ten thousand that the
    garbage collector goes through meanwhile, and the event loop would write them out again.
    """
    try:
        body = SubmitBody.model_validate(raw)
    except ValidationError as error:
        return validation_problem(error, SubmitBody)
    kind = kinds.get(body.kind)
    if kind is None:
        known = sorted(name for name, each in kinds.items() if not each.internal)
        rule = f"is none of the kinds this api knows: {', '.join(known[:MOST_KINDS_TOLD])}"
        return field_problem("unknown-kind", "kind", rule, body.kind)
    if kind.internal:
        rule = f"is not submitted: its jobs are made by {kind.made_by or 'the platform'}"
        return field_problem("internal-kind", "kind", rule, body.kind)
    payload = JsonText(to_json(raw["payload"]))
    problem = strange_approval(kind, raw.get("approval")) or payload_problem(kind, payload)
    if problem is not None:
        return problem
    return Submit(
        kind=body.kind,
        company=body.company,
        brand=body.brand,
        payload=payload,
        run_at=body.run_at,
        priority=body.priority,
        max_attempts=body.max_attempts,
        principal=principal,
        payload_version=kind.version,
    )


def refuse_beyond_rights(raw: dict[str, Any], checked: Submit | Problem, who: Caller) -> None:
    """ProblemRaised for a job outside the caller's scope, or a priority above its role.

    What is wrong with the request anyway comes first: else the answer would tell whether the
    company of another account exists.
    """
    company, brand = raw.get("company"), raw.get("brand")
    if not who.scope.covers(company, brand):
        if isinstance(checked, Problem):
            raise ProblemRaised(checked)
        field = "brand" if who.scope.covers_company(company) else "company"
        raise ProblemRaised(_not_yours(f"unknown-{field}", checked))
    if raw.get("priority") == HIGHEST_PRIORITY and not who.has(Role.OPERATE):
        more = {"role": Role.OPERATE.value, "route": "POST /v1/jobs"}
        detail = f"POST /v1/jobs with priority {HIGHEST_PRIORITY} asks for role operate"
        raise ProblemRaised(Problem(slug="forbidden", detail=detail, more=more))
    if isinstance(checked, Submit):
        refuse_operating_task(checked, who)


def _not_yours(slug: str, job: Submit) -> Problem:
    field = slug.removeprefix("unknown-")
    value = getattr(job, field)
    if value is None:
        rule = "is missing: this account has some brands only"
        return field_problem("invalid-request", field, rule)
    return field_problem(slug, field, NOT_YOURS[slug], value)


def payload_problem(kind: Kind, payload: str) -> Problem | None:
    """What the kind's model has against this payload (JSON text); None when it fits."""
    try:
        kind.payload.model_validate_json(payload, strict=True)
    except ValidationError as error:
        return validation_problem(error, kind.payload, prefix="payload")
    return None


async def submit(resources: Resources, request: Request) -> Answer:
    """Submit once: the job, its message and its answer are committed together or not at all.

    Raises ProblemRaised with nothing written. A COMMIT whose answer was lost raises the driver's
    error: a retry under the same key tells what became of it.
    """
    jobs = [request.checked] if isinstance(request.checked, Submit) else []
    async with resources.pending.admit(jobs) as admission:
        answer = None
        if isinstance(request.checked, Submit) and admission.has_room:
            answer = await _submit_at_once(resources, request.checked, request.asked, admission)
        if answer is None:
            answer = await _submit_in_steps(resources, request, admission)
    if not answer.replayed:
        resources.relay.wake()
    return answer


async def _submit_at_once(
    resources: Resources, job: Submit, asked: Asked | None, admission: Admission
) -> Answer | None:
    try:
        met = await submit_at_once(resources, job, asked, admission)
    except EnqueueRefused as refused:
        raise ProblemRaised(refusal_problem(refused, job)) from None
    return met if met is None or (isinstance(met, Answer) and not met.replayed) else replayed(met)


async def _submit_in_steps(resources: Resources, request: Request, admission: Admission) -> Answer:
    async with resources.transaction() as conn:
        if request.asked is not None:
            found = await begin(conn, request.asked)
            if found is not None:
                return found
        answer = await _enqueue(conn, resources, request, admission)
        if request.asked is not None:
            hours = resources.settings.idempotency_hours
            await store_answer(conn, request.asked, answer, hours=hours)
    return answer


async def begin(conn: AsyncConnection, asked: Asked) -> Answer | None:
    """The stored answer, or None: the key is ours. ProblemRaised where it is somebody else's."""
    found = await replay_or_begin(conn, asked)
    return None if isinstance(found, Fresh) else replayed(found)


def replayed(found: Answer | InProgress | KeyReused) -> Answer:
    """The stored answer; ProblemRaised where there is none for this request."""
    match found:
        case Answer():
            REPLAYS.inc()
            return found
        case InProgress():
            detail = "send it again unchanged"
            raise ProblemRaised(Problem(slug="idempotency-key-in-progress", detail=detail))
        case KeyReused():
            detail = "a new request needs a new key"
            raise ProblemRaised(Problem(slug="idempotency-key-reused", detail=detail))
    assert_never(found)


async def _enqueue(
    conn: AsyncConnection, resources: Resources, request: Request, admission: Admission
) -> Answer:
    checked = request.checked
    if isinstance(checked, Problem):
        raise ProblemRaised(checked)
    try:
        for no_room in (await admission.beyond(conn)).values():
            raise ProblemRaised(no_room)
        with spans().create(resources.kinds[checked.kind].queue):
            accepted = await enqueue(conn, checked)
    except EnqueueRefused as refused:
        raise ProblemRaised(refusal_problem(refused, checked)) from None
    await note_if_act(conn, resources, checked, accepted, request.approval)
    if accepted.created:
        admission.made(checked)
    return accepted_answer(checked, accepted)


def refusal_problem(refused: EnqueueRefused, job: Submit) -> Problem:
    """What the database has against a job that passed here, in the words of the others."""
    known = refused.code in UNKNOWN
    slug = REFUSALS.get(refused.field, "invalid-request") if known else "invalid-request"
    if slug in NOT_YOURS:
        return _not_yours(slug, job)
    value = job.max_attempts if refused.field == "max_attempts" else None
    return field_problem(slug, refused.field, str(refused).removeprefix("max_attempts "), value)


def accepted_view(job: Submit, accepted: Accepted) -> dict[str, Any]:
    """What SubmitAnswer describes."""
    url = job_url(accepted.job_id)
    return {
        "id": str(accepted.job_id),
        "kind": job.kind,
        "company": job.company,
        "brand": job.brand,
        "state": accepted.state,
        "created": accepted.created,
        "duplicate": accepted.duplicate,
        "input_as_of": show_instant(accepted.input_as_of),
        "status_url": url,
        "links": {"self": url, "cancel": f"{url}/cancel"},
    }


def accepted_answer(job: Submit, accepted: Accepted) -> Answer:
    """What is stored and sent: 202 with a new job, 200 with the one that does this work."""
    body = accepted_view(job, accepted)
    return Answer(
        status=202 if accepted.created else 200,
        headers={"Location": body["status_url"], "Retry-After": "1"},
        body=to_json(body).encode(),
        job_id=accepted.job_id,
    )
