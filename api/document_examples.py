"""Documents as they look: material of api/examples.py."""

from typing import Any

DOCUMENT_ID = 88_101
URL = f"/v1/documents/{DOCUMENT_ID}"
SUMMARY: dict[str, Any] = {
    "id": DOCUMENT_ID,
    "company": "SAMPLE",
    "brand": "LUA",
    "type": "sale",
    "doc_no": "HD-0001",
    "doc_date": "2026-01-05",
    "posting_date": "2026-01-05",
    "store": "LUA-01",
    "to_store": None,
    "party": "KH-001",
    "status": "draft",
    "version": 1,
    "total": "165000",
    "vat_total": "15000",
    "currency": None,
    "fc_total": None,
    "refers_to": None,
    "updated_at": "2026-01-05T09:12:44.018540Z",
    "links": {
        "self": URL,
        "entries": f"/v1/ledger/entries?company=SAMPLE&document={DOCUMENT_ID}",
        "void": f"{URL}/void",
    },
}
LINE: dict[str, Any] = {
    "line_no": 1,
    "item": "LUA0001",
    "qty": "10",
    "uom": "cái",
    "qty_base": "10",
    "base_uom": "cái",
    "net": "150000",
    "vat": "15000",
    "vat_rate": "10",
    "fc_net": None,
    "fc_vat": None,
    "side": None,
    "account": None,
    "store": None,
    "party": None,
    "lot_id": None,
    "ref_line": None,
    "memo": None,
}
DOCUMENT = SUMMARY | {
    "account": None,
    "fc_rate": None,
    "fc_vat_total": None,
    "memo": None,
    "source": "api",
    "principal": "erp",
    "cost_run_id": None,
    "created_at": "2026-01-05T09:12:44.018540Z",
    "lines": [LINE],
    "next_line": None,
    "entries": [],
}
VOIDED = DOCUMENT | {
    "status": "void",
    "version": 2,
    "links": {name: link for name, link in SUMMARY["links"].items() if name != "void"},
}
FAULT = {
    "field": "documents[1].lines[0].net",
    "code": "AMOUNT_NOT_EXACT",
    "rule": "has more decimals than VND has, which is 0",
    "value": "1500.5",
}
DOCUMENT_ANSWERS: dict[str, dict[str, Any]] = {
    "POST /v1/documents:batch": {
        "200": {
            "created": 1,
            "updated": 0,
            "unchanged": 0,
            "errors": 1,
            "documents": [
                {
                    "outcome": "created",
                    "id": DOCUMENT_ID,
                    "version": 1,
                    "status": "draft",
                    "url": URL,
                },
                {"outcome": "error", "faults": [FAULT], "faults_total": 1},
            ],
        }
    },
    "GET /v1/documents": {"200": {"documents": [SUMMARY], "next_cursor": None}},
    "GET /v1/documents/{document_id}": {"200": DOCUMENT},
    "POST /v1/documents/{document_id}/void": {"200": VOIDED},
}
