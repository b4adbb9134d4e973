"""Postings as they look: material of api/examples.py."""

from typing import Any

from api.example_bodies import CURSOR

OUTCOMES: dict[str, Any] = {
    "outcomes": [
        {
            "place": 1,
            "document_id": 8121,
            "type": "sale",
            "doc_no": "HD-00412",
            "version": 1,
            "outcome": "PERIOD_CLOSED",
            "codes": ["PERIOD_CLOSED", "UNBALANCED"],
            "detail": "PERIOD_CLOSED: period 2025-12 is closed; UNBALANCED: debit 110, credit 100",
            "entry_id": None,
        }
    ],
    "next_cursor": CURSOR,
}
