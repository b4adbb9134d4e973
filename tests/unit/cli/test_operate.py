import io
import json
import os
import subprocess
import sys
from urllib.parse import parse_qsl, urlsplit

import pytest
from rich.console import Console

from shared.cli import COMMANDS, run
from shared.cli.jobs import pretty
from shared.cli.progress import LiveBar
from tests.unit.cli.conftest import Peer, job

QUEUE = {
    "name": "costing",
    "paused": True,
    "pending": 10_000,
    "due": 3,
    "running": 1,
    "dead": 2,
    "oldest_due_seconds": 75.5,
    "alone_worker": None,
}
WORKER = {
    "worker_id": "host-1-abcd",
    "state": "working",
    "live": True,
    "code_version": "1.2.3+abc",
    "seen_at": "2026-01-31T00:00:00Z",
    "kinds": {"costing.run": 1},
    "queues": [{"queue": "costing", "slots": 4, "free_slots": 3}],
    "running": [{"kind": "costing.run", "job_id": "0190-job", "attempt": 1, "started_at": "x"}],
}


def dead(job_id: str, at: str, message: str = "boom") -> dict[str, object]:
    return job("dead", id=job_id, finished_at=at, error={"code": "X", "message": message})


def test_queues_and_workers_are_tables(peer: Peer, capsys: pytest.CaptureFixture[str]) -> None:
    peer.say(200, {"queues": [QUEUE]})
    assert run(["queues"]) == 0
    shown = capsys.readouterr().out
    assert "10,000+" in shown
    assert "1 min 15 s" in shown
    assert "paused" in shown
    peer.script = [(200, {"workers": [WORKER]}, {})]
    assert run(["workers"]) == 0
    shown = capsys.readouterr().out
    assert "costing 3/4" in shown
    assert "1.2.3+abc" in shown
    assert "costing.run 0190-job" in shown
    assert run(["workers", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"workers": [WORKER]}


def test_pause_and_resume_name_the_queue(peer: Peer, capsys: pytest.CaptureFixture[str]) -> None:
    peer.say(200, {"name": "costing", "paused": True, "staged": 0})
    assert run(["pause", "costing"]) == 0
    assert run(["resume", "a/b"]) == 0
    assert [asked.path for asked in peer.asked] == [
        "/v1/queues/costing/pause",
        "/v1/queues/a%2Fb/resume",
    ]
    assert "`chot resume costing`" in capsys.readouterr().out
    for staged, said in (
        (0, "one waiting already go on"),
        (1, "1 message was staged"),
        (1200, "1,200 messages were staged"),
    ):
        peer.script = [(200, {"name": "costing", "paused": False, "staged": staged}, {})]
        assert run(["resume", "costing"]) == 0
        assert said in capsys.readouterr().out


def test_a_kind_is_paused_in_place_of_a_queue(
    peer: Peer, capsys: pytest.CaptureFixture[str]
) -> None:
    peer.say(200, {"name": "costing.run", "paused": True, "running": 2, "staged": 0})
    assert run(["pause", "--kind", "costing.run"]) == 0
    said = capsys.readouterr().out
    assert "2 of its jobs go on running" in said
    assert "`chot resume --kind costing.run`" in said
    assert run(["resume", "--kind", "costing.run"]) == 0
    assert [asked.path for asked in peer.asked] == [
        "/v1/kinds/costing.run/pause",
        "/v1/kinds/costing.run/resume",
    ]
    for words in (["pause"], ["resume", "q", "--kind", "k"]):
        assert run(words) == 2
    assert "name a queue, or a kind" in capsys.readouterr().err
    assert len(peer.asked) == 2


def test_books_are_frozen_and_thawed(peer: Peer, capsys: pytest.CaptureFixture[str]) -> None:
    peer.say(403, {"title": "no role read"})
    peer.say(200, {"frozen": True, "running": 1, "staged": 3})
    assert run(["freeze", "ACME", "--brand", "RED", "--reason", "closing"]) == 0
    peer.script = [(200, {"freezes": []}, {}), *peer.script, (200, {"freezes": []}, {})]
    assert run(["thaw", "ACME"]) == 0
    assert [json.loads(asked.body) for asked in peer.asked if asked.method == "POST"] == [
        {"company": "ACME", "brand": "RED", "reason": "closing"},
        {"company": "ACME", "brand": None},
    ]
    said = capsys.readouterr().out
    assert "`chot thaw ACME --brand RED`" in said
    assert "books of company ACME are open; 3 messages were staged" in said
    frozen = {"company": "ACME", "brand": None, "frozen_at": "2026-01-31T00:00:00Z"}
    frozen |= {"principal": "ops", "reason": "stocktaking"}
    for listed, shown in (([frozen], "stocktaking"), ([], "no books are frozen")):
        peer.script = [(200, {"freezes": listed}, {})]
        assert run(["freezes"]) == 0
        assert shown in capsys.readouterr().out


def freeze_of(brand: str | None, company: str = "ACME") -> dict[str, str | None]:
    at = {"principal": "ops", "frozen_at": "2026-01-31T00:00:00Z"}
    return {"company": company, "brand": brand, "reason": "stocktaking"} | at


@pytest.mark.parametrize(
    "case",
    [
        ("ACME", [None, "RED"], ["RED"], "company ACME are thawed; no message had to be staged"),
        ("ACME", ["RED"], ["RED"], "company ACME were not frozen; those of brand RED"),
        ("ACME", ["RED"], ["RED"], "still frozen (`chot thaw ACME --brand RED`)"),
        ("ACME --brand RED", [None, "RED"], [None], "those of company ACME are still frozen"),
        ("ACME --brand BLUE", ["RED"], ["RED"], "brand BLUE of company ACME were not frozen\n"),
        ("ACME", [], [], "the books of company ACME were not frozen\n"),
        ("ACME", [None], [], "the books of company ACME are open; "),
    ],
)
def test_a_thaw_says_what_was_not_frozen_and_what_still_is(
    peer: Peer,
    capsys: pytest.CaptureFixture[str],
    case: tuple[str, list[str | None], list[str | None], str],
) -> None:
    """Of other companies' freezes, and of other brands' than the thawed one, nothing."""
    words, before, left, said = case
    peer.say(200, {"freezes": [*map(freeze_of, before), freeze_of(None, "OTHER")]})
    peer.say(200, {"frozen": False, "running": 0, "staged": 0})
    peer.say(200, {"freezes": [*map(freeze_of, left), freeze_of(None, "OTHER")]})
    assert run(["thaw", *words.split()]) == 0
    shown = capsys.readouterr().out
    assert said in shown
    assert "OTHER" not in shown


def test_a_second_freeze_says_that_it_has_changed_nothing(
    peer: Peer, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its reason is not kept: the first one's is."""
    peer.say(200, {"freezes": [freeze_of("RED")]})
    peer.say(200, {"frozen": True, "running": 0, "staged": 0})
    assert run(["freeze", "ACME", "--brand", "RED", "--reason", "other"]) == 0
    said = capsys.readouterr().out
    assert "brand RED of company ACME were frozen already" in said
    assert "by ops) and keep their first reason: stocktaking; `chot thaw" in said


def test_kinds_and_limits_are_tables(peer: Peer, capsys: pytest.CaptureFixture[str]) -> None:
    kind = {"name": "costing.run", "queue": "costing", "paused": True, "running": 1}
    inner = {"name": "costing.part", "internal": True, "made_by": "costing.run"}
    peer.say(200, {"kinds": [each | {"max_running": None} for each in (kind, kind | inner)]})
    assert run(["kinds"]) == 0
    said = capsys.readouterr().out.splitlines()
    assert "paused" in said[-2]
    assert said[-1].split()[0] == "costing.part"
    assert said[-1].split()[-1] == "costing.run"
    limit = {"kind": None, "company": "ACME", "brand": "RED", "running": 4, "max_running": 7}
    for listed, shown in (([limit], ["any", "ACME", "RED", "4", "7"]), ([], ["no", "running"])):
        peer.script = [(200, {"limits": listed}, {})]
        assert run(["limits"]) == 0
        assert capsys.readouterr().out.splitlines()[-1].split()[: len(shown)] == shown
    peer.script = [(200, {"limits": []}, {})]
    assert run(["limits", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"limits": []}


def test_a_limit_is_set_and_removed(peer: Peer, capsys: pytest.CaptureFixture[str]) -> None:
    which = {"kind": "k", "company": "ACME", "brand": None}
    peer.say(200, which | {"max_running": 3})
    assert run(["limits", "set", "3", "--kind", "k", "--company", "ACME"]) == 0
    assert "at most 3 of kind k of company ACME run at once" in capsys.readouterr().out
    for set_before, said in (([which], "holds any more"), ([], "no limit of just that was set")):
        peer.script = [(200, {"limits": set_before}, {}), (200, which, {})]
        assert run(["limits", "remove", "--kind", "k", "--company", "ACME"]) == 0
        assert said in capsys.readouterr().out
    put, _, delete, *_ = peer.asked
    assert (put.method, json.loads(put.body)) == ("PUT", which | {"max_running": 3})
    assert (delete.method, delete.path) == ("DELETE", "/v1/limits?kind=k&company=ACME")
    assert run(["limits", "set", "0", "--kind", "k"]) == 2


def test_weights_are_shown_and_set(peer: Peer, capsys: pytest.CaptureFixture[str]) -> None:
    weight = {"company": "ACME", "brand": "RED", "weight": 2.5}
    peer.say(200, {"queues": [QUEUE | {"weights": [weight]}]})
    assert run(["weights", "costing"]) == 0
    assert capsys.readouterr().out.splitlines()[-1].split() == ["ACME", "RED", "2.5"]
    assert run(["weights", "none"]) == 3
    peer.script = [(200, {"name": "costing", "weights": []}, {})]
    assert run(["weights", "costing", "ACME/RED=2.50", "ACME/=1"]) == 0
    assert json.loads(peer.asked[-1].body)["weights"] == [
        weight,
        {"company": "ACME", "brand": None, "weight": 1},
    ]
    assert run(["weights", "costing", "--none"]) == 0
    assert "every brand has 1" in capsys.readouterr().out
    for wrong in (["ACME=3"], ["ACME/RED=x"], ["ACME/RED"], ["/=3"], ["A/B=1", "--none"]):
        assert run(["weights", "costing", *wrong]) == 2


def test_a_list_takes_every_filter(peer: Peer) -> None:
    peer.say(200, {"jobs": [], "next_cursor": None})
    words = "--state dead --state running --kind k --submitter an --company C --brand B"
    times = ["--created-from", "2026-01-01T00:00:00+07:00", "--created-to", "2026-02-01T00:00:00Z"]
    assert run(["list", *words.split(), *times]) == 0
    assert dict(parse_qsl(urlsplit(peer.asked[0].path).query)) == {
        "state": "dead,running",
        "kind": "k",
        "submitter": "an",
        "company": "C",
        "brand": "B",
        "created_from": "2026-01-01T00:00:00+07:00",
        "created_to": "2026-02-01T00:00:00Z",
        "limit": "20",
    }


def test_a_kind_that_is_none_is_said_to_be_none(
    peer: Peer, capsys: pytest.CaptureFixture[str]
) -> None:
    """Not "no jobs"."""
    error = {"field": "kind", "rule": "is no kind that was ever declared here", "value": "nope"}
    peer.say(422, {"title": "The kind is unknown", "errors": [error]})
    assert run(["list", "--kind", "nope"]) == 4
    written = capsys.readouterr()
    assert "no kind that was ever declared" in written.err
    assert written.out == ""
    peer.script = [(200, {"jobs": [], "next_cursor": None}, {})]
    assert run(["list"]) == 0
    assert capsys.readouterr().out == "no jobs\n"


def test_dead_letters_that_are_watched_are_lines_as_they_come(
    peer: Peer, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those there are, the last to die last; each new one once; a job that died again, again."""
    monkeypatch.setattr("shared.cli.watch_letters.EVERY_SECONDS", 0.0)
    old, new = dead("a", "2026-01-01T00:00:01Z"), dead("b", "2026-01-01T00:00:02Z")
    again = dead("a", "2026-01-01T00:00:03Z", "boom again")
    message = {"id": 7, "queue": "q", "reason": "not JSON", "created_at": "2026-01-01T00:00:04Z"}
    for jobs in ([old], [old], [new, old], [new, again]):
        peer.say(200, {"jobs": jobs, "messages": [], "next_cursor": None})
    peer.say(200, {"jobs": [new], "messages": [message], "next_cursor": "more"})
    peer.say(200, {"jobs": [again], "messages": [], "next_cursor": None})
    looks = iter(range(6))

    def interrupt(_seconds: float) -> None:
        if next(looks) == 4:
            raise KeyboardInterrupt

    monkeypatch.setattr("shared.cli.watch_letters.time.sleep", interrupt)
    assert run(["dead-letters", "--watch"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split("  ")[1] for line in lines] == ["a", "b", "a", "message 7"]
    assert "X: boom again" in lines[2]
    assert "not JSON" in lines[3]


def test_watched_letters_as_json_are_a_document_a_line(
    peer: Peer, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(_seconds: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("shared.cli.watch_letters.time.sleep", interrupt)
    letters = [dead("b", "2026-01-01T00:00:02Z"), dead("a", "2026-01-01T00:00:01Z")]
    peer.say(200, {"jobs": letters, "messages": [], "next_cursor": None})
    assert run(["dead-letters", "--watch", "--json", "--limit", "1"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [json.loads(line)["job"]["id"] for line in lines] == ["b"], "the newest one"


@pytest.mark.parametrize("width", [60, 80, 120])
def test_the_bar_fits_its_terminal(width: int) -> None:
    """Two lines, each within the width, however much there is to say; nothing is broken in two."""
    drawn = io.StringIO()
    console = Console(file=drawn, force_terminal=True, width=width, color_system=None)
    told = {"done": 123_456, "total": 5_000_000, "unit": "movements", "message": "costing " * 20}
    with LiveBar(console) as bar:
        bar.show(job("running", progress=told, fence=7, attempt=3))
        bar._progress.refresh()
    frames = drawn.getvalue().replace("\x1b[2K", "").split("\x1b[1A")
    lines = [line for frame in frames for line in frame.splitlines() if line.strip("\r\x1b[?25lh ")]
    assert any("running, attempt 3, fence 7" in line for line in lines)
    assert any("123,456/5,000,000 movements (2%)" in line for line in lines)
    assert all(len(line.strip("\r")) <= width for line in lines), lines


def test_a_result_is_shown_member_by_member() -> None:
    """What fits into a line stays in one."""
    shown = pretty({"stores": 3, "rows": [{"a": 1}, {"a": 2}], "ids": list(range(60)), "none": {}})
    lines = shown.splitlines()
    assert lines[:3] == ["  {", '    "stores": 3,', '    "rows": [{"a": 1}, {"a": 2}],']
    assert all(len(line) <= 100 for line in lines)
    assert json.loads(shown)["ids"] == list(range(60))
    assert pretty("text") == '  "text"'
    assert pretty([]) == "  []"


COMPLETE = {
    "a command": ("chot dead", 1, {"dead-letters"}),
    "a state": ("chot list --state ", 3, {"pending", "running", "succeeded", "cancelled", "dead"}),
    "a kind": ("chot submit costing", 2, {"costing.run", "costing.preview"}),
    "a kind after its option": (
        "chot list --kind costing.p",
        3,
        {"costing.preview", "costing.part"},
    ),
    "a shell": ("chot completion ", 2, {"bash", "zsh", "fish"}),
    "an act to approve": (
        "chot approve ",
        2,
        {"job.redrive", "group.redrive", "period.close", "period.reopen"},
    ),
    "an act of the audit": ("chot audit --action kind.", 3, {"kind.pause", "kind.resume"}),
    "an option": ("chot list --submit", 2, {"--submitter"}),
}


@pytest.mark.parametrize("case", COMPLETE)
def test_the_shell_completes(peer: Peer, case: str) -> None:
    """Commands, options, states and kinds, as bash asks for them."""
    peer.say(200, {"workers": [WORKER], "queues": [QUEUE]})
    words, place, expected = COMPLETE[case]
    done = subprocess.run(
        [sys.executable, "-m", "shared.cli"],
        env=os.environ
        | {"_CHOT_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(place)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert {line.partition(",")[2] for line in done.stdout.splitlines()} == expected


def test_queues_of_the_api_are_completed(peer: Peer) -> None:
    """And an api that is away completes nothing, in silence."""
    peer.say(200, {"queues": [QUEUE]})
    asked = {"_CHOT_COMPLETE": "bash_complete", "COMP_WORDS": "chot pause c", "COMP_CWORD": "2"}
    for url, expected in ((None, ["plain,costing"]), ("http://127.0.0.1:1", [])):
        env = os.environ | asked | ({} if url is None else {"CHOT_API_URL": url})
        done = subprocess.run(
            [sys.executable, "-m", "shared.cli"],
            env=env,
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode, done.stdout.split(), done.stderr) == (0, expected, "")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_shell_has_a_script(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert "_CHOT_COMPLETE" in script
    assert f"{shell}_complete" in script


def test_every_command_answers_help() -> None:
    """What the table names is there, and can be asked."""
    own = {"dev", "api", "worker"}  # these become the process that they start, help and all
    assert [name for name in COMMANDS if name not in own and run([name, "--help"]) != 0] == []
