"""The client is patient where a repeat is safe, and exact about everything else."""

import json
import socket

import pytest

from api.approving import approval_required
from api.problems import problem_body
from shared.approvals import Refused
from shared.audit import Action
from shared.cli import run
from tests.unit.cli.conftest import Peer, job

SUBMIT = ["submit", "costing.run", "--company", "ACME", "period=2026-01"]


def test_a_submit_is_repeated_under_one_key_until_it_is_answered(
    peer: Peer, capsys: pytest.CaptureFixture[str]
) -> None:
    """Lost connection, 503, 409 in progress, then 202: four requests, one idempotency key."""
    peer.hang_up()
    peer.say(503, {"title": "database out of reach"}, Retry_After="0")
    peer.say(409, {"title": "in progress"}, Retry_After="0")
    peer.say(202, {"id": "0190-job", "created": True})
    assert run(SUBMIT) == 0
    assert capsys.readouterr().out == "0190-job\n"
    assert len(peer.asked) == 4
    assert len({asked.headers["idempotency-key"] for asked in peer.asked}) == 1
    assert {asked.headers["authorization"] for asked in peer.asked} == {"Bearer secret-token"}
    sent = json.loads(peer.asked[-1].body)
    assert sent == {"kind": "costing.run", "company": "ACME", "payload": {"period": "2026-01"}}


def test_two_submits_have_two_keys(peer: Peer) -> None:
    peer.say(202, {"id": "0190-job", "created": True})
    assert run(SUBMIT) == run(SUBMIT) == 0
    assert peer.asked[0].headers["idempotency-key"] != peer.asked[1].headers["idempotency-key"]


