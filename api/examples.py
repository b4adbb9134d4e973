"""Examples for /openapi.json: of every answer that means success, and of parameters.

By operation and status. A route may bring its own in its `responses`, but the framework leaves each
null out of those. Tests hold that none is missing, that each fits its schema and has all of its
members, and that the requests are accepted.
"""

from collections.abc import Mapping
from typing import Any

from api.alert_examples import ALERT_ANSWERS
from api.cost_examples import COST_ANSWERS, FILE_ID, RUN_ID
from api.document_examples import DOCUMENT_ANSWERS, DOCUMENT_ID
from api.example_bodies import (
    ACT,
    APPROVAL,
    BATCH,
    CANCELLED,
    CANCELLING_GROUP,
    CAUSE,
    CLOSING,
    CURSOR,
    DEAD_ID,
    DEAD_JOB,
    DEAD_MESSAGE,
    DEAD_URL,
    FREEZE,
    FROZEN,
    FULL_PERIOD,
    GROUP,
    GROUP_ID,
    JOB,
    JOB_ID,
    JOINED,
    KIND,
    LIMIT,
    LIMIT_SET,
    METHOD_DECIDED,
    METHODS,
    METRICS,
    PERIOD,
    PRINCIPAL,
    QUEUE,
    REDRIVEN_GROUP,
    REOPENED,
    SEALED_GROUP,
    SUBMITTED,
    SUMMARY,
    WHY,
    WORKER,
)
from api.file_examples import FILE_ANSWERS
from api.ledger_examples import LEDGER_ANSWERS, LEDGER_PARAMETERS
from api.migration_examples import MIGRATION_ANSWERS
from api.posting_examples import OUTCOMES

ANSWERS: Mapping[str, Mapping[str, Any]] = {
    "POST /v1/jobs": {"202": SUBMITTED, "200": JOINED},
    "POST /v1/jobs:batch": {"200": BATCH},
    "GET /v1/jobs": {"200": {"jobs": [SUMMARY], "next_cursor": CURSOR}},
    "GET /v1/jobs/{job_id}": {"200": JOB},
    "GET /v1/jobs/{job_id}/why": {"200": WHY},
    "GET /v1/jobs/{job_id}/outcomes": {"200": OUTCOMES},
    "POST /v1/jobs/{job_id}/cancel": {"200": CANCELLED},
    "POST /v1/jobs/{job_id}/redrive": {
        "202": {"id": DEAD_ID, "state": "pending", "status_url": DEAD_URL}
    },
    "POST /v1/groups": {"201": GROUP},
    "GET /v1/groups/{group_id}": {"200": SEALED_GROUP},
    "POST /v1/groups/{group_id}/jobs:batch": {"200": BATCH},
    "POST /v1/groups/{group_id}/seal": {"200": SEALED_GROUP},
    "POST /v1/groups/{group_id}/cancel": {"200": CANCELLING_GROUP},
    "POST /v1/groups/{group_id}/redrive": {"202": REDRIVEN_GROUP},
    "GET /v1/dead-letters": {
        "200": {"jobs": [DEAD_JOB], "messages": [DEAD_MESSAGE], "next_cursor": None}
    },
    "GET /v1/dead-letters/causes": {"200": {"causes": [CAUSE], "total_jobs": 1, "total_causes": 1}},
    "POST /v1/dead-letters/redrive": {
        "200": {
            "redriven": [{"id": DEAD_ID, "status_url": DEAD_URL}],
            "refused": [],
            "next_cursor": None,
        }
    },
    "GET /v1/queues": {"200": {"queues": [QUEUE]}},
    "POST /v1/queues/{queue}/pause": {
        "200": {"name": "default", "paused": True, "running": 3, "staged": 0}
    },
    "POST /v1/queues/{queue}/resume": {
        "200": {"name": "default", "paused": False, "running": 0, "staged": 2}
    },
    "PUT /v1/queues/{queue}/weights": {
        "200": {
            "name": "default",
            "weights": [{"company": "SAMPLE", "brand": "LUA", "weight": 3}],
        }
    },
    "GET /v1/kinds": {"200": {"kinds": [KIND]}},
    "POST /v1/kinds/{kind}/pause": {
        "200": {"name": "costing.run", "paused": True, "running": 2, "staged": 0}
    },
    "POST /v1/kinds/{kind}/resume": {
        "200": {"name": "costing.run", "paused": False, "running": 0, "staged": 4}
    },
    "GET /v1/freezes": {"200": {"freezes": [FREEZE]}},
    "POST /v1/books/freeze": {"200": FROZEN},
    "POST /v1/books/thaw": {"200": FROZEN | {"frozen": False, "running": 0, "staged": 4}},
    "GET /v1/periods": {"200": {"periods": [PERIOD], "next_cursor": None}},
    "GET /v1/periods/{period}": {"200": FULL_PERIOD},
    "POST /v1/periods/{period}/close": {
        "202": CLOSING,
        "200": CLOSING | {"created": False, "duplicate": "joined"},
    },
    "POST /v1/periods/{period}/reopen": {"200": REOPENED},
    **MIGRATION_ANSWERS,
    "GET /v1/limits": {"200": {"limits": [LIMIT]}},
    "PUT /v1/limits": {"200": LIMIT_SET},
    "DELETE /v1/limits": {"200": LIMIT_SET | {"max_running": None}},
    "GET /v1/costing-methods": {"200": METHODS},
    "PUT /v1/costing-methods": {"200": METHOD_DECIDED},
    **COST_ANSWERS,
    **LEDGER_ANSWERS,
    **DOCUMENT_ANSWERS,
    **FILE_ANSWERS,
    "GET /v1/workers": {"200": {"workers": [WORKER]}},
    **ALERT_ANSWERS,
    "POST /v1/approvals": {"201": APPROVAL},
    "GET /v1/audit": {"200": {"acts": [ACT], "next_cursor": None}},
    "GET /metrics": {"200": METRICS},
    "GET /healthz": {"200": {"status": "ok"}},
    "GET /readyz": {
        "200": {"status": "ready", "database": "ok", "relay": "publishing"},
        "503": {
            "status": "not ready",
            "database": "the database cannot be reached: ConnectionRefusedError",
            "relay": "failing",
        },
    },
}
PARAMETERS: Mapping[str, Any] = {
    "job_id": JOB_ID,
    "group_id": GROUP_ID,
    "group": GROUP_ID,
    "run_id": RUN_ID,
    "document_id": DOCUMENT_ID,
    "file_id": FILE_ID,
    "item": "A",
    "period": "2026-01",
    "queue": "default",
    "state": "running",
    "kind": "costing.run",
    "company": "SAMPLE",
    "brand": "LUA",
    "name": "movements.csv",
    "principal": PRINCIPAL,
    "action": "job.redrive",
    "from": "2026-02-01T00:00:00+07:00",
    "to": "2026-02-02T00:00:00+07:00",
    "limit": 50,
    "wait": 20,
    **LEDGER_PARAMETERS,
}


def add_examples(document: dict[str, Any]) -> None:
    """Put them where the document has none of its own yet."""
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            for each in operation.get("parameters", ()):
                if each["name"] in PARAMETERS and not each.keys() & {"example", "examples"}:
                    each["example"] = PARAMETERS[each["name"]]
            answers = ANSWERS.get(f"{method.upper()} {path}", {})
            for status, example in answers.items():
                for content in operation["responses"].get(status, {}).get("content", {}).values():
                    if not content.keys() & {"example", "examples"}:
                        content["example"] = example
