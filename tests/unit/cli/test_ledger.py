"""`chot ledger`: what it asks the api for, how it shows it, and what a broken chain exits with."""

import json
from pathlib import Path

import pytest

from api.ledger_examples import (
    ACCOUNT,
    BALANCE,
    CHAIN,
    CONTROL,
    ENTRY,
    LEDGER,
    LEDGER_ANSWERS,
    SUMMARY,
)
from shared.cli import run
from tests.unit.cli.conftest import Peer

JANUARY = ["--company", "SAMPLE", "--period", "2026-01"]


def test_a_trial_balance_has_its_totals(peer: Peer, capsys: pytest.CaptureFixture[str]) -> None:
    """One row an account, and the sums below."""
    peer.say(200, BALANCE)
    assert run(["ledger", "balance", *JANUARY, "--level", "1"]) == 0
    shown = capsys.readouterr().out
    assert "Giá mua hàng hóa" in shown
    assert BALANCE["totals"]["closing_debit"] in shown
    asked = "/v1/ledger/trial-balance?company=SAMPLE&period=2026-01&level=1"
    assert peer.asked[0].path == asked


@pytest.mark.parametrize(
    "days",
    [
        ["--company", "SAMPLE"],
        [*JANUARY, "--from", "2026-01-01"],
        ["--company", "SAMPLE", "--to", "2026-01-31"],
    ],
)
def test_days_are_a_period_or_two(peer: Peer, days: list[str]) -> None:
    """The command line is wrong; nothing is asked."""
    assert run(["ledger", "journal", *days]) == 2
    assert peer.asked == []