def test_an_api_that_never_answers_ends_with_69_and_names_the_key(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The caller learns that it is not known whether the job exists, and how to ask again."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        monkeypatch.setenv("CHOT_API_URL", f"http://127.0.0.1:{unused.getsockname()[1]}")
        assert run([*SUBMIT, "--retry-for", "0.1", "--key", "mine"]) == 69
    said = capsys.readouterr().err
    assert "no answer from the api" in said
    assert "--key mine" in said


@pytest.mark.parametrize(
    ("status", "code"), [(404, 3), (400, 4), (401, 4), (403, 4), (422, 4), (409, 5), (500, 69)]
)
def test_a_refusal_is_final_and_has_its_exit_code(peer: Peer, status: int, code: int) -> None:
    """Nothing that cannot pass by itself is asked twice."""
    peer.say(status, {"title": "no", "status": status})
    assert run(["status", "0190-job"]) == code
    assert len(peer.asked) == 1


def test_what_to_do_about_a_lacking_right_is_for_whoever_lacks_it(
    peer: Peer, capsys: pytest.CaptureFixture[str]
) -> None:
    """`chot keys` asks for the owner's database, which such a caller has not."""
    detail = "GET /v1/audit asks for role admin"
    peer.say(403, {"title": "The account lacks the right", "status": 403, "detail": detail})
    assert run(["audit"]) == 4
    said = capsys.readouterr().err
    assert "asks for role admin" in said
    assert "whoever makes the keys here" in said
    assert "chot keys" not in said


def test_a_refusal_names_field_value_and_rule(
    peer: Peer, capsys: pytest.CaptureFixture[str]
) -> None:
    errors = [
        {"field": "payload.period", "value": "2026-13", "rule": "a month, YYYY-MM"},
        {"field": "company", "value": None, "rule": "is required"},
    ]
    peer.say(422, {"title": "The request breaks a rule", "errors": errors})
    assert run(SUBMIT) == 4
    said = capsys.readouterr().err
    assert said.splitlines() == [
        "chot: The request breaks a rule",
        "  payload.period = '2026-13': a month, YYYY-MM",
        "  company: is required",
    ]


def test_a_value_of_the_wrong_type_is_shown_as_what_it_is(
    peer: Peer, capsys: pytest.CaptureFixture[str]
) -> None:
    """202601 the number is not '202601' the text, and that is the fault."""
    errors = [
        {"field": f"payload.f{n}", "value": value, "rule": "must be a string"}
        for n, value in enumerate(["202601", "true", "[1,2", '{"a":1}'])
    ]
    peer.say(422, {"title": "The request breaks a rule", "errors": errors})
    assert run([*SUBMIT[:-1], "period:=202601"]) == 4
    assert [line.strip() for line in capsys.readouterr().err.splitlines()[1:5]] == [
        "payload.f0 = 202601 (a number): must be a string",
        "payload.f1 = true (true or false): must be a string",
        "payload.f2 = [1,2 (a list): must be a string",
        'payload.f3 = {"a":1} (an object): must be a string',
    ]


@pytest.mark.parametrize(
    ("slug", "named"),
    [("job-not-found", "`chot list`"), ("queue-not-found", "`chot queues`"), ("not-found", "/v1?")],
)
def test_what_is_not_there_says_where_to_look_for_its_like(
    peer: Peer, capsys: pytest.CaptureFixture[str], slug: str, named: str
) -> None:
    problem = {"type": f"https://chot.example/problems/{slug}", "title": "no", "status": 404}
    peer.say(404, problem)
    assert run(["pause", "nope"]) == 3
    last = capsys.readouterr().err.splitlines()[-1]
    assert named in last
    assert ("chot list" in last) == (slug == "job-not-found")


@pytest.mark.parametrize("reason", [None, "missing", *Refused])
def test_an_approval_is_asked_for_in_commands(
    peer: Peer, capsys: pytest.CaptureFixture[str], reason: str | None
) -> None:
    """Why one did not count is told first."""
    problem = problem_body(
        approval_required(
            Action.JOB_REDRIVE, "0190-job", Refused(reason) if reason in set(Refused) else None
        )
    )
    peer.say(403, problem)
    assert run(["redrive", "0190-job"]) == 4
    said = capsys.readouterr().err
    assert "`chot approve job.redrive 0190-job`, then `chot redrive 0190-job --approval …`" in said
    assert "/v1/" not in said
    assert "chot keys list" not in said
    assert ("that approval" in said or "no approval" in said) == (reason in set(Refused))


def test_text_for_a_number_is_explained(peer: Peer, capsys: pytest.CaptureFixture[str]) -> None:
    """count=5 is text, for the sake of stores called 007."""
    errors = [{"field": "payload.count", "value": "5", "rule": "should be a valid integer"}]
    peer.say(422, {"title": "The request breaks a rule", "status": 422, "errors": errors})
    assert run(["submit", "k", "--company", "ACME", "count=5"]) == 4
    assert "count:=5" in capsys.readouterr().err
    assert run(["submit", "k", "--company", "ACME", "count=five"]) == 4
    assert ":=" not in capsys.readouterr().err


def test_json_is_one_document_also_when_refused(
    peer: Peer, capsys: pytest.CaptureFixture[str]
) -> None:
    problem = {"title": "No such job", "status": 404}
    peer.say(404, problem)
    assert run(["status", "x", "--json"]) == 3
    told = json.loads(capsys.readouterr().out)["error"]
    assert told["exit_code"] == 3
    assert told["problem"] == problem


def test_something_that_is_no_chot_api_is_said_so(
    peer: Peer, capsys: pytest.CaptureFixture[str]
) -> None:
    peer.script.append((200, [], {}))  # type: ignore[arg-type] # a list is what is wrong here
    assert run(["list"]) == 69
    assert "is CHOT_API_URL the address of a Chốt api?" in capsys.readouterr().err


def test_an_id_stays_one_segment_of_the_path(peer: Peer) -> None:
    """Whatever is typed as an id cannot reach another route."""
    peer.say(404, {"title": "No such job"})
    run(["cancel", "../queues/x?y"])
    assert peer.asked[0].path == "/v1/jobs/..%2Fqueues%2Fx%3Fy/cancel"


def test_list_follows_the_cursor_until_its_limit(
    peer: Peer, capsys: pytest.CaptureFixture[str]
) -> None:
    peer.say(200, {"jobs": [job()] * 200, "next_cursor": "c1"})
    peer.say(200, {"jobs": [job()] * 20, "next_cursor": "c2"})
    assert run(["list", "--state", "running", "--limit", "220", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (len(told["jobs"]), told["more"]) == (220, True)
    assert [asked.path for asked in peer.asked] == [
        "/v1/jobs?state=running&limit=200",
        "/v1/jobs?state=running&limit=20&cursor=c1",
    ]


@pytest.mark.parametrize("token", ["khóa", "two words", "with-its-line-end\n", "a\tb"])
def test_a_token_that_no_header_can_carry_is_a_setting_that_is_wrong(
    peer: Peer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], token: str
) -> None:
    """And not an api that does not answer; the key itself is not shown."""
    monkeypatch.setenv("CHOT_TOKEN", token)
    assert run(["list"]) == 78
    said = capsys.readouterr().err
    assert "CHOT_TOKEN" in said
    assert token.strip() not in said
    assert peer.asked == []


def test_an_empty_token_is_none(peer: Peer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHOT_TOKEN", "")
    peer.say(200, {"jobs": [], "next_cursor": None})
    assert run(["list"]) == 0
    assert "authorization" not in peer.asked[0].headers


def test_a_submit_under_a_key_that_was_used_says_so(
    peer: Peer, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its stored answer is of then; a lost first try of a key of our own is none of that."""
    peer.say(202, {"id": "0190-job", "created": True}, Idempotency_Replayed="true")
    assert run([*SUBMIT, "--key", "mine"]) == 0
    written = capsys.readouterr()
    assert written.out == "0190-job\n"
    assert "accepted before under this key; `chot status 0190-job`" in written.err
    assert run([*SUBMIT, "--key", "mine", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["replayed"] is True
    assert run(SUBMIT) == 0
    assert "accepted before" not in capsys.readouterr().err
    peer.script = [(202, {"id": "0190-job", "created": True}, {})]
    assert run([*SUBMIT, "--key", "mine", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["replayed"] is False


def test_a_run_at_that_is_past_is_taken_and_said(
    peer: Peer, capsys: pytest.CaptureFixture[str]
) -> None:
    """On stderr, of a new job only; a time to come, and work that is active already, say nothing."""
    past, then = "2001-01-31t02:00:00+07:00", "2199-01-31T02:00:00Z"
    peer.say(202, {"id": "0190-job", "created": True})
    assert run([*SUBMIT, "--run-at", past]) == 0
    written = capsys.readouterr()
    assert written.out == "0190-job\n"
    assert f"--run-at {past} is past" in written.err
    assert "runs at once" in written.err
    assert json.loads(peer.asked[0].body)["run_at"] == past
    assert run([*SUBMIT, "--run-at", past, "--json"]) == 0
    written = capsys.readouterr()
    assert json.loads(written.out)["id"] == "0190-job"
    assert "is past" in written.err
    assert run([*SUBMIT, "--run-at", then]) == run(SUBMIT) == 0
    assert "is past" not in capsys.readouterr().err
    peer.script = [(202, {"id": "0190-job"}, {"Idempotency_Replayed": "true"})]
    assert run([*SUBMIT, "--run-at", past, "--key", "mine"]) == 0
    assert "is past" not in capsys.readouterr().err
    peer.script = [(200, job("pending", created=False, duplicate="joined"), {})]
    assert run([*SUBMIT, "--run-at", past]) == 0
    assert "is past" not in capsys.readouterr().err


def test_what_comes_after_a_running_job_is_not_promised_by_its_id(
    peer: Peer, capsys: pytest.CaptureFixture[str]
) -> None:
    """The payload is kept for a job of its own: waiting for the one that runs is not waiting for it."""
    peer.say(200, job("running", created=False, duplicate="follow_up"))
    assert run(SUBMIT) == 0
    said = capsys.readouterr().err
    assert "this payload becomes a job of its own when that ends" in said
    assert "follows the one that runs" in said
