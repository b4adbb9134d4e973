"""Where a webhook is sent to is decided by whom the connection is with, not by what a name meant."""

import ipaddress
import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from shared.alerts import addresses
from shared.alerts.addresses import is_metadata
from shared.alerts.notices import Notice
from shared.alerts.webhook import NotDelivered, Webhook
from tests.protocol.alerts.listening import Receiver

NAME = "receiver.example"
NOTICES = [
    Notice(
        rule="r",
        subject="",
        version=1,
        body={"status": "firing", "subject": "", "rule": "r"}
        | dict.fromkeys(("severity", "summary", "remedy", "runbook"), "x")
        | {"again": False, "value": 1.0},
    )
]


@pytest.fixture
def metadata(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[int, list[bytes]]]:
    """127.0.0.2 stands in for 169.254.169.254, which is not there: its port, and what it was sent."""
    monkeypatch.setattr(
        addresses, "NETWORKS", (*addresses.NETWORKS, ipaddress.ip_network("127.0.0.2/32"))
    )
    assert is_metadata("127.0.0.2")
    heard: list[bytes] = []
    server = socket.create_server(("127.0.0.2", 0))

    def listen() -> None:
        while True:
            try:
                client, _ = server.accept()
            except OSError:
                return
            with client:
                client.settimeout(5)
                heard.append(client.recv(65_536))

    thread = threading.Thread(target=listen, daemon=True)
    thread.start()
    yield server.getsockname()[1], heard
    server.shutdown(socket.SHUT_RDWR)
    server.close()
    thread.join()


def named(monkeypatch: pytest.MonkeyPatch, *meanings: str) -> list[str]:
    """The name means one address after the other; what is left of them."""
    left = list(meanings)
    real = socket.getaddrinfo

    def look(host: Any, *rest: Any, **more: Any) -> Any:
        said = host.decode() if isinstance(host, bytes) else host
        if said == NAME:
            host = left.pop(0) if len(left) > 1 else left[0]
        return real(host, *rest, **more)

    monkeypatch.setattr(socket, "getaddrinfo", look)
    return left


async def test_a_name_that_means_another_machine_by_now_gets_nothing(
    metadata: tuple[int, list[bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rebinding: whoever looked a moment ago has seen 127.0.0.1. Not a byte arrives."""
    port, heard = metadata
    named(monkeypatch, "127.0.0.1", "127.0.0.2")
    first = socket.getaddrinfo(NAME, port, type=socket.SOCK_STREAM)[0][4][0]
    assert first == "127.0.0.1"
    webhook = Webhook(url=f"http://{NAME}:{port}/hook", secret=None, deployment="here")
    with pytest.raises(NotDelivered, match="credentials"):
        await webhook.send(NOTICES)
    assert [each for each in heard if each] == []


async def test_an_address_in_another_spelling_gets_nothing(
    metadata: tuple[int, list[bytes]],
) -> None:
    """As the settings would refuse it, had it been 169.254.169.254."""
    port, heard = metadata
    for host in ("2130706434", "0x7f000002", "127.2", "[::ffff:127.0.0.2]"):
        webhook = Webhook(url=f"http://{host}:{port}/hook", secret=None, deployment="here")
        with pytest.raises(NotDelivered):
            await webhook.send(NOTICES)
    assert [each for each in heard if each] == []


async def test_a_redirect_to_it_is_not_followed(
    metadata: tuple[int, list[bytes]], receiver: Receiver
) -> None:
    """The receiver may name what it likes."""
    port, heard = metadata
    receiver.status, receiver.headers = 307, {"Location": f"http://127.0.0.2:{port}/latest"}
    with pytest.raises(NotDelivered, match="307"):
        await Webhook(url=receiver.url, secret=None, deployment="here").send(NOTICES)
    assert heard == []


async def test_a_name_that_means_a_receiver_is_sent_to(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And by its name, which the Host header has."""
    named(monkeypatch, "127.0.0.1")
    url = receiver.url.replace("127.0.0.1", NAME)
    await Webhook(url=url, secret=None, deployment="here").send(NOTICES)
    ((headers, _),) = receiver.posts
    assert headers["Host"].partition(":")[0] == NAME
