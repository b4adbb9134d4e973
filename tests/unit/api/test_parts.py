"""Small pure parts of the api: keys, digests, cursors, instants, values in errors."""

import re
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest

from api.bodies import parse_instant, show_instant
from api.cursors import read_cursor, read_job_cursor, write_cursor
from api.idempotency import DIGEST_VERSION, DIGESTS, Asked, ask
from api.idempotency_key import PATTERN, MalformedKey, parse_key
from api.problems import PROBLEMS, RETRY_AFTER_SECONDS, ProblemRaised, shortened
from api.routes.dead_letters import shown_body
from api.settings import is_loopback
from shared.json_text import to_json


@pytest.mark.parametrize(
    ("line", "key"),
    [
        ('"abc"', "abc"),
        ("abc", "abc"),
        ('  "abc"  ', "abc"),
        ('"a b,c;d"', "a b,c;d"),
        (r'"a\"b\\c"', r"a\"b\c".replace(r"\"", '"')),
        ('"abc";a', "abc"),
        ('"abc"; a=1;b="x\\"y"', "abc"),
        ("8e03978e-40d5-43e8-bc93-6894a57f9324", "8e03978e-40d5-43e8-bc93-6894a57f9324"),
        ("x" * 255, "x" * 255),
    ],
)
def test_a_key_is_what_stands_between_the_quotes(line: str, key: str) -> None:
    """Quoted or bare, parameters say nothing."""
    assert parse_key([line]) == key
    advertised = re.fullmatch(PATTERN, line.strip())
    assert bool(advertised) is ('"; ' not in line and '";' not in line)


@pytest.mark.parametrize(
    "lines",
    [[""], ['""'], ["a", "a"], ["a,b"], ['"a"b'], ['"a'], ["a;b"], ["a b"], ["\xe9"], ["x" * 256]],
)
def test_anything_else_is_no_key(lines: list[str]) -> None:
    """Refused, never cut or guessed."""
    with pytest.raises(MalformedKey):
        parse_key(lines)
    assert len(lines) > 1 or not re.fullmatch(PATTERN, lines[0])
    assert parse_key([]) is None


def digest_of(method: str, route: str, body: Any) -> bytes:
    """As it is stored today."""
    return ask("me", "k", method=method, route=route, body=body).digests[DIGEST_VERSION]


def test_the_digest_knows_values_not_form() -> None:
    """Order is no difference; a number's form, a null, a route and a method are."""
    same = {"a": 1, "b": [Decimal("1.10"), "é"]}
    digest = digest_of("POST", "/v1/jobs", same)
    assert digest_of("POST", "/v1/jobs", dict(reversed(same.items()))) == digest
    others: list[dict[str, Any]] = [
        {"a": 1, "b": [Decimal("1.1"), "é"]},
        {"a": Decimal("1.0"), "b": [Decimal("1.10"), "é"]},
        {"a": 1, "b": [Decimal("1.10"), "e\u0301"]},
        {"a": 1, "b": [Decimal("1.10"), "é"], "c": None},
        {"a": "1", "b": [Decimal("1.10"), "é"]},
        {"a": True, "b": [Decimal("1.10"), "é"]},
    ]
    digests = {digest_of("POST", "/v1/jobs", other) for other in others}
    digests |= {digest_of("PUT", "/v1/jobs", same), digest_of("POST", "/v1", same)}
    assert len(digests) == len(others) + 2
    assert digest not in digests


def test_the_digest_of_version_1_never_changes() -> None:
    """Keys stored yesterday are compared with requests of tomorrow."""
    body = {"kind": "x", "payload": {"n": Decimal("1.10"), "b": [True, None, "ố"]}, "a": 1}
    digest = digest_of("POST", "/v1/jobs", body).hex()
    assert digest == "a1a89831a2f40b11579be32feaea699d6e9d6a0e24f57bbfe9fb8a6a52504997"


def test_every_version_that_a_row_may_have_is_told() -> None:
    """A row is compared in its own version, and what is written is one of those."""
    asked = ask("me", "k", method="POST", route="/v1/jobs", body=[1])
    assert asked.digests.keys() == DIGESTS.keys()
    assert DIGEST_VERSION in asked.digests


