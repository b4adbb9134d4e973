"""When to ask again: the rule that the command line and the client share."""

import ast
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path

import httpx
import pytest

from api.problems import PROBLEMS, RETRY_AFTER_SECONDS
from shared.client.errors import STATUSES, TYPES, ApiError, BadRequest, Unavailable, error_of
from shared.client.patience import Patience, may_pass, retry_after_of

ROOT = Path(__file__).parents[3]


def answer(status: int, **headers: str) -> httpx.Response:
    """An answer with these headers."""
    return httpx.Response(status, headers={k.replace("_", "-"): v for k, v in headers.items()})


@pytest.mark.parametrize("slug", PROBLEMS)
def test_what_the_api_says_may_pass_is_asked_again(slug: str) -> None:
    """A problem with Retry-After, and no other: the page says so, the client believes it."""
    status, seconds = PROBLEMS[slug][0], RETRY_AFTER_SECONDS.get(slug)
    headers = {} if seconds is None else {"retry-after": str(seconds)}
    assert may_pass(httpx.Response(status, headers=headers)) == (seconds is not None)


def test_a_lost_connection_and_a_gateway_are_asked_again() -> None:
    assert may_pass(httpx.ReadError("reset"))
    assert may_pass(httpx.ConnectError("refused"))
    assert all(may_pass(answer(status)) for status in (408, 429, 502, 503, 504))
    assert not any(may_pass(answer(status)) for status in (200, 400, 401, 404, 409, 422, 500))


def test_what_was_never_sent_is_not_asked_again() -> None:
    """The fault is in the request, and comes again with it."""
    assert not may_pass(httpx.LocalProtocolError("Illegal header value"))
    assert not may_pass(httpx.UnsupportedProtocol("no scheme"))


def test_a_wait_comes_after_what_retry_after_asks_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """And is spread: those who were sent away together do not come back together."""
    waits = {Patience(100).wait_after(answer(503, retry_after="3")) for _ in range(50)}
    assert None not in waits
    assert all(wait is not None and wait >= 3 for wait in waits)
    assert len(waits) > 40
    monkeypatch.setattr("shared.client.patience.random.uniform", lambda _low, high: high)
    tries = Patience(1000)
    grows = [tries.wait_after(httpx.ReadError("x")) for _ in range(8)]
    assert grows == [0.4, 0.8, 1.6, 3.2, 5.0, 5.0, 5.0, 5.0]


def test_a_wait_beyond_the_deadline_is_not_begun() -> None:
    assert Patience(1).wait_after(answer(503, retry_after="30")) is None
    assert Patience(0).wait_after(httpx.ReadError("x")) is None
    assert Patience(100).wait_after(answer(422)) is None


def test_retry_after_is_seconds_or_a_date() -> None:
    soon = format_datetime(datetime.now(UTC) + timedelta(seconds=60), usegmt=True)
    assert 50 < retry_after_of(answer(503, retry_after=soon)) <= 60
    assert retry_after_of(answer(503, retry_after="2")) == 2
    for nonsense in ("-5", "soon", "", "Thu, 99 Foo 2026"):
        assert retry_after_of(answer(503, retry_after=nonsense)) == 0


@pytest.mark.parametrize("slug", PROBLEMS)
def test_every_problem_has_an_error_of_its_status(slug: str) -> None:
    """A class for each type that a caller may act upon; the others are told by their status."""
    status = PROBLEMS[slug][0]
    error = error_of(status, {"type": f"https://chot.example/problems/{slug}", "detail": "why"})
    base = STATUSES.get(status, Unavailable if status >= 500 else BadRequest)
    assert isinstance(error, base)
    assert (error.type, error.detail) == (slug, "why")
    if status in {404, 409, 429} and slug != "not-found":
        assert type(error) is not base, f"{slug} has no class of its own"


def test_no_error_is_of_a_problem_that_is_none() -> None:
    assert set(TYPES) <= set(PROBLEMS)
    assert all(issubclass(kind, ApiError) for kind in TYPES.values())


def test_there_is_one_rule() -> None:
    """Neither the client nor the command line decides by itself what is asked again."""
    for path in ("shared/cli/http.py", "shared/client/client.py"):
        tree = ast.parse((ROOT / path).read_text())
        named = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
        assert "Patience" in named, path
        numbers = {n.value for n in ast.walk(tree) if isinstance(n, ast.Constant)}
        assert not numbers & {408, 429, 502, 503, 504, "retry-after"}, path
