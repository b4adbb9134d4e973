"""Cost runs and files as they look: material of api/examples.py."""

from typing import Any

from api.example_bodies import CURSOR, JOB_ID, SUBMITTED

RUN_ID = 1042
FILE_ID = "019a8f41-0c2d-7a3b-9f10-5e6d7c8b9a01"
RUN_URL = f"/v1/cost-runs/{RUN_ID}"
CHECKSUM = "5f2c0e6f1d9b4a7c8e3f0a1b2c3d4e5f60718293a4b5c6d7e8f9012345678abc"
SUMMARY: dict[str, Any] = {
    "id": RUN_ID,
    "company": "SAMPLE",
    "brand": None,
    "of_brands": None,
    "period": "2026-01",
    "status": "active",
    "dry_run": False,
    "method": "periodic_avg",
    "pool_policy": "map",
    "residue_policy": "cumulative",
    "negative": "forbid",
    "scope": None,
    "items": {"total": 20_000, "costed": 19_998, "failed": 2, "speaking": None, "stale": None},
    "movements": 1_000_000,
    "created_at": "2026-02-01T01:00:02.218540Z",
    "activated_at": "2026-02-01T01:00:41.901377Z",
    "links": {
        "self": RUN_URL,
        "job": f"/v1/jobs/{JOB_ID}",
        "results": f"{RUN_URL}/results",
        "errors": f"{RUN_URL}/errors",
        "exports": f"{RUN_URL}/exports",
    },
}


def _check(name: str, says: str) -> dict[str, Any]:
    return {"id": name, "says": says, "checked": 61_204, "broken": 0}


RUN = SUMMARY | {
    "items": {"total": 20_000, "costed": 19_998, "failed": 2, "speaking": 20_000, "stale": 0},
    "starts_on": "2026-01-01",
    "ends_on": "2026-01-31",
    "previous_period": "2025-12",
    "currency": "VND",
    "proof": {
        "totals": {
            "opening": "12500000000",
            "receipt": "9800000000",
            "gain": "1200000",
            "sales_return": "35000000",
            "transfer_in": "2100000000",
            "issue": "10150000000",
            "usage": "84000000",
            "purchase_return": "61000000",
            "transfer_out": "2100000000",
            "rounding": "0",
            "true_up": "0",
            "closing": "12041200000",
            "variance": "450000",
        },
        "checks": [
            _check("I1", "opening + in = out + closing, in value"),
            _check("I2", "opening + in = out + closing, in quantity"),
            _check("I3", "what pools sent is what pools got, by item"),
            _check("I4", "no quantity is left: no value is"),
            _check("totals", "the totals stored at activation are those of today"),
        ],
        "checksum": CHECKSUM,
        "snapshot": "7714:7719:7715",
        "code_version": "2026.2.1",
        "rounds": 0,
        "parts": None,
    },
}


def _amount(qty: str, value: str) -> dict[str, str]:
    return {"qty": qty, "value": value}


NOTHING = _amount("0", "0")
RESULT: dict[str, Any] = {
    "run_id": RUN_ID,
    "brand": "LUA",
    "pool": "LUA",
    "item": "SP-00017",
    "name": "Áo sơ mi trắng",
    "unit": "cái",
    "opening": _amount("10", "1000000"),
    "in": {
        "receipt": _amount("20", "2090000"),
        "gain": NOTHING,
        "sales_return": NOTHING,
        "transfer_in": NOTHING,
        "total": _amount("20", "2090000"),
    },
    "out": {
        "issue": _amount("12", "1236000"),
        "usage": NOTHING,
        "purchase_return": NOTHING,
        "transfer_out": NOTHING,
        "rounding": "0",
        "true_up": "0",
        "total": _amount("12", "1236000"),
    },
    "closing": _amount("18", "1854000"),
    "variance": "0",
    "unit_price": {"num": "103000", "den": "1", "shown": "103000.00"},
    "method": "periodic_avg",
    "scc_size": 1,
    "pushes": 0,
    "negative_within_period": False,
    "speaks": True,
    "stale": False,
}
PLACE = {"company": "SAMPLE", "period": "2026-01"}
RESULTS: dict[str, Any] = PLACE | {"currency_digits": 0, "results": [RESULT], "next_cursor": CURSOR}
COSTS = RESULTS | {"items": {"total": 20_000, "failed": 2, "stale": 0, "late": 0}}
ERROR: dict[str, Any] = {
    "brand": "LUA",
    "item": "SP-00023",
    "name": "Quần âu",
    "pool": "LUA",
    "code": "NEGATIVE_STOCK",
    "detail": "more goes out than the opening stock and the receipts of the period hold",
    "movements": [
        {
            "id": 918_273,
            "date": "2026-01-19",
            "kind": "issue",
            "store": "LUA-03",
            "to_store": None,
            "document": "PX-0119-22",
            "line": 4,
            "qty": "3",
            "value": None,
            "lot": None,
            "refers_to": None,
            "reverses": None,
        }
    ],
}
SUMS = {"account": "632", "before": "10149100000", "after": "10150000000", "difference": "900000"}
DIFFERENCE = {
    "item": "SP-00017",
    "name": "Áo sơ mi trắng",
    "brand": "LUA",
    "account": "632",
    "before": "1230000",
    "after": "1236000",
    "difference": "6000",
}
EXPORT = SUBMITTED | {"kind": "costing.export", "brand": None}
COST_ANSWERS: dict[str, dict[str, Any]] = {
    "GET /v1/cost-runs": {"200": {"runs": [SUMMARY], "next_cursor": None}},
    "GET /v1/cost-runs/{run_id}": {"200": RUN},
    "GET /v1/cost-runs/{run_id}/results": {"200": RESULTS},
    "GET /v1/cost-runs/{run_id}/errors": {"200": {"errors": [ERROR], "next_cursor": None}},
    "GET /v1/cost-runs/{run_id}/differences": {
        "200": {"accounts": [SUMS], "differences": [DIFFERENCE], "next_cursor": None}
    },
    "POST /v1/cost-runs/{run_id}/exports": {
        "202": EXPORT,
        "200": EXPORT | {"created": False, "duplicate": "joined"},
    },
    "GET /v1/costs": {"200": COSTS},
}