def test_a_general_ledger_begins_with_its_opening(
    peer: Peer, capsys: pytest.CaptureFixture[str]
) -> None:
    """Then each line with its contra account and the balance after it."""
    peer.say(200, LEDGER | {"next_cursor": None})
    days = ["--from", "2026-01-01", "--to", "2026-01-31"]
    assert run(["ledger", "book", "131", "--company", "SAMPLE", *days, "--party", "KH0042"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].split() == ["opening", "0"]
    assert lines[2].split()[3:5] == ["BH-000412", "5111"]
    assert "date_from=2026-01-01&date_to=2026-01-31" in peer.asked[0].path
    assert "party=KH0042" in peer.asked[0].path


def test_entries_say_what_undid_them(peer: Peer, capsys: pytest.CaptureFixture[str]) -> None:
    """And where there are more."""
    page = {"entries": [SUMMARY | {"reversed_by": 6001}], "next_cursor": "c"}
    peer.say(200, page)
    words = ["ledger", "entries", "--company", "SAMPLE", "--from", "2026-01-01", "--limit", "1"]
    assert run(words) == 0
    told = capsys.readouterr()
    assert "reversed by 6001" in told.out
    assert "--limit 2" in told.err
    assert "date_from=2026-01-01" in peer.asked[0].path


def test_an_entry_is_shown_with_its_lines(peer: Peer, capsys: pytest.CaptureFixture[str]) -> None:
    """Its number, its document, each side."""
    peer.say(200, ENTRY)
    assert run(["ledger", "entry", "5017"]) == 0
    shown = capsys.readouterr().out
    for word in ("number 412 of NKC", "sale BH-000412", "KH0042", "165000"):
        assert word in shown


def test_a_whole_chain_is_followed_to_its_end(
    peer: Peer, capsys: pytest.CaptureFixture[str]
) -> None:
    """From number 1, page by page."""
    peer.say(200, CHAIN)
    peer.say(200, CHAIN | {"next_from": None})
    assert run(["ledger", "chain", "5017", "--whole"]) == 0
    assert "2 entries of series NKC 2026 of SAMPLE: each is" in capsys.readouterr().out
    firsts = [asked.path.partition("first=")[2].partition("&")[0] for asked in peer.asked]
    assert firsts == ["1", "413"]


def test_a_broken_chain_is_a_no(peer: Peer, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 1, and which number is broken how."""
    broken = CHAIN["links_checked"][0] | {"broken": "CONTENT"}
    peer.say(200, CHAIN | {"ok": False, "links_checked": [broken], "next_from": None})
    assert run(["ledger", "chain", "5017"]) == 1
    assert "number 412: CONTENT" in capsys.readouterr().out
    assert run(["ledger", "chain", "5017", "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["ok"] is False


def test_a_chart_is_adopted_and_listed(peer: Peer, capsys: pytest.CaptureFixture[str]) -> None:
    """What an account asks for is told in words."""
    peer.say(200, LEDGER_ANSWERS["POST /v1/ledger/chart"]["200"])
    peer.say(200, {"company": "SAMPLE", "accounts": [ACCOUNT], "next_cursor": None})
    assert run(["ledger", "adopt", "--company", "SAMPLE", "--template", "TT200"]) == 0
    assert run(["ledger", "accounts", "--company", "SAMPLE", "--below", "156"]) == 0
    shown = capsys.readouterr().out
    assert "accounts of TT200 are new to SAMPLE" in shown
    assert "store, item, is_stock" in shown
    assert json.loads(peer.asked[0].body) == {"company": "SAMPLE", "template": "TT200"}


def test_an_account_is_sent_whole(peer: Peer) -> None:
    """With what it needs, and what it is of."""
    peer.say(200, LEDGER_ANSWERS["PUT /v1/ledger/accounts"]["200"])
    words = ["ledger", "account", "1563", "--company", "SAMPLE", "--name", "Gifts"]
    assert run([*words, "--kind", "asset", "--needs", "item", "--needs", "store", "--stock"]) == 0
    sent = json.loads(peer.asked[0].body)
    assert (sent["code"], sent["is_stock"], sent["needs_party"]) == ("1563", True, False)
    assert (sent["needs_item"], sent["needs_store"], sent["postable"]) == (True, True, True)


def test_roles_and_rules_are_shown_and_changed(
    peer: Peer, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """A rule's file is the body of its route."""
    file = tmp_path / "rule.json"
    file.write_text('{"company": "SAMPLE", "type": "sale"}')
    peer.say(200, LEDGER_ANSWERS["GET /v1/ledger/roles"]["200"])
    peer.say(200, LEDGER_ANSWERS["PUT /v1/ledger/roles"]["200"])
    peer.say(200, LEDGER_ANSWERS["GET /v1/ledger/rules"]["200"])
    peer.say(201, LEDGER_ANSWERS["POST /v1/ledger/rules"]["201"])
    assert run(["ledger", "roles", "--company", "SAMPLE"]) == 0
    assert run(["ledger", "role", "usage", "6418", "--company", "SAMPLE"]) == 0
    assert run(["ledger", "rules", "--company", "SAMPLE", "--type", "transfer"]) == 0
    assert run(["ledger", "rule", str(file)]) == 0
    shown = capsys.readouterr().out
    for word in ("stock", "instead of 1381", "1 (shared)", "version 1 of sale holds"):
        assert word in shown
    assert json.loads(peer.asked[3].body)["type"] == "sale"


def test_a_file_that_is_no_json_is_no_rule(peer: Peer, tmp_path: Path) -> None:
    """Nothing is asked."""
    file = tmp_path / "rule.json"
    file.write_text("type: sale")
    assert run(["ledger", "rule", str(file)]) == 2
    assert peer.asked == []


def test_a_journal_shows_what_each_line_is_of(
    peer: Peer, capsys: pytest.CaptureFixture[str]
) -> None:
    """Party, store and item beside the amounts."""
    peer.say(200, LEDGER_ANSWERS["GET /v1/ledger/journal"]["200"])
    assert run(["ledger", "journal", *JANUARY]) == 0
    assert "KH0042 L01" in capsys.readouterr().out


def test_goods_that_differ_are_told_with_their_reasons(
    peer: Peer, capsys: pytest.CaptureFixture[str]
) -> None:
    """And with an exit code, for whoever closes the month by a script."""
    peer.say(200, CONTROL)
    assert run(["ledger", "control", *JANUARY]) == 1
    told = capsys.readouterr()
    assert "purchase PN-000871" in told.out
    assert "1 differ" in told.err
    assert peer.asked[0].path == "/v1/ledger/control?company=SAMPLE&period=2026-01&limit=50"


def test_goods_that_agree(peer: Peer, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing is listed."""
    peer.say(200, CONTROL | {"agrees": True, "differing": 0, "differences": []})
    assert run(["ledger", "control", *JANUARY]) == 0
    assert "0 differ" in capsys.readouterr().err


def test_drafts_and_a_missing_chart_are_told(
    peer: Peer, capsys: pytest.CaptureFixture[str]
) -> None:
    """They keep a period from being closed, too."""
    bare = {"agrees": False, "chart": False, "drafts": 1, "first_drafts": ["sale BH-1"]}
    peer.say(200, CONTROL | bare | {"differing": 0, "differences": []})
    assert run(["ledger", "control", *JANUARY]) == 1
    told = capsys.readouterr().err
    assert "sale BH-1" in told
    assert "chot ledger adopt" in told


def test_control_as_json(peer: Peer, capsys: pytest.CaptureFixture[str]) -> None:
    """As the api says it, with the same exit code."""
    peer.say(200, CONTROL)
    assert run(["ledger", "control", *JANUARY, "--json"]) == 1
    assert json.loads(capsys.readouterr().out) == CONTROL
