"""Which tasks a submitter may ask for: one that changes what others have made asks for operate."""

import json

from api.authentication import Caller
from api.problems import Problem, ProblemRaised
from shared.access import Role
from shared.jobs.enqueue import Submit
from shared.kinds.migration import MIGRATION_RUN
from shared.migrations.registry import known_tasks


def refuse_operating_task(job: Submit, who: Caller) -> None:
    """ProblemRaised for a migration whose task asks for role operate, of an account without it."""
    if job.kind != MIGRATION_RUN.name or who.has(Role.OPERATE):
        return
    payload = json.loads(job.payload) if isinstance(job.payload, str) else job.payload
    spec = known_tasks()[payload["task"]]
    if spec.operates:
        more = {"role": Role.OPERATE.value, "route": "POST /v1/jobs"}
        detail = f"POST /v1/jobs with task {spec.name} of migration.run asks for role operate"
        raise ProblemRaised(Problem(slug="forbidden", detail=detail, more=more))
