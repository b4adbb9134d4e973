"""The client's parts: streams of events, bodies of batches, keys as headers have them."""

import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from decimal import Decimal

import pytest

from api.idempotency_key import parse_key
from shared.client import JobRequest
from shared.client.stream import Message, read_messages
from shared.client.wanted import BATCH_BYTES, batch_bodies, instant_text, key_header
from shared.json_text import to_json


async def lines(text: str) -> AsyncIterator[str]:
    """The lines of a stream."""
    for line in text.split("\n"):
        yield line


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
    assert instant_text(datetime(2026, 1, 31, tzinfo=UTC)) == "2026-01-31T00:00:00+00:00"
    with pytest.raises(ValueError, match="offset"):
        instant_text(datetime(2026, 1, 31))  # noqa: DTZ001 - the point
