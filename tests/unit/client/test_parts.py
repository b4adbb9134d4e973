"""The client's parts: streams of events, bodies of batches, keys as headers have them."""

import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from decimal import Decimal

import pytest

from api.idempotency_key import parse_key
from shared.client import ChotClient, JobRequest
from shared.client.stream import Message, read_lines, read_messages
from shared.client.wanted import BATCH_BYTES, batch_bodies, instant_text, key_header
from shared.json_text import to_json


async def lines(text: str) -> AsyncIterator[str]:
    """The lines of a stream."""
    for line in text.split("\n"):
        yield line


@pytest.mark.parametrize("size", [1, 2, 3, 100])
async def test_lines_end_as_the_standard_has_it(size: int) -> None:
    """CR LF, CR and LF, wherever the chunks are cut; a character may be cut in two as well."""
    stream = "\ufeffa\r\nb\rc\n\n\u2028é\x85\r\r\nend\r\nhalf".encode()

    async def chunks() -> AsyncIterator[bytes]:
        for at in range(0, len(stream), size):
            yield stream[at : at + size]

    found = [line async for line in read_lines(chunks())]
    assert found == ["a", "b", "c", "", "\u2028é\x85", "", "end"]


async def test_lines_become_events() -> None:
    """Comments pass, data of several lines is joined, an id stays, a half event is none."""
    stream = (
        "retry: 2000\n\n: alive\n\nid: 1\nevent: state\ndata: {}\n\n"
        "data:a\ndata: b\n\nid: 2\n\nevent: end\ndata: x\n\nevent: half\ndata: never"
    )
    found = [message async for message in read_messages(lines(stream))]
    assert found == [
        Message(id="1", name="state", data="{}"),
        Message(id="1", name="message", data="a\nb"),
        Message(id="2", name="end", data="x"),
    ]


@pytest.mark.parametrize("key", ["plain", 'with "quotes"', "back\\slash", "a b;c", "8e03978e-40d5"])
def test_a_key_survives_the_header(key: str) -> None:
    """What the client writes, the api reads."""
    assert parse_key([key_header(key)]) == key


@pytest.mark.parametrize("key", ["é", "a\nb", "\x00"])
def test_what_no_header_can_say_is_refused_at_once(key: str) -> None:
    with pytest.raises(ValueError, match="printable ASCII"):
        key_header(key)


def test_batches_are_cut_by_number_and_by_size() -> None:
    """The same jobs give the same bodies, so that their keys stay true."""
    small = ['{"n":1}'] * 2001
    bodies = list(batch_bodies(small))
    assert [len(json.loads(body)["jobs"]) for body in bodies] == [1000, 1000, 1]
    large = [json.dumps({"x": "é" * 120_000}, ensure_ascii=False)] * 60
    cut = list(batch_bodies(large))
    assert len(cut) > 1
    assert all(len(body.encode()) < BATCH_BYTES + 300 * 1024 for body in cut)
    assert sum(len(json.loads(body)["jobs"]) for body in cut) == 60
    assert list(batch_bodies(large)) == cut
    assert list(batch_bodies([])) == []


def test_a_request_leaves_out_what_was_not_given() -> None:
    wanted = JobRequest(kind="k", company="C", payload={"amount": Decimal("1.10")})
    assert to_json(wanted.body()) == '{"kind":"k","company":"C","payload":{"amount":1.10}}'


def test_an_instant_needs_an_offset() -> None:
    assert instant_text(datetime(2026, 1, 31, tzinfo=UTC), "x") == "2026-01-31T00:00:00+00:00"
    with pytest.raises(ValueError, match=r"run_at.* offset"):
        instant_text(datetime(2026, 1, 31), "run_at")  # noqa: DTZ001 - the point


async def test_what_is_no_instant_is_named() -> None:
    """Before anything is sent: nobody listens at that address."""
    async with ChotClient("http://127.0.0.1:1", deadline=0) as chot:
        with pytest.raises(TypeError, match=r"run_at must be a datetime .*'tomorrow'"):
            await chot.submit("k", company="C", payload={}, run_at="tomorrow")  # type: ignore[arg-type] # the point
        with pytest.raises(TypeError, match="created_from must be a datetime"):
            await anext(aiter(chot.list(created_from="now")))  # type: ignore[arg-type] # the point


@pytest.mark.parametrize("token", ["", "khóa", "a b", "ends\n", "a\r\nHost: x", "\x7f"])
def test_a_key_that_no_header_can_carry_is_refused_and_not_repeated(token: str) -> None:
    with pytest.raises(ValueError, match=r"^token is ") as refused:
        ChotClient("http://127.0.0.1:1", token)
    assert not token or token not in str(refused.value)


NO_ADDRESSES = (
    "",
    "localhost:8000",
    "ftp://x",
    "http://",
    "http://x:port",
    "http://x:0",
    "http://x:99999",
    "http://x y",
    "http://x?key=1",
    "http://x/#jobs",
)


@pytest.mark.parametrize("url", NO_ADDRESSES)
def test_an_address_where_no_api_can_be_is_refused_at_once(url: str) -> None:
    with pytest.raises(ValueError, match=r"^url "):
        ChotClient(url)


@pytest.mark.parametrize(
    "url", ["http://u:hunter2@x", "http://hunter2@x/", "http://u:hunter2/@x", "u:hunter2@x"]
)
def test_an_address_with_a_password_is_refused_and_not_repeated(url: str) -> None:
    """Whatever is said of an address that does not answer would have it."""
    with pytest.raises(ValueError, match=r"^url must hold no user and password") as refused:
        ChotClient(url)
    assert "hunter2" not in str(refused.value)
