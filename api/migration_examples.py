"""Examples of answers about migrations."""

from typing import Any

from api.example_bodies import JOB_ID

_OWN = f"/v1/migrations/{JOB_ID}"
MIGRATION: dict[str, Any] = {
    "id": JOB_ID,
    "company": "SAMPLE",
    "brand": None,
    "principal": "ops",
    "task": "movements.backfill",
    "version": 1,
    "params": {"date_from": "2026-01-01", "date_to": "2026-01-31"},
    "dry_run": False,
    "state": "running",
    "paused": False,
    "paused_at": None,
    "phase": "running",
    "rows_total": 240_000,
    "rows_done": 96_000,
    "rows_failed": 2,
    "counts": {"created": 95_998},
    "batches": 41,
    "failed_tries": 11,
    "batch_size": 2_985,
    "last_batch_ms": 1_871,
    "efficiency": 0.936,
    "waits_for": None,
    "throttles": 1,
    "throttled_at": "2026-02-02T14:03:11.204913Z",
    "progress": {
        "done": 96_000,
        "total": 240_000,
        "unit": "rows",
        "message": "batches of 2985, 2 rows set aside",
        "rate": 1_504.2,
        "moved_at": "2026-02-02T14:05:40.117240Z",
        "eta": "2026-02-02T14:07:16Z",
    },
    "check_before": {"facts": {"lines": 240_000, "movements": 0}, "problems": []},
    "check_after": None,
    "error": None,
    "created_at": "2026-02-02T14:02:31.552078Z",
    "started_at": "2026-02-02T14:02:31.903412Z",
    "updated_at": "2026-02-02T14:05:40.117240Z",
    "finished_at": None,
    "links": {
        "self": _OWN,
        "job": f"/v1/jobs/{JOB_ID}",
        "rejects": f"{_OWN}/rejects",
        "pause": f"{_OWN}/pause",
        "resume": f"{_OWN}/resume",
    },
}
FULL_MIGRATION: dict[str, Any] = MIGRATION | {
    "cursor": ["48211", "2"],
    "upper_bound": ["120044", "4"],
    "recent_batches": [
        {
            "number": 52,
            "size": 2_985,
            "rows": 2_985,
            "ms": 1_871,
            "outcome": "ok",
            "key_from": ["46718", "1"],
            "key_to": ["48211", "2"],
            "error": None,
            "at": "2026-02-02T14:05:40.117240Z",
        }
    ],
}
REJECT: dict[str, Any] = {
    "seq": 1,
    "line": None,
    "key": ["31877", "1"],
    "field": None,
    "value": None,
    "code": "CH102",
    "rule": "PERIOD_CLOSED: period 2025-12 of company SAMPLE is closed",
}
PAUSED: dict[str, Any] = {"id": JOB_ID, "state": "pending", "paused": True}
MIGRATION_ANSWERS: dict[str, dict[str, Any]] = {
    "GET /v1/migrations": {"200": {"migrations": [MIGRATION], "next_cursor": None}},
    "GET /v1/migrations/{job_id}": {"200": FULL_MIGRATION},
    "GET /v1/migrations/{job_id}/rejects": {"200": {"rejects": [REJECT], "next_cursor": None}},
    "POST /v1/migrations/{job_id}/pause": {"200": PAUSED},
    "POST /v1/migrations/{job_id}/resume": {"200": PAUSED | {"paused": False}},
}
