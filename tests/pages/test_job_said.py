"""What a job's page says over HTTP, in both languages: why it waits, and where to go from there."""

import re
from collections.abc import AsyncIterator

import httpx
import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from api.settings import ApiSettings
from api.ui.sentence import on_page
from api.ui.why_vietnamese import SENTENCES
from shared.jobs.reasons import Reason
from tests.pages.browsing import text_of
from tests.protocol.api.app import serving
from tests.protocol.reasons import SETUPS

# Where the page of a job that waits for it leads, and a word of its sentence in each language.
LEADS = {
    Reason.BACKOFF: (r'href="#attempt-1"', "is tried again in", "thử lại sau"),
    Reason.SNOOZED: (r'href="#attempt-1"', "asked for the job to be run again", "xin chạy tiếp"),
    Reason.HANDED_BACK: (r'href="#attempt-1"', "handed the job back", "trả công việc lại"),
    Reason.SCHEDULED: (None, "not to start before", "chưa được bắt đầu trước"),
    Reason.QUEUE_PAUSED: (r'href="/ui/queues\?name=default"', "is paused", "đang tạm dừng"),
    Reason.KIND_PAUSED: (r'href="/ui/jobs\?kind=probe.write', "is paused", "đang tạm dừng"),
    Reason.BOOKS_FROZEN: (r"chot thaw ACME --brand RED", "have been frozen since", "bị khóa từ"),
    Reason.JOB_PAUSED: (r"chot migrations resume", "has been paused since", "bị tạm dừng từ"),
    Reason.GROUP_CANCELLING: (r'href="/ui/jobs\?group=', "is being cancelled", "đang bị hủy"),
    Reason.GROUP_OPEN: (r'href="/ui/jobs\?group=', "1 of 3 members", "1/3 thành viên"),
    Reason.OUT_OF_ATTEMPTS: (r'href="#attempt-1"', "No attempt is left", "Không còn lần chạy"),
    Reason.NO_WORKER: (r'href="/ui/#workers"', "No live worker serves", "Không có worker"),
    Reason.KIND_UNKNOWN: (r'href="/ui/#workers"', "knows kind probe.write", "không worker nào"),
    Reason.VERSION_UNKNOWN: (r'href="/ui/#workers"', "is of version 2", "phiên bản 2"),
    Reason.WORKERS_STOPPING: (r'href="/ui/#workers"', "is draining", "đang dừng"),
    Reason.LOCK_HELD: (r'class="button" href="/ui/jobs/[0-9a-f-]{36}"', "holds books", "giữ books"),
    Reason.LOCK_RESERVED: (
        r'class="button" href="/ui/jobs/[0-9a-f-]{36}"',
        "goes first",
        "ưu tiên trước",
    ),
    Reason.RUNS_ALONE: (r'href="/ui/#workers"', "lost its worker 2 times", "mất worker 2 lần"),
    Reason.WORKERS_ALONE: (r'href="/ui/#workers"', "a job that runs alone", "chạy một mình"),
    Reason.KIND_MAXIMUM: (r"state=running&amp;kind=probe", "(2 run, 2 may)", "được chạy 2"),
    Reason.LIMIT_REACHED: (
        r"state=running&amp;company=ACME&amp;brand=RED",
        "(2 run, 2 may)",
        "đang chạy 2, được chạy 2",
    ),
    Reason.MESSAGE_REFUSED: (r'href="/ui/queues\?name=default"', "for good", "từ chối hẳn"),
    Reason.WINDOW_FULL: (r"state=pending&amp;kind=probe.write", "behind 2", "sau 2 tin"),
    Reason.PUBLISHING_FAILED: (r'href="/ui/queues\?name=default"', "tried 1 times", "đã thử 1 lần"),
    Reason.PUBLISHING: (
        r'href="/ui/queues\?name=default"',
        "on its way to SQS",
        "trên đường tới SQS",
    ),
    Reason.SLOTS_BUSY: (r'href="/ui/#workers"', "all 4 slots", "cả 4 chỗ chạy"),
    Reason.DELIVERY: (r'href="/ui/#workers"', "3 of 4 slots", "3/4 chỗ chạy"),
    Reason.LEASE_EXPIRED: (r'href="/ui/#workers"', "without being renewed", "đã hết hạn"),
    Reason.WORKER_SILENT: (r'href="/ui/#workers"', "not been heard of for 3", "im lặng 3"),
    Reason.RUNNING: (r'href="/ui/#workers"', "has been running attempt 1", "đang chạy lần 1"),
    Reason.SUCCEEDED: (None, "succeeded at", "đã hoàn tất"),
    Reason.CANCELLED: (None, "was cancelled at", "đã bị hủy"),
    Reason.DEAD: (r'href="#attempt-1"', "leftovers are removed", "chưa được dọn"),
}


@pytest.fixture
async def reader(probes: AsyncEngine, settings: ApiSettings) -> AsyncIterator[httpx.AsyncClient]:
    """A client of an open api that knows the probe kinds."""
    assert probes is not None
    known = settings.model_copy(update={"kind_modules": "tests.probes.kinds"})
    async with serving(known) as client:
        client.base_url = httpx.URL("http://localhost")  # an open api shows pages there only
        yield client


@pytest.mark.parametrize("reason", Reason)
async def test_the_page_says_why_a_job_waits_and_leads_on(
    probes: AsyncEngine, reader: httpx.AsyncClient, reason: Reason
) -> None:
    """Each reason, brought about in earnest: its sentence, what to do, and a link that is there."""
    job_id = await SETUPS[reason](probes)
    link, english, vietnamese = LEADS[reason]
    for language, said in (("en", english), ("vi", vietnamese)):
        page = await reader.get(f"/ui/jobs/{job_id}?lang={language}")
        assert page.status_code == 200, text_of(page.text)
        assert f'data-reason="{reason}"' in page.text
        sentence = re.search(r'<p class="sentence"[^>]*>(.*?)</p>', page.text, re.DOTALL)
        assert sentence is not None
        words = text_of(sentence[1])
        assert said in words, words
        assert "None" not in words
        assert "/v1/" not in words
        if link is not None:
            assert re.search(link, page.text), page.text
        places = re.findall(r'href="(/ui/jobs[^"#]*|/ui/)["#]', page.text)
        for place in sorted(set(places)):
            followed = await reader.get(place.replace("&amp;", "&"))
            assert followed.status_code == 200, (place, text_of(followed.text))


def test_every_reason_is_said_in_vietnamese_and_has_a_place_here() -> None:
    """A new reason fails here until it has its words."""
    assert set(SENTENCES) | {Reason.DEAD} == set(Reason)
    assert set(LEADS) == set(Reason)


def test_what_a_sentence_holds_is_text() -> None:
    """Whatever an error or a kind is called, it is no markup; jobs and times become links."""
    job = "0199c2f4-7d9a-7cc1-a3c8-2f4f1d0f6a10"
    other = "0199c2f4-7d9a-7cc1-a3c8-2f4f1d0f6a11"
    said = f"Job {other} (<img src=x onerror=alert(1)>) at 2026-01-31T18:00:00Z holds; {job}"
    html = str(on_page(said, "en", job))
    assert "<img" not in html
    assert f'href="/ui/jobs/{other}"' in html
    assert f'href="/ui/jobs/{job}"' not in html
    assert ">2026-02-01 01:00:00</time>" in html
