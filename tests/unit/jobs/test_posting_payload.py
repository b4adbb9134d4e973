"""What may be selected for posting: ids, or filters, and never everything by mistake."""

from typing import Any

import pytest
from pydantic import ValidationError

from shared.errors import ConfigRefused
from shared.kinds import Kind
from shared.kinds.posting import MOST_DOCUMENTS, POSTING_POST, PostingPayload
from shared.kinds.registry import WHOLE, _refuse_unsound


@pytest.mark.parametrize(
    ("payload", "said"),
    [
        ({}, "nothing is selected"),
        ({"mode": "atomic"}, "nothing is selected"),
        ({"documents": []}, "at least 1 item"),
        ({"documents": [0]}, "greater than or equal to 1"),
        ({"documents": [1] * (MOST_DOCUMENTS + 1)}, "at most 12000 items"),
        ({"documents": [1], "types": ["sale"]}, "leave out types"),
        ({"types": ["cost"]}, "Input should be 'sale'"),
        ({"stores": [""]}, "at least 1 character"),
        ({"date_from": "2026-02-30"}, "date_from=2026-02-30 is no day"),
        ({"date_from": "1.2.2026"}, "should match pattern"),
        ({"date_from": "2026-02-02", "date_to": "2026-02-01"}, "is after date_to=2026-02-01"),
        ({"types": ["sale"], "chunk_documents": 0}, "greater than or equal to 1"),
        ({"types": ["sale"], "mode": "some"}, "Input should be 'per_document' or 'atomic'"),
    ],
)
def test_a_selection_that_means_nothing_is_refused(payload: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        PostingPayload.model_validate(payload)


@pytest.mark.parametrize(
    "payload",
    [
        {"documents": [1, 2**63 - 1]},
        {"date_to": "2026-02-28"},
        {"types": ["sale"], "stores": ["R1"], "date_from": "2026-02-01", "date_to": "2026-02-01"},
    ],
)
def test_a_selection_by_ids_or_by_filters(payload: dict[str, Any]) -> None:
    assert PostingPayload.model_validate(payload).mode == "per_document"


def test_the_whole_payload_is_a_fingerprint_and_a_star_beside_fields_is_none() -> None:
    assert tuple(POSTING_POST.fingerprint_fields) == WHOLE
    mixed = Kind(
        name="x",
        payload=PostingPayload,
        timeout=POSTING_POST.timeout,
        fingerprint_fields=("*", "mode"),
    )
    with pytest.raises(ConfigRefused, match="kind x has '\\*' in its fingerprint"):
        _refuse_unsound("here", mixed)