def test_each_principal_and_key_has_a_lock_of_its_own() -> None:
    """The two are told apart wherever one ends and the other begins."""
    locks = {
        Asked(principal=principal, key=key, digests={}).lock
        for principal, key in (("a", "bc"), ("ab", "c"), ("a", "b"), ("b", "bc"))
    }
    assert len(locks) == 4
    assert all(-(2**63) <= lock < 2**63 for lock in locks)


def test_a_cursor_comes_back_unchanged_or_is_refused() -> None:
    """No other text passes for one of ours."""
    job_id = UUID("019a0000-0000-7000-8000-000000000001")
    assert read_job_cursor(write_cursor(str(job_id))) == job_id
    assert read_cursor(write_cursor("a", "-"), keys=2) == ["a", "-"]
    for wrong in ("", "x", "!", "é", write_cursor("a", "b"), write_cursor("no-uuid"), "MXw\n"):
        with pytest.raises(ProblemRaised):
            read_job_cursor(wrong)


@pytest.mark.parametrize(
    "wrong",
    [
        "2026-01-01",
        "2026-01-01T00:00:00",
        "2026-01-01T00:00Z",
        "2026-13-01T00:00:00Z",
        "2026-01-01T00:00:00+99:00",
        "1999-12-31T00:00:00Z",
        "٢٠٢٦-01-01T00:00:00Z",
        "20260101T000000Z",
        5,
        True,
    ],
)
def test_an_instant_needs_its_date_time_and_offset(wrong: object) -> None:
    """RFC 3339, in years that any clock here can hold."""
    with pytest.raises(ValueError, match=r"."):
        parse_instant(wrong)


def test_an_instant_is_shown_in_utc() -> None:
    """Whatever offset it came with."""
    instant = parse_instant("2026-01-31t18:00:00.5+07:00")
    assert instant == datetime(2026, 1, 31, 11, 0, 0, 500_000, tzinfo=UTC)
    assert show_instant(instant) == "2026-01-31T11:00:00.500000Z"
    assert (parse_instant(None), show_instant(None)) == (None, None)


def test_a_value_in_an_error_is_short_and_can_be_sent() -> None:
    """A hundred characters, whatever it holds."""
    assert shortened(None) is None
    assert shortened({"n": Decimal("1.10")}) == '{"n":1.10}'
    assert len(shortened("ố" * 500) or "") == 100
    assert (shortened("\ud800") or "").encode() == b"\\ud800"
    assert shortened(object)


def test_every_problem_that_may_be_repeated_says_when() -> None:
    """503 always, and only types that exist."""
    assert set(RETRY_AFTER_SECONDS) <= set(PROBLEMS)
    assert {slug for slug, (status, _) in PROBLEMS.items() if status == 503} <= set(
        RETRY_AFTER_SECONDS
    )


def test_a_dead_body_is_cut_between_characters() -> None:
    """A cut in the middle of a character drops it; bytes that are no text stay bytes."""
    shown, encoding = shown_body(b"a" + "ố".encode() * 3000)
    assert (encoding, set(shown)) == ("text", {"a", "ố"})
    assert shown_body(b"\xff")[1] == "base64"
    assert shown_body(b"") == ("", "text")


def test_only_this_machine_is_loopback() -> None:
    """A name that is not localhost may be any machine."""
    assert all(map(is_loopback, ("localhost", "127.0.0.1", "127.9.9.9", "::1")))
    assert not any(map(is_loopback, ("0.0.0.0", "::", "10.0.0.1", "api", "")))  # noqa: S104


def test_exact_json_refuses_what_json_has_no_form_for() -> None:
    """NaN and strangers, on the quick way and on the exact one."""
    for wrong in (float("nan"), [Decimal("NaN")], [Decimal(1), float("inf")]):
        with pytest.raises(ValueError, match=r"."):
            to_json(wrong)
    for stranger in (object(), [Decimal(1), object()], {"a": UUID(int=1)}):
        with pytest.raises(TypeError):
            to_json(stranger)
    assert to_json({"b": 1, "a": Decimal("1E+5")}, sort_keys=True) == '{"a":1E+5,"b":1}'
    assert to_json({"b": 1, "a": 2}, sort_keys=True) == '{"a":2,"b":1}'
