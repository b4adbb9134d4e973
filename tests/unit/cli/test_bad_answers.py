"""The command against what no good api sends: a sentence and an exit code, in its time."""

import json
import socket
import threading
import time
from collections.abc import Iterator

import pytest

from shared.cli import run
from tests.unit.cli.conftest import Peer, job

COMMANDS = {
    "status": ["status", "x"],
    "wait": ["wait", "x"],
    "cancel": ["cancel", "x"],
    "why": ["why", "x"],
    "list": ["list"],
    "audit": ["audit"],
    "redrive": ["redrive", "x"],
    "redrive all": ["redrive", "--all"],
    "submit": ["submit", "k", "--company", "C"],
    "queues": ["queues"],
    "workers": ["workers"],
    "dead letters": ["dead-letters"],
}


@pytest.mark.parametrize("name", COMMANDS)
def test_an_empty_object_is_no_answer(
    peer: Peer, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    """Another program behind the address: out of reach, and no bug of ours."""
    peer.say(200, {})
    assert run(COMMANDS[name]) == 69
    assert "is CHOT_API_URL the address of a Chốt api" in capsys.readouterr().err


@pytest.mark.parametrize("words", [["list"], ["audit"], ["redrive", "--all"]])
def test_a_page_that_names_itself_as_the_next_one_is_an_end(peer: Peer, words: list[str]) -> None:
    page = {"jobs": [], "acts": [], "redriven": [], "refused": [], "next_cursor": "again"}
    peer.say(200, page)
    assert run(words) == 69
    assert len(peer.asked) == 2


@pytest.mark.parametrize(
    "body", [b"[" * 200_000, b"[]", b"5", b'{"id": 1, "kind": [], "state": {}}', b"\xff"]
)
def test_what_is_no_job_is_out_of_reach(
    monkeypatch: pytest.MonkeyPatch, body: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    head = f"HTTP/1.1 200 OK\r\nContent-Length: {len(body)}\r\n\r\n".encode()
    with socket.create_server(("127.0.0.1", 0)) as server:
        monkeypatch.setenv("CHOT_API_URL", f"http://127.0.0.1:{server.getsockname()[1]}")
        thread = threading.Thread(target=_answer_once, args=(server, head + body))
        thread.start()
        assert run(["status", "x", "--retry-for", "0"]) == 69
        thread.join()
    assert "is CHOT_API_URL the address" in capsys.readouterr().err


def _answer_once(server: socket.socket, said: bytes) -> None:
    connection, _ = server.accept()
    with connection:
        connection.recv(65536)
        connection.sendall(said)


@pytest.fixture
def dripping(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[bytes]]:
    """A server at CHOT_API_URL that answers as the list says, then by a byte at a time."""
    whole: list[bytes] = []
    over = threading.Event()
    server = socket.create_server(("127.0.0.1", 0))
    monkeypatch.setenv("CHOT_API_URL", f"http://127.0.0.1:{server.getsockname()[1]}")

    def serve() -> None:
        while not over.is_set():
            connection, _ = server.accept()
            with connection:
                connection.recv(65536)
                if whole:
                    connection.sendall(whole.pop(0))
                    continue
                try:
                    connection.sendall(b"HTTP/1.1 200 OK\r\nX-Drip: ")
                    while not over.wait(0.02):
                        connection.sendall(b"x")
                except ConnectionError:
                    continue

    thread = threading.Thread(target=serve)
    thread.start()
    yield whole
    over.set()
    socket.create_connection(server.getsockname()).close()
    thread.join()
    server.close()


@pytest.mark.usefixtures("dripping")
def test_an_answer_that_never_ends_costs_a_try_and_no_more(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each byte comes in time, their sum does not: the whole try is bounded."""
    monkeypatch.setattr("shared.cli.http.Api.__init__.__kwdefaults__", {"timeout": 0.3})
    began = time.monotonic()
    assert run(["status", "x", "--retry-for", "0.2"]) == 69
    assert time.monotonic() - began < 3
    assert "no whole answer in 0.3 s" in capsys.readouterr().err


def test_a_wait_with_a_timeout_ends_while_an_answer_drips(dripping: list[bytes]) -> None:
    """The job was seen: 124, a second after its time at most."""
    body = json.dumps(job("running")).encode()
    head = f"HTTP/1.1 200 OK\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    dripping.append(head.encode() + body)
    began = time.monotonic()
    assert run(["wait", "x", "--timeout", "0.3"]) == 124
    assert time.monotonic() - began < 3


@pytest.mark.parametrize("words", [["status", "x"], ["list", "--json"], ["config", "client"]])
def test_a_password_in_the_address_is_refused_and_shown_nowhere(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    monkeypatch.setenv("CHOT_API_URL", "http://user:hunter2@127.0.0.1:1")
    assert run(words) == 78
    written = capsys.readouterr()
    assert "CHOT_API_URL: must hold no user and password" in written.err
    assert "hunter2" not in written.out + written.err
