"""Documents of the client: what is sent, and how answers are read."""

import json

import pytest

from api.document_examples import DOCUMENT, DOCUMENT_ANSWERS, FAULT, SUMMARY, VOIDED
from shared.client import ChotClient
from shared.client.errors import Unavailable
from tests.unit.client.conftest import answer, standing

ANSWER = DOCUMENT_ANSWERS["POST /v1/documents:batch"]["200"]


async def test_documents_are_put_and_told_one_by_one() -> None:
    """In one request under a key; a fault has its place in the document itself."""
    sale = {"type": "sale", "doc_no": "HD-1", "lines": [{"net": "5"}]}
    async with standing(answer(ANSWER)) as stand, ChotClient(stand.url) as chot:
        told = [each async for each in chot.documents.put("SAMPLE", [sale, sale])]
    head, _, body = stand.asked[0].partition("\r\n\r\n")
    assert head.startswith("POST /v1/documents:batch ")
    assert "idempotency-key: " in head.lower()
    assert json.loads(body) == {"company": "SAMPLE", "documents": [sale, sale]}
    good, bad = told
    assert (good.outcome, good.id, good.version, good.status) == ("created", 88101, 1, "draft")
    assert (bad.outcome, bad.id, bad.faults_total) == ("error", None, 1)
    (fault,) = bad.faults
    assert (fault.field, fault.code, fault.value) == ("lines[0].net", FAULT["code"], "1500.5")


async def test_documents_are_listed_page_by_page() -> None:
    """A cursor that leads nowhere is no answer of ours."""
    page = answer({"documents": [SUMMARY], "next_cursor": "c"})
    async with standing(page) as stand, ChotClient(stand.url) as chot:
        listed = chot.documents.list("SAMPLE", type="sale")
        assert (await anext(listed))["doc_no"] == "HD-0001"
        assert (await anext(listed))["doc_no"] == "HD-0001"
        with pytest.raises(Unavailable):
            await anext(listed)
    assert "GET /v1/documents?company=SAMPLE&limit=200&type=sale " in stand.asked[0]
    assert "cursor=c" in stand.asked[1]


async def test_one_is_shown_and_voided() -> None:
    """As the api has it."""
    async with (
        standing(answer(DOCUMENT), answer(VOIDED)) as stand,
        ChotClient(stand.url) as chot,
    ):
        assert (await chot.documents.show(88101, after_line=7))["lines"][0]["net"] == "150000"
        assert (await chot.documents.void(88101))["status"] == "void"
    assert stand.asked[0].startswith("GET /v1/documents/88101?after_line=7 ")
    assert stand.asked[1].startswith("POST /v1/documents/88101/void ")
