"""`chot alerts`: the rules without an api, what fires as the api says it, silence."""

import json
from pathlib import Path

import pytest

from api.alert_examples import ALERT, CHANNEL
from shared.alerts import load_rules
from shared.cli import run
from tests.unit.cli.conftest import Peer


def test_the_rules_are_shown_without_an_api(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["alerts", "list"]) == 0
    shown = capsys.readouterr().out
    assert all(rule.name in shown for rule in load_rules())
    assert run(["alerts", "list", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)["rules"]
    assert [each["name"] for each in listed] == [rule.name for rule in load_rules()]


def test_the_rules_of_prometheus_link_to_a_runbook_of_ours(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["alerts", "prometheus", "--runbook", "https://wiki.example/chot"]) == 0
    assert '"https://wiki.example/chot#dead_jobs"' in capsys.readouterr().out


def test_a_file_of_changes_that_is_wrong_is_exit_code_78(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = tmp_path / "rules.toml"
    path.write_text('[[rule]]\nname = "dead_jobs"\nmetric = "chot_nothing"\n')
    monkeypatch.setenv("CHOT_ALERT_RULES", str(path))
    assert run(["alerts", "cloudwatch"]) == 78
    assert "chot_nothing" in capsys.readouterr().err


def test_what_fires_is_exit_code_1_and_says_what_to_do(
    peer: Peer, capsys: pytest.CaptureFixture[str]
) -> None:
    failing = CHANNEL | {"last_error": "the webhook answered 500", "waiting": 1}
    peer.say(200, {"alerts": [ALERT], "channels": [failing], "looked_seconds": 3.0})
    assert run(["alerts", "firing"]) == 1
    told = capsys.readouterr()
    for word in ("no_worker_for_kind", "kind=posting.post", "212", "Start a worker"):
        assert word in told.out
    assert "the webhook answered 500" in told.err


def test_nothing_that_fires_is_exit_code_0(peer: Peer, capsys: pytest.CaptureFixture[str]) -> None:
    over = ALERT | {"resolved_at": "2026-01-31T17:00:00Z"}
    peer.say(200, {"alerts": [over], "channels": [], "looked_seconds": None})
    assert run(["alerts", "firing", "--resolved"]) == 0
    assert peer.asked[0].path == "/v1/alerts?resolved=true"
    told = capsys.readouterr()
    assert "over" in told.out
    assert "nobody is told" in told.err


def test_silence_is_asked_for_by_name(peer: Peer, capsys: pytest.CaptureFixture[str]) -> None:
    peer.say(
        200,
        {"rule": "dead_jobs", "until": "2026-02-01T05:04:30Z", "principal": "x", "reason": None},
    )
    assert run(["alerts", "silence", "dead_jobs", "--hours", "12", "--reason", "known"]) == 0
    assert json.loads(peer.asked[0].body) == {"rule": "dead_jobs", "hours": 12, "reason": "known"}
    assert "dead_jobs: nobody is told until" in capsys.readouterr().out
