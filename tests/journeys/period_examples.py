"""Examples of periods, for docs/examples.md: January is costed for all brands, closed and reopened."""

from tests.journeys.example_step import AUTH, TYPED, Step

JANUARY = '{"kind": "costing.run", "company": "SAMPLE", "payload": {"period": "2026-01"}}'
PERIOD_STEPS: tuple[Step, ...] = (
    Step(
        route="POST /v1/jobs",
        says="Cost January for all brands: a period is closed with sound costs only.",
        command=f"curl \"$CHOT_API_URL/v1/jobs\" {TYPED} \\\n     -d '{JANUARY}'",
        captures={"ALL": ["id"]},
        lines=8,
    ),
    Step(
        route="POST /v1/periods/{period}/close",
        says="Close it. A job does that, or ends dead and says what is missing.",
        command=(
            f'curl "$CHOT_API_URL/v1/periods/2026-01/close" {TYPED} \\\n'
            '     -d \'{"company": "SAMPLE", "reason": "month end of January"}\''
        ),
        captures={"CLOSE": ["id"]},
        until=("ALL", "state", "succeeded"),
    ),
    Step(
        route="GET /v1/periods/{period}",
        says="The period with what became of it: who asked, who approved, which job did it.",
        command=f'curl "$CHOT_API_URL/v1/periods/2026-01?company=SAMPLE" {AUTH}',
        until=("CLOSE", "state", "succeeded"),
        lines=80,
    ),
    Step(
        route="POST /v1/periods/{period}/reopen",
        says="Open it again. `affects` has the later periods that were built on it; here there is none.",
        command=(
            f'curl "$CHOT_API_URL/v1/periods/2026-01/reopen" {TYPED} \\\n'
            '     -d \'{"company": "SAMPLE", "reason": "an invoice came late"}\''
        ),
    ),
    Step(
        route="GET /v1/periods",
        says="The periods of the company, and how the costs of each stand.",
        command=f'curl "$CHOT_API_URL/v1/periods?company=SAMPLE" {AUTH}',
    ),
)
