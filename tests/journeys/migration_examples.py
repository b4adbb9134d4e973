"""Examples of migrations, for docs/examples.md: one that is to start much later, so that it waits."""

from tests.journeys.example_step import AUTH, TYPED, Step

ASSIGN = (
    '{"kind": "migration.run", "company": "SAMPLE", "run_at": "2099-01-01T01:00:00+07:00",\n'
    '          "payload": {"task": "pools.assign", "dry_run": true,\n'
    '                      "params": {"by": "store", "valid_from": "2099-01-01"}}}'
)
MIGRATION_STEPS: tuple[Step, ...] = (
    Step(
        route="POST /v1/jobs",
        says="A migration: each store into a pool of its own, tried out, and not before that day.",
        command=f"curl \"$CHOT_API_URL/v1/jobs\" {TYPED} \\\n     -d '{ASSIGN}'",
        captures={"MIGRATION": ["id"]},
        lines=8,
    ),
    Step(
        route="GET /v1/migrations",
        says="Migrations of the company, newest first.",
        command=f'curl "$CHOT_API_URL/v1/migrations?company=SAMPLE&limit=1" {AUTH}',
        lines=14,
    ),
    Step(
        route="GET /v1/migrations/{job_id}",
        says="One with what it will do, how far it is, what it waits for and its newest batches.",
        command=f'curl "$CHOT_API_URL/v1/migrations/$MIGRATION" {AUTH}',
    ),
    Step(
        route="POST /v1/migrations/{job_id}/pause",
        says="Nobody is to go on with it; one that runs ends behind its batch.",
        command=f'curl -X POST "$CHOT_API_URL/v1/migrations/$MIGRATION/pause" {AUTH}',
    ),
    Step(
        route="POST /v1/migrations/{job_id}/resume",
        says="Let it go on from where it stands.",
        command=f'curl -X POST "$CHOT_API_URL/v1/migrations/$MIGRATION/resume" {AUTH}',
    ),
    Step(
        route="GET /v1/migrations/{job_id}/rejects",
        says="The rows that it could not take; `format=csv` is all of them as a file.",
        command=f'curl "$CHOT_API_URL/v1/migrations/$MIGRATION/rejects" {AUTH}',
    ),
    Step(
        route="POST /v1/jobs/{job_id}/cancel",
        says="It is not wanted any more.",
        command=f'curl -X POST "$CHOT_API_URL/v1/jobs/$MIGRATION/cancel" {AUTH}',
        lines=8,
    ),
)
