"""Examples of alerts in the description."""

from typing import Any

ALERT: dict[str, Any] = {
    "incident": "0d1c6a52-3f0e-4a55-9a3e-0c4e55f3a001",
    "rule": "no_worker_for_kind",
    "subject": "kind=posting.post",
    "severity": "critical",
    "value": 212.0,
    "comparison": ">",
    "threshold": 0.0,
    "summary": "due jobs of a kind that no live worker runs",
    "remedy": "Start a worker that serves the kind and its queue; `chot workers` shows who lives, "
    "`chot why ID` what a job of it waits for.",
    "runbook": "docs/runbook.md#no_worker_for_kind",
    "since": "2026-01-31T15:58:12.300518Z",
    "fired_at": "2026-01-31T16:03:12.881422Z",
    "resolved_at": None,
    "silenced_until": None,
    "silenced_by": None,
    "silenced_because": None,
    "undelivered": 0,
}
CHANNEL: dict[str, Any] = {
    "channel": "webhook",
    "delivered_at": "2026-01-31T16:03:13.017303Z",
    "failed_at": None,
    "last_error": None,
    "waiting": 0,
}
ALERT_ANSWERS: dict[str, dict[str, Any]] = {
    "GET /v1/alerts": {
        "200": {"alerts": [ALERT], "channels": [CHANNEL], "looked_seconds": 6.2},
    },
    "POST /v1/alerts/silence": {
        "200": {
            "rule": "dead_jobs",
            "until": "2026-02-01T05:04:30.551290Z",
            "principal": "night-shift",
            "reason": "redriven tomorrow, ticket 4711",
        }
    },
}
