"""`chot documents`: what it sends, what it shows, its exit codes."""

import json
from pathlib import Path
from typing import Any

import pytest

from api.document_examples import DOCUMENT, DOCUMENT_ANSWERS, FAULT, SUMMARY, URL, VOIDED
from shared.cli import run
from shared.cli.documents import TYPES
from shared.documents.read import TYPES as TABLE_TYPES
from tests.unit.cli.conftest import Peer

ANSWER = DOCUMENT_ANSWERS["POST /v1/documents:batch"]["200"]
SALE = {"type": "sale", "doc_no": "HĐ-1", "lines": []}
PUT = ["documents", "put", "--company", "SAMPLE"]


def written(place: Path, text: str | bytes) -> str:
    """A file with this text."""
    file = place / "documents.json"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return str(file)


@pytest.mark.parametrize(
    "text",
    [
        json.dumps([SALE, SALE]),
        "\ufeff" + json.dumps([SALE, SALE], indent=2),
        f"{json.dumps(SALE)}\n\n{json.dumps(SALE, ensure_ascii=False)}\n",
    ],
    ids=["list", "list with a mark", "lines"],
)
def test_a_list_and_lines_are_put_alike(
    peer: Peer, tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    """In one request under a key of its own; refused ones come first, with every rule."""
    peer.say(200, ANSWER)
    assert run([*PUT, written(tmp_path, text)]) == 4
    (asked,) = peer.asked
    assert (asked.method, asked.path) == ("POST", "/v1/documents:batch")
    assert len(asked.headers["idempotency-key"]) == 36
    assert json.loads(asked.body) == {"company": "SAMPLE", "documents": [SALE, SALE]}
    told = capsys.readouterr()
    assert told.out.index("error") < told.out.index("created")
    assert f"lines[0].net: {FAULT['rule']} (1500.5)" in " ".join(told.out.split())
    assert told.err == "1 created, 1 error\n"


def test_what_was_put_is_one_document_of_json(
    peer: Peer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With the place of each in the file; 0 when none was refused."""
    good = {"outcome": "unchanged", "id": 7, "version": 1, "status": "posted", "url": URL}
    peer.say(200, {"documents": [good]})
    assert run([*PUT, written(tmp_path, json.dumps([SALE])), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told == {"outcomes": {"unchanged": 1}, "documents": [{"number": 1} | good]}


def test_more_than_a_thousand_are_several_requests(peer: Peer, tmp_path: Path) -> None:
    """In the order of the file."""
    made = {"outcome": "created", "id": 7, "version": 1, "status": "draft", "url": URL}
    peer.say(200, {"documents": [made] * 1000})
    peer.say(200, {"documents": [made]})
    many = [SALE | {"doc_no": str(number)} for number in range(1001)]
    assert run([*PUT, written(tmp_path, json.dumps(many))]) == 0
    sent = [each["doc_no"] for asked in peer.asked for each in json.loads(asked.body)["documents"]]
    assert sent == [each["doc_no"] for each in many]
    assert len({asked.headers["idempotency-key"] for asked in peer.asked}) == 2


@pytest.mark.parametrize(
    "text", ["[1, 2]", "[{", '[{"a": 1, "a": 2}]', "x", b"[\xff]", '[{"a": "\\u0000"}]']
)
def test_what_is_no_file_of_documents_is_not_sent(
    peer: Peer, tmp_path: Path, text: str | bytes
) -> None:
    """Exit code 2, and the api is not asked; but a member that is there twice counts once."""
    peer.say(200, {"documents": [{"outcome": "error", "faults": [], "faults_total": 0}]})
    code = run([*PUT, written(tmp_path, text)])
    assert code == (4 if text == '[{"a": 1, "a": 2}]' else 2)


def test_documents_are_listed_by_every_filter(
    peer: Peer, capsys: pytest.CaptureFixture[str]
) -> None:
    """Page by page."""
    foreign: dict[str, Any] = SUMMARY | {"total": None, "fc_total": "11.55", "currency": "USD"}
    peer.say(200, {"documents": [SUMMARY], "next_cursor": "c"})
    peer.say(200, {"documents": [foreign | {"to_store": "NHA-01"}], "next_cursor": None})
    words = ["documents", "list", "--company", "SAMPLE", "--type", "sale", "--status", "draft"]
    words += ["--store", "LUA-01", "--party", "KH-001", "--number", "HD-0001"]
    assert run([*words, "--from", "2026-01-01", "--to", "2026-01-31"]) == 0
    first, second = peer.asked
    assert first.path == (
        "/v1/documents?company=SAMPLE&type=sale&status=draft&store=LUA-01&party=KH-001"
        "&doc_no=HD-0001&date_from=2026-01-01&date_to=2026-01-31&limit=50"
    )
    assert second.path.endswith("&limit=49&cursor=c")
    told = capsys.readouterr().out
    assert "165000" in told
    assert "11.55 USD" in told
    assert "LUA-01 → NHA-01" in told
    assert set(TYPES) == set(TABLE_TYPES)


def test_one_is_shown_with_its_lines_and_entries(
    peer: Peer, capsys: pytest.CaptureFixture[str]
) -> None:
    """And what it refers to."""
    entry = {
        "series": "NKC",
        "fiscal_year": 2026,
        "entry_no": 5,
        "document_version": 1,
        "kind": "normal",
        "posting_date": "2026-01-05",
        "amount": "165000",
    }
    refers = {"id": 5, "type": "sale", "doc_no": "HD-0000"}
    peer.say(200, DOCUMENT | {"entries": [entry], "refers_to": refers, "next_line": 1000})
    assert run(["documents", "show", "88101"]) == 0
    told = capsys.readouterr()
    assert "document 88101: sale HD-0001 of LUA-01, 2026-01-05, 165000, about sale HD-0000" in (
        told.out
    )
    assert "version 1: normal entry NKC 2026/5 of 2026-01-05, 165000" in told.out
    assert "150000" in told.out
    assert "behind line 1000" in told.err


def test_a_draft_is_voided_with_a_reason(peer: Peer, capsys: pytest.CaptureFixture[str]) -> None:
    """And shown as it is then."""
    peer.say(200, VOIDED)
    assert run(["documents", "void", "88101", "--reason", "entered twice"]) == 0
    (asked,) = peer.asked
    assert (asked.method, asked.path) == ("POST", f"{URL}/void")
    assert json.loads(asked.body) == {"reason": "entered twice"}
    assert "version 2 is void" in capsys.readouterr().out
