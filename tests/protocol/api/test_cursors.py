"""Cursors are opaque, and no text that looks like one breaks a route."""

import httpx
from hypothesis import HealthCheck, given
from hypothesis import settings as rules
from hypothesis import strategies as st

from api.cursors import write_cursor
from tests.protocol.api.app import problem_of

ROUTES = ("/v1/jobs", "/v1/dead-letters", "/v1/audit")
PARTS = st.one_of(
    st.integers(-(10**20), 10**20).map(str),
    st.sampled_from(["", "0", "9" * 18, "253402300800000000", "9223372036854775807"]),
    st.uuids().map(str),
    st.text(max_size=20),
)
FORGED = st.one_of(
    st.lists(PARTS, max_size=3).map(lambda keys: write_cursor(*keys)),
    st.text("abcABC012-_=", max_size=40),
    st.text(max_size=20),
)


@rules(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cursor=FORGED)
async def test_a_forged_cursor_is_a_page_or_a_422(client: httpx.AsyncClient, cursor: str) -> None:
    """Whatever it holds, on every route that takes one."""
    for route in ROUTES:
        answer = await client.get(route, params={"cursor": cursor})
        assert answer.status_code in {200, 422}, (route, cursor, answer.text)


async def test_no_cursor_at_all_is_no_first_page(client: httpx.AsyncClient) -> None:
    """A script whose variable is empty would go through page one for ever."""
    for route in ROUTES:
        problem_of(await client.get(route, params={"cursor": ""}), 422, "invalid-request")


async def test_an_instant_beyond_time_is_no_cursor_of_the_audit(client: httpx.AsyncClient) -> None:
    """Year 9999 has the last one."""
    for at in ("9" * 18, "253402300800000000"):
        answer = await client.get("/v1/audit", params={"cursor": write_cursor(at, "1")})
        problem_of(answer, 422, "invalid-request")
    last = write_cursor("253402300799999999", "9" * 18)
    assert (await client.get("/v1/audit", params={"cursor": last})).status_code == 200
