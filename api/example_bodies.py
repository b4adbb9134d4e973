"""Answers as they look: the material of api/examples.py."""

from typing import Any

JOB_ID = "019a8f3e-5b7c-7d21-9e4a-3c5d6e7f8091"
DEAD_ID = "019a8f3e-1a2b-7c3d-8e4f-5a6b7c8d9e0f"
PRINCIPAL = "closing-desk"
URL = f"/v1/jobs/{JOB_ID}"
DEAD_URL = f"/v1/jobs/{DEAD_ID}"
CURSOR = "MDE5YThmM2UtNWI3Yy03ZDIxLTllNGEtM2M1ZDZlN2Y4MDkx"
ERROR = {"type": "PermanentError", "message": "period 2026-01 is closed", "code": "CL001"}

SUBMITTED = {
    "id": JOB_ID,
    "kind": "costing.run",
    "company": "SAMPLE",
    "brand": "LUA",
    "state": "pending",
    "created": True,
    "duplicate": None,
    "input_as_of": None,
    "status_url": URL,
    "links": {"self": URL, "cancel": f"{URL}/cancel"},
}
JOINED = SUBMITTED | {
    "state": "running",
    "created": False,
    "duplicate": "joined",
    "input_as_of": "2026-02-01T01:00:02.218540Z",
}
ATTEMPT = {
    "attempt": 1,
    "fence": 1,
    "worker_id": "ip-10-0-3-17-1-9f2c",
    "code_version": "2026.2.1",
    "started_at": "2026-02-01T01:00:02.218540Z",
    "ended_at": None,
    "outcome": None,
    "error": None,
}
SUMMARY = {
    "id": JOB_ID,
    "kind": "costing.run",
    "company": "SAMPLE",
    "brand": "LUA",
    "queue": "default",
    "state": "running",
    "priority": 5,
    "attempt": 1,
    "max_attempts": 5,
    "lost_leases": 0,
    "interruptions": 0,
    "fence": 1,
    "progress": {
        "done": 12000,
        "total": 48000,
        "unit": "movements",
        "message": "pool LUA-1",
        "rate": 1500.0,
        "moved_at": "2026-02-01T01:00:10.442101Z",
        "eta": "2026-02-01T01:00:34.442101Z",
    },
    "error": None,
    "blocked_by": None,
    "cleanup_pending": False,
    "payload_version": 1,
    "principal": PRINCIPAL,
    "approver": None,
    "created_at": "2026-02-01T01:00:01.901377Z",
    "available_at": "2026-02-01T01:00:01.901377Z",
    "started_at": "2026-02-01T01:00:02.218540Z",
    "finished_at": None,
    "redriven": None,
    "group": None,
    "joins": None,
    "links": {"self": URL, "cancel": f"{URL}/cancel"},
}
JOB = SUMMARY | {"locks": [], "result": None, "attempts": [ATTEMPT]}
CANCELLED = JOB | {
    "state": "cancelled",
    "finished_at": "2026-02-01T01:00:11.006213Z",
    "links": {"self": URL},
    "attempts": [
        ATTEMPT | {"ended_at": "2026-02-01T01:00:11.006213Z", "outcome": "cancelled"},
    ],
}
GROUP_ID = "019a8f3e-9c0d-7e1f-8a2b-3c4d5e6f7a8b"
GROUP_URL = f"/v1/groups/{GROUP_ID}"
GROUP: dict[str, Any] = {
    "id": GROUP_ID,
    "company": "SAMPLE",
    "brand": None,
    "state": "open",
    "policy": "finish",
    "outcome": None,
    "generation": 1,
    "total": 0,
    "remaining": 0,
    "succeeded": 0,
    "dead": 0,
    "cancelled": 0,
    "join": {"id": JOB_ID, "state": "pending", "status_url": URL},
    "principal": PRINCIPAL,
    "opened_at": "2026-02-01T01:00:00.118002Z",
    "sealed_at": None,
    "ended_at": None,
    "links": {
        "self": GROUP_URL,
        "jobs": f"/v1/jobs?group={GROUP_ID}",
        "append": f"{GROUP_URL}/jobs:batch",
        "seal": f"{GROUP_URL}/seal",
        "cancel": f"{GROUP_URL}/cancel",
    },
}
GROUP_LINKS = {"self": GROUP_URL, "jobs": f"/v1/jobs?group={GROUP_ID}"}
SEALED_GROUP = GROUP | {
    "state": "sealed",
    "total": 40,
    "remaining": 28,
    "succeeded": 12,
    "sealed_at": "2026-02-01T01:00:03.552810Z",
    "links": GROUP_LINKS | {"cancel": f"{GROUP_URL}/cancel"},
}
CANCELLING_GROUP = SEALED_GROUP | {
    "state": "cancelling",
    "outcome": "cancelled",
    "links": GROUP_LINKS,
}
REDRIVEN_GROUP = SEALED_GROUP | {"generation": 2, "remaining": 3, "succeeded": 37}
DEAD_JOB = {
    "id": DEAD_ID,
    "kind": "costing.run",
    "company": "SAMPLE",
    "brand": "LUA",
    "attempt": 1,
    "lost_leases": 0,
    "lost_all_leases": False,
    "finished_at": "2026-02-01T01:00:04.118002Z",
    "error": ERROR,
    "links": {"self": DEAD_URL, "redrive": f"{DEAD_URL}/redrive"},
}
CAUSE = {
    "cause": "5a1f0c9de2b37846",
    "kind": "costing.run",
    "code": ERROR["code"],
    "type": ERROR["type"],
    "message": "period # is closed",
    "jobs": 1,
    "lost_all_leases": 0,
    "first_at": DEAD_JOB["finished_at"],
    "last_at": DEAD_JOB["finished_at"],
    "example": {name: DEAD_JOB[name] for name in ("id", "company", "brand", "error", "links")},
}
DEAD_MESSAGE = {
    "id": 7,
    "queue": "default",
    "message_id": "5fea7756-0ea4-451a-a703-a558b933e274",
    "reason": "no JSON object",
    "receive_count": 1,
    "created_at": "2026-02-01T00:12:45.000000Z",
    "body": "hello",
    "body_encoding": "text",
    "body_bytes": 5,
    "attributes": {},
}
QUEUE = {
    "name": "default",
    "paused": False,
    "pending": 3,
    "due": 2,
    "running": 1,
    "dead": 1,
    "oldest_due_seconds": 0.734,
    "alone_worker": None,
    "weights": [{"company": "SAMPLE", "brand": "LUA", "weight": 3}],
}
KIND = {
    "name": "costing.run",
    "queue": "costing",
    "paused": False,
    "payload_version": 1,
    "on_duplicate": "merge",
    "max_attempts": 5,
    "timeout_seconds": 3600.0,
    "max_running": None,
    "internal": False,
    "made_by": None,
    "approval": None,
    "running": 2,
}
FREEZE = {
    "company": "SAMPLE",
    "brand": "LUA",
    "reason": "closing January",
    "principal": "head-accountant",
    "frozen_at": "2026-02-01T01:00:04.118002Z",
}
FROZEN = {"company": "SAMPLE", "brand": "LUA", "frozen": True, "running": 1, "staged": 0}
LIMIT = {
    "kind": "costing.run",
    "company": "SAMPLE",
    "brand": "LUA",
    "max_running": 2,
    "running": 1,
    "principal": "head-accountant",
    "set_at": "2026-02-01T01:00:04.118002Z",
}
LIMIT_SET = {name: LIMIT[name] for name in ("kind", "company", "brand", "max_running")}
METHOD_DECIDED = {
    "company": "SAMPLE",
    "item": "LUA0001",
    "method": "fifo",
    "former": "periodic_avg",
    "valid_from": "2027-01-01",
    "changed": True,
}
METHODS = {
    "company": "SAMPLE",
    "item": "LUA0001",
    "initial": "periodic_avg",
    "decisions": [
        {
            "valid_from": "2027-01-01",
            "method": "fifo",
            "mid_year": False,
            "reason": None,
            "decided_by": "head-accountant",
            "decided_at": "2026-12-20T01:00:04.118002Z",
        }
    ],
}
WORKER = {
    "worker_id": ATTEMPT["worker_id"],
    "host": "ip-10-0-3-17",
    "pid": 1,
    "state": "working",
    "live": True,
    "code_version": "2026.2.1",
    "started_at": "2026-02-01T00:00:00.000000Z",
    "seen_at": "2026-02-01T01:00:10.000000Z",
    "kinds": {"costing.run": 1},
    "queues": [{"queue": "default", "slots": 4, "free_slots": 3}],
    "running": [
        {
            "job_id": JOB_ID,
            "kind": "costing.run",
            "attempt": 1,
            "started_at": ATTEMPT["started_at"],
        }
    ],
}
APPROVAL_ID = "5f0c8a7e-3f65-4c53-9b1e-0d1f6a4b7c21"
APPROVAL = {
    "id": APPROVAL_ID,
    "action": "job.redrive",
    "target": DEAD_ID,
    "approver": "head-accountant",
    "reason": "the supplier's file is repaired",
    "expires_at": "2026-02-01T02:04:30.551290Z",
}
ACT: dict[str, Any] = {
    "id": "4711",
    "at": "2026-02-01T01:05:12.880104Z",
    "action": "job.redrive",
    "principal": PRINCIPAL,
    "key_id": "3f9a1c0b7d52",
    "source": "10.0.7.21",
    "request_id": "b1f0c9f4-6a58-4d0c-8f6a-4f0b7f2f7a11",
    "job_id": DEAD_ID,
    "target": None,
    "company": "SAMPLE",
    "brand": "LUA",
    "approver": "head-accountant",
    "approval_id": APPROVAL_ID,
    "facts": {},
}
WHY = {
    "id": JOB_ID,
    "kind": "costing.run",
    "queue": "costing",
    "state": "pending",
    "reason": "window-full",
    "sentence": "The window of queue costing is full (24 of 24 messages out for 8 slots), and the "
    "job waits for its turn behind 3 of its kind, brand and priority; more workers, or a higher "
    "priority, make it sooner.",
    "as_of": "2026-02-01T01:00:10.218540Z",
    "attempt": 0,
    "max_attempts": 5,
    "available_at": "2026-02-01T01:00:01.901377Z",
    "error": None,
    "cleanup_pending": False,
    "queue_paused": False,
    "workers": {
        "live": 2,
        "know_kind": 2,
        "know_version": 2,
        "working": 2,
        "slots": 8,
        "free_slots": 0,
    },
    "turn": {
        "message": "staged",
        "window_size": 24,
        "window_used": 24,
        "ahead": 3,
        "ahead_higher": 0,
    },
    "running_of_kind": None,
    "max_running": None,
    "limit": None,
    "freeze": None,
    "lock": None,
    "owner": None,
    "redrive": None,
}
METRICS = """# HELP chot_jobs Jobs in a state that is left
# TYPE chot_jobs gauge
chot_jobs{kind="costing.run",state="pending"} 3.0
"""
UNKNOWN_BRAND = {
    "type": "https://chot.example/problems/unknown-brand",
    "title": "The brand is no brand of this company",
    "status": 422,
    "detail": "jobs[2].brand: is no brand of this company that this account may submit for",
    "errors": [
        {
            "field": "jobs[2].brand",
            "rule": "is no brand of this company that this account may submit for",
            "value": "XANH",
        }
    ],
}
BATCH = {
    "created": 1,
    "duplicates": 1,
    "errors": 1,
    "jobs": [
        {"outcome": "created", "job": SUBMITTED},
        {"outcome": "duplicate", "job": JOINED},
        {"outcome": "error", "error": UNKNOWN_BRAND},
    ],
}

