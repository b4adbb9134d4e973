"""Examples of groups, for docs/examples.md: one group from its opening to its redrive."""

from tests.journeys.example_step import AUTH, TYPED, Step

OPEN = f"""curl "$CHOT_API_URL/v1/groups" {TYPED} \\
     -d '{{"company": "SAMPLE", "policy": "finish",
          "join": {{"kind": "costing.run", "payload": {{"period": "2026-03"}}}}}}'"""
APPEND = f"""curl "$CHOT_API_URL/v1/groups/$GROUP/jobs:batch" {TYPED} \\
     -H 'Idempotency-Key: "stocktaking, part 1"' \\
     -d '{{"jobs": [
           {{"kind": "costing.run", "company": "SAMPLE", "brand": "LUA", "payload": {{"period": "2026-04"}},
            "run_at": "2199-01-01T02:00:00+07:00"}},
           {{"kind": "costing.run", "company": "SAMPLE", "brand": "NHA", "payload": {{"period": "2026-04"}},
            "run_at": "2199-01-01T02:00:00+07:00"}}]}}'"""
GROUP_STEPS: tuple[Step, ...] = (
    Step(
        route="POST /v1/groups",
        says="Open a group: many jobs, and one that starts when all of them have ended.",
        command=OPEN,
        captures={"GROUP": ["id"], "JOIN": ["join", "id"]},
    ),
    Step(
        route="POST /v1/groups/{group_id}/jobs:batch",
        says="Append to it, a thousand at a time, as often as needed; these two wait for a night to come.",
        command=APPEND,
        lines=24,
    ),
    Step(
        route="POST /v1/groups/{group_id}/seal",
        says="That is all of them.",
        command=f'curl -X POST "$CHOT_API_URL/v1/groups/$GROUP/seal" {AUTH}',
    ),
    Step(
        route="GET /v1/groups/{group_id}",
        says="How far it is as a whole.",
        command=f'curl "$CHOT_API_URL/v1/groups/$GROUP" {AUTH}',
    ),
    Step(
        route="POST /v1/groups/{group_id}/cancel",
        says="End it: no member starts any more, those that are active are cancelled in a moment.",
        command=f'curl -X POST "$CHOT_API_URL/v1/groups/$GROUP/cancel" {AUTH}',
    ),
    Step(
        route="POST /v1/groups/{group_id}/redrive",
        says="After all: a new generation of what did not succeed, and a new join.",
        command=f'curl -X POST "$CHOT_API_URL/v1/groups/$GROUP/redrive" {AUTH}',
        until=("JOIN", "state", "cancelled"),
    ),
)
