import json

import pytest

from api.settings import ApiSettings
from shared.cli import run
from shared.cli.settings import ClientSettings
from shared.settings import MigrateSettings
from worker.settings import WorkerSettings


@pytest.fixture(autouse=True)
def _database(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHOT_DATABASE_URL", "postgresql://chot_app:geheim@db/chot?password=leise")


def test_no_secret_is_ever_printed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Neither the password of a URL, in either place it can stand in, nor a token."""
    monkeypatch.setenv("CHOT_TOKEN", "s3cret")
    for words in ([], ["--json"], ["client"], ["client", "--json"], ["worker"], ["migrate"]):
        assert run(["config", *words]) == 0
    out = capsys.readouterr().out
    assert "chot_app:***@db/chot" in out
    assert not {"geheim", "leise", "s3cret"} & set(out.replace(":", " ").split())
    assert "geheim" not in out
    assert "leise" not in out
    assert "s3cret" not in out


def test_each_value_says_where_it_comes_from(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CHOT_LEASE_SECONDS", "3")
    monkeypatch.setenv("CHOT_HEARTBEAT_SECONDS", "0.8")
    assert run(["config", "worker", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["CHOT_LEASE_SECONDS"] == {"value": 3.0, "origin": "environment"}
    assert told["CHOT_MARGIN_SECONDS"] == {"value": 0.4, "origin": "scaled"}
    assert told["CHOT_CONCURRENCY"]["origin"] == "default"
    assert told["CHOT_POOL_SIZE"] == {"value": None, "origin": "unset"}


def test_what_the_api_derives_is_shown_as_it_is_in_force(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CHOT_BALANCER_IDLE_SECONDS", "20")
    assert run(["config", "api", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["CHOT_LIVE_HEARTBEAT_SECONDS"] == {"value": 5.0, "origin": "scaled"}
    assert told["CHOT_API_LOCK_TIMEOUT_SECONDS"] == {"value": 2.0, "origin": "scaled"}


def test_settings_that_disagree_end_with_78_and_both_names(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`chot config` refuses what the process itself would refuse."""
    monkeypatch.setenv("CHOT_HEARTBEAT_SECONDS", "20")
    assert run(["config", "worker"]) == 78
    said = capsys.readouterr().err
    assert "CHOT_HEARTBEAT_SECONDS=20" in said
    assert "CHOT_LEASE_SECONDS=30" in said


def test_a_missing_setting_says_who_needs_it_and_what_to_do(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A newcomer's first `chot config` has no database yet."""
    monkeypatch.delenv("CHOT_DATABASE_URL")
    for words, whose in (([], "api and worker share"), (["worker"], "`chot worker` starts with")):
        assert run(["config", *words]) == 78
        said = capsys.readouterr().err
        assert "CHOT_DATABASE_URL is not set" in said
        assert whose in said
        assert "`chot config client` needs no database" in said
    assert run(["doctor"]) == 78
    said = capsys.readouterr().err
    assert "doctor need" in said
    assert "`chot dev` (`make up`) prints a line that exports that of its own" in said


def test_an_api_url_that_is_none_is_misconfiguration(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CHOT_API_URL", "localhost:8000")
    assert run(["list"]) == 78
    assert "CHOT_API_URL" in capsys.readouterr().err


def test_every_setting_has_a_meaning(capsys: pytest.CaptureFixture[str]) -> None:
    """And the worker, which never migrates, is not told of the owner's URL."""
    for words in ([], ["api"], ["worker"], ["client"], ["migrate"]):
        assert run(["config", *words]) == 0
        assert ("CHOT_MIGRATE_DATABASE_URL" in capsys.readouterr().out) == (words == ["migrate"])
    for kind in (ApiSettings, WorkerSettings, ClientSettings, MigrateSettings):
        assert [name for name, each in kind.model_fields.items() if not each.description] == []
