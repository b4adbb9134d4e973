"""Examples of cost runs and files, for docs/examples.md: what January's costing found, and a file of it."""

from tests.journeys.example_step import AUTH, TYPED, Step

PREVIEW = (
    '{"kind": "costing.preview", "company": "SAMPLE", "brand": "LUA",\n'
    '          "payload": {"period": "2026-01", "pool": "store"}}'
)
COST_STEPS: tuple[Step, ...] = (
    Step(
        route="GET /v1/cost-runs",
        says="Which cost runs there are, newest first.",
        command=f'curl "$CHOT_API_URL/v1/cost-runs?company=SAMPLE&period=2026-01" {AUTH}',
        captures={"RUN": ["runs", 0, "id"]},
    ),
    Step(
        route="GET /v1/cost-runs/{run_id}",
        says="One of them, with its proof: added up again from its rows.",
        command=f'curl "$CHOT_API_URL/v1/cost-runs/$RUN" {AUTH}',
        lines=110,
    ),
    Step(
        route="GET /v1/cost-runs/{run_id}/results",
        says="What it found: opening + in = out + closing, and the exact price.",
        command=f'curl "$CHOT_API_URL/v1/cost-runs/$RUN/results?limit=1&digits=4" {AUTH}',
        captures={"ITEM": ["results", 0, "item"]},
        lines=90,
    ),
    Step(
        route="GET /v1/cost-runs/{run_id}/errors",
        says="What it could not cost, with the documents that cause it.",
        command=f'curl "$CHOT_API_URL/v1/cost-runs/$RUN/errors?limit=1" {AUTH}',
    ),
    Step(
        route="GET /v1/costs",
        says="What holds for the period now, whichever run found it.",
        command=f'curl "$CHOT_API_URL/v1/costs?company=SAMPLE&period=2026-01&item=$ITEM&limit=1" {AUTH}',
        lines=12,
    ),
    Step(
        route="POST /v1/jobs",
        says="What would become of it with a pool a store? A preview publishes nothing.",
        command=f"curl \"$CHOT_API_URL/v1/jobs\" {TYPED} \\\n     -d '{PREVIEW}'",
        captures={"PREVIEW": ["id"]},
        lines=8,
    ),
    Step(
        route="GET /v1/jobs/{job_id}",
        says="Wait for its end.",
        command=f'curl "$CHOT_API_URL/v1/jobs/$PREVIEW?wait=20" {AUTH}',
        until=("PREVIEW", "state", "succeeded"),
        captures={"TRIED": ["result", "run_id"]},
        lines=8,
    ),
    Step(
        route="GET /v1/cost-runs/{run_id}/differences",
        says="What it would change, by account and by item.",
        command=f'curl "$CHOT_API_URL/v1/cost-runs/$TRIED/differences?limit=2" {AUTH}',
    ),
    Step(
        route="POST /v1/cost-runs/{run_id}/exports",
        says="The results as a file.",
        command=(
            f'curl "$CHOT_API_URL/v1/cost-runs/$RUN/exports" {TYPED} \\\n'
            '     -d \'{"table": "results", "format": "csv"}\''
        ),
        captures={"EXPORT": ["id"]},
    ),
    Step(
        route="GET /v1/jobs/{job_id}",
        says="Its job tells where the file is.",
        command=f'curl "$CHOT_API_URL/v1/jobs/$EXPORT?wait=20" {AUTH}',
        until=("EXPORT", "state", "succeeded"),
        captures={"FILE": ["result", "file", "id"]},
        lines=60,
    ),
    Step(
        route="HEAD /v1/files/{file_id}",
        says="How large it is.",
        command=f'curl -I "$CHOT_API_URL/v1/files/$FILE" {AUTH}',
    ),
    Step(
        route="GET /v1/files/{file_id}",
        says="The file itself.",
        command=f'curl "$CHOT_API_URL/v1/files/$FILE" {AUTH}',
        lines=3,
    ),
)