PERIOD_EVENT = {
    "at": "2026-02-03T09:12:44.870114Z",
    "event": "closed",
    "requester": "closing-desk",
    "approver": "head-accountant",
    "job_id": JOB_ID,
    "status_url": URL,
    "reason": "month end of January",
}
PERIOD_LINK = "/v1/periods/2026-01"
PERIOD = {
    "company": "SAMPLE",
    "period": "2026-01",
    "starts_on": "2026-01-01",
    "ends_on": "2026-01-31",
    "status": "closed",
    "version": 3,
    "results": {"total": 3120, "failed": 0, "stale": 0, "late": 0, "runs": ["41"]},
    "last_event": PERIOD_EVENT,
    "links": {
        "self": f"{PERIOD_LINK}?company=SAMPLE",
        "reopen": f"{PERIOD_LINK}/reopen",
    },
}
AFFECTED = {
    "period": "2026-02",
    "status": "open",
    "results": 3120,
    "stale": 0,
    "items_total": 1560,
    "items": ["I00001", "I00002"],
    "runs": ["44"],
}
PERIOD_FACTS = {"results": 3120, "runs_total": 1, "runs": [41]}
FULL_PERIOD = PERIOD | {
    "events": [PERIOD_EVENT | {"facts": PERIOD_FACTS}],
    "reopening": {"later_closed": [], "affects": [AFFECTED]},
}
REOPENED = PERIOD | {
    "status": "open",
    "version": 4,
    "last_event": PERIOD_EVENT
    | {
        "event": "reopened",
        "job_id": None,
        "status_url": None,
        "reason": "a supplier's invoice of January came late",
    },
    "links": {"self": f"{PERIOD_LINK}?company=SAMPLE", "close": f"{PERIOD_LINK}/close"},
    "affects": [AFFECTED],
}
CLOSING = SUBMITTED | {"kind": "period.close", "brand": None}
