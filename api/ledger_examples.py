"""The ledger as it looks: material of api/examples.py."""

from typing import Any

from api.example_bodies import CURSOR, JOB_ID, SUBMITTED

ENTRY_ID = 5017
URL = f"/v1/ledger/entries/{ENTRY_ID}"
HASH = "9b74c9897bac770ffc029102a200c5de4f1d7c8b6a59e3f2d1c0b9a897867564"
ACCOUNT: dict[str, Any] = {
    "code": "1561",
    "name": "Merchandise at purchase price",
    "name_vi": "Giá mua hàng hóa",
    "kind": "asset",
    "postable": True,
    "needs_party": False,
    "needs_store": True,
    "needs_item": True,
    "is_stock": True,
    "active_from": None,
    "active_to": None,
}
RULE: dict[str, Any] = {
    "type": "transfer",
    "version": 1,
    "valid_from": "1900-01-01",
    "series": "NKC",
    "rest": "largest_line",
    "memo": None,
    "shared": True,
    "lines": [
        {
            "per": "line",
            "amount": "net",
            "side": "debit",
            "role": "stock",
            "own_account": True,
            "store": "to_store",
        },
        {
            "per": "line",
            "amount": "net",
            "side": "credit",
            "role": "stock",
            "own_account": True,
            "store": "store",
        },
    ],
}
SUMMARY: dict[str, Any] = {
    "id": ENTRY_ID,
    "company": "SAMPLE",
    "series": "NKC",
    "fiscal_year": 2026,
    "entry_no": 412,
    "posting_date": "2026-01-07",
    "role": "main",
    "kind": "normal",
    "brand": "LUA",
    "document_id": 8121,
    "document_version": 1,
    "type": "sale",
    "doc_no": "BH-000412",
    "memo": None,
    "amount": "165000",
    "lines": 2,
    "rule_version": 1,
    "reverses": None,
    "reversed_by": None,
    "hash": HASH,
    "job_id": JOB_ID,
    "status_url": f"/v1/jobs/{JOB_ID}",
    "created_at": "2026-02-01T01:00:41.901377Z",
    "links": {"self": URL, "chain": f"{URL}/chain"},
}


def _line(number: int, account: str, name: str, **more: str) -> dict[str, Any]:
    return {
        "line_no": number,
        "account": account,
        "name": name,
        "debit": "0",
        "credit": "0",
        "party": None,
        "store": "L01",
        "item": None,
        "qty": None,
        "unit": None,
        "brand": "LUA",
        "currency": None,
        "fc_amount": None,
        "memo": None,
    } | more


ENTRY = SUMMARY | {
    "entry_lines": [
        _line(1, "131", "Receivables from customers", debit="165000", party="KH0042"),
        _line(2, "5111", "Revenue from merchandise", credit="165000"),
    ]
}
PLACE = {"company": "SAMPLE", "date_from": "2026-01-01", "date_to": "2026-01-31"}
SUMS = {
    "opening_debit": "12500000",
    "opening_credit": "0",
    "debit": "9800000",
    "credit": "8150000",
    "closing_debit": "14150000",
    "closing_credit": "0",
}
BALANCE: dict[str, Any] = PLACE | {
    "balanced": True,
    "totals": {
        "opening_debit": "52500000",
        "opening_credit": "52500000",
        "debit": "31800000",
        "credit": "31800000",
        "closing_debit": "61150000",
        "closing_credit": "61150000",
    },
    "accounts": [
        {name: ACCOUNT[name] for name in ("name", "name_vi", "kind")} | {"account": "1561"} | SUMS
    ],
}
MOVED: dict[str, Any] = {
    "date": "2026-01-07",
    "entry_id": ENTRY_ID,
    "entry_no": 412,
    "series": "NKC",
    "kind": "normal",
    "document_id": 8121,
    "type": "sale",
    "doc_no": "BH-000412",
    "line_no": 1,
    "account": "131",
    "debit": "165000",
    "credit": "0",
    "party": "KH0042",
    "store": "L01",
    "item": None,
    "brand": "LUA",
    "memo": None,
}
LEDGER: dict[str, Any] = PLACE | {
    "account": "131",
    "opening": "0",
    "debit": "165000",
    "credit": "0",
    "closing": "165000",
    "lines": [MOVED | {"contra": ["5111"], "balance": "165000"}],
    "next_cursor": CURSOR,
}
CHAIN: dict[str, Any] = {
    "company": "SAMPLE",
    "series": "NKC",
    "fiscal_year": 2026,
    "last_no": 20_418,
    "ok": True,
    "links_checked": [{"entry_no": 412, "entry_id": ENTRY_ID, "hash": HASH, "broken": None}],
    "next_from": 413,
}
CONTROL: dict[str, Any] = {
    "company": "SAMPLE",
    "period": "2026-01",
    "chart": True,
    "agrees": False,
    "value": "1840250000",
    "ledger": "1840350000",
    "pools": 7412,
    "differing": 1,
    "differences": [
        {
            "item": "AO-000017",
            "brand": "LUA",
            "pool": "LUA",
            "value": "912000",
            "ledger": "1012000",
            "difference": "100000",
            "stores": ["LUA-03"],
            "reasons": [
                {
                    "what": "document",
                    "doc_no": "PN-000871",
                    "type": "purchase",
                    "expected": "500000",
                    "booked": "600000",
                }
            ],
        }
    ],
    "drafts": 0,
    "first_drafts": [],
}
LEDGER_ANSWERS: dict[str, dict[str, Any]] = {
    "POST /v1/ledger/chart": {"200": {"company": "SAMPLE", "template": "TT200", "added": 214}},
    "GET /v1/ledger/accounts": {
        "200": {"company": "SAMPLE", "accounts": [ACCOUNT], "next_cursor": CURSOR}
    },
    "PUT /v1/ledger/accounts": {"200": ACCOUNT | {"company": "SAMPLE", "outcome": "changed"}},
    "GET /v1/ledger/roles": {
        "200": {
            "company": "SAMPLE",
            "roles": [
                {
                    "role": "stock",
                    "account": "1561",
                    "initial": "1561",
                    "own": False,
                    "name": "Merchandise at purchase price",
                }
            ],
        }
    },
    "PUT /v1/ledger/roles": {
        "200": {
            "company": "SAMPLE",
            "role": "usage",
            "account": "6418",
            "former": "1381",
            "changed": True,
        }
    },
    "GET /v1/ledger/rules": {"200": {"company": "SAMPLE", "rules": [RULE]}},
    "POST /v1/ledger/rules": {
        "201": {"company": "SAMPLE", "type": "sale", "version": 1, "valid_from": "2026-02-01"}
    },
    "GET /v1/ledger/entries": {"200": {"entries": [SUMMARY], "next_cursor": CURSOR}},
    "GET /v1/ledger/entries/{entry_id}": {"200": ENTRY},
    "GET /v1/ledger/entries/{entry_id}/chain": {"200": CHAIN},
    "GET /v1/ledger/trial-balance": {"200": BALANCE},
    "GET /v1/ledger/general-ledger": {"200": LEDGER},
    "GET /v1/ledger/journal": {"200": PLACE | {"lines": [MOVED], "next_cursor": None}},
    "GET /v1/ledger/control": {"200": CONTROL},
    "POST /v1/ledger/exports": {"202": SUBMITTED | {"kind": "ledger.export", "brand": None}},
}
LEDGER_PARAMETERS = {"entry_id": ENTRY_ID, "account": "1561", "first": 1}
