"""The client against what no good api sends: its time holds, its errors are its own."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from shared.client import ApiError, ChotClient, JobRequest, StillActive, Unreachable
from shared.client.errors import Unavailable
from tests.unit.client.conftest import JOB_ID, answer, job, standing

DEEP = b"[" * 200_000
Call = Callable[[ChotClient], Awaitable[Any]]


async def listed(chot: ChotClient) -> list[Any]:
    """All pages."""
    return [each async for each in chot.list()]


async def told(chot: ChotClient) -> list[Any]:
    """All events."""
    return [each async for each in chot.events(JOB_ID)]


CALLS: dict[str, Call] = {
    "get": lambda chot: chot.get(JOB_ID),
    "wait": lambda chot: chot.wait(JOB_ID, timeout=1),
    "submit": lambda chot: chot.submit("k", company="C", payload={}),
    "batch": lambda chot: chot.batch([JobRequest(kind="k", company="C", payload={})]),
    "cancel": lambda chot: chot.cancel(JOB_ID),
    "list": listed,
    "why": lambda chot: chot.why(JOB_ID),
    "queues": lambda chot: chot.queues(),
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("body", [b"{}", b"[]", b"5", b"null", b"<html>", b"\xff", DEEP, b""])
async def test_an_answer_that_is_none_of_ours_is_unavailable(call: str, body: bytes) -> None:
    """Whatever stands behind the address: an error of the client's own, under the caller's key."""
    async with standing(answer(body)) as stand, ChotClient(stand.url, deadline=0.5) as chot:
        with pytest.raises(Unavailable) as caught:
            await CALLS[call](chot)
    assert caught.value.status == 200
    assert bool(caught.value.key) == (call in {"submit", "batch"})


@pytest.mark.parametrize("body", [DEEP, b"[]", b'{"errors": 5}', b'{"errors": [1, {}]}'])
async def test_a_problem_that_is_none_is_told_by_its_status(body: bytes) -> None:
    said = answer(body, "422 No")
    async with standing(said) as stand, ChotClient(stand.url, deadline=0.5) as chot:
        with pytest.raises(ApiError) as caught:
            await chot.get(JOB_ID)
    assert caught.value.status == 422


async def test_what_cannot_be_unpacked_is_no_answer() -> None:
    said = answer(b"no gzip", Content_Encoding="gzip")
    async with standing(said) as stand, ChotClient(stand.url, deadline=0.1) as chot:
        with pytest.raises(Unreachable):
            await chot.get(JOB_ID)


async def test_a_page_that_names_itself_as_the_next_one_ends_the_list() -> None:
    page = answer({"jobs": [job()], "next_cursor": "again"})
    async with standing(page) as stand, ChotClient(stand.url) as chot:
        with pytest.raises(Unavailable, match="next_cursor"):
            await listed(chot)
    assert len(stand.asked) == 2


@pytest.mark.parametrize("first", [None, answer(job())], ids=["never", "once"])
async def test_a_wait_ends_in_its_time_whatever_the_api_does(first: bytes | None) -> None:
    """A server that sends a byte now and then: StillActive of a job that was seen."""
    async with standing(first, None) as stand, ChotClient(stand.url) as chot:
        began = asyncio.get_running_loop().time()
        with pytest.raises(StillActive if first else Unreachable):
            await chot.wait(JOB_ID, timeout=0.4)
        assert asyncio.get_running_loop().time() - began < 1.5


async def test_a_wait_without_time_looks_once() -> None:
    async with standing(answer(job())) as stand, ChotClient(stand.url) as chot:
        with pytest.raises(StillActive):
            await chot.wait(JOB_ID, timeout=0)
    assert len(stand.asked) == 1


async def test_text_of_a_job_ends_no_line_of_the_stream() -> None:
    """U+2028 and its like are ends of lines to str.splitlines, and none to the standard."""
    text = "a\u2028b\u2029c\x85d"
    data = json.dumps(job("succeeded", principal=text), ensure_ascii=False)
    events = f"id: 1\r\nevent: end\r\ndata: {data}\r\n\r\n".encode()
    said = answer(events, Content_Type="text/event-stream")
    async with standing(said) as stand, ChotClient(stand.url, deadline=0.5) as chot:
        found = await told(chot)
    assert [each.job.principal for each in found] == [text]


async def test_an_approval_goes_with_a_redrive() -> None:
    async with standing(answer({})) as stand, ChotClient(stand.url) as chot:
        await chot.redrive(JOB_ID)
        await chot.redrive(JOB_ID, approval="an-approval")
    assert stand.asked[0].endswith("\r\n\r\n")
    assert json.loads(stand.asked[1].rpartition("\r\n\r\n")[2]) == {"approval": "an-approval"}


@pytest.mark.parametrize("said", [answer({}, "403 No"), answer({}, "503 Busy"), answer({})])
async def test_an_error_of_a_batch_has_the_key_of_the_call(said: bytes) -> None:
    """The same call with a part's key would go out under other keys, and submit twice."""
    async with standing(said) as stand, ChotClient(stand.url, deadline=0.1) as chot:
        with pytest.raises(ApiError) as caught:
            await chot.batch([JobRequest(kind="k", company="C", payload={})], key="nightly")
    assert caught.value.key == "nightly"
    assert '"nightly.0"' in stand.asked[0]


@pytest.mark.parametrize(("length", "jobs"), [(254, 1), (253, 1), (253, 10_001), (300, 1)])
async def test_a_key_without_room_for_its_parts_sends_nothing(length: int, jobs: int) -> None:
    wanted = [JobRequest(kind="k", company="C", payload={})] * jobs
    async with standing(answer({}, "403 No")) as stand, ChotClient(stand.url) as chot:
        with pytest.raises(
            ApiError if (length, jobs) == (253, 1) else ValueError, match=r"key has|403"
        ):
            await chot.batch(wanted, key="k" * length)
    assert len(stand.asked) == ((length, jobs) == (253, 1))
