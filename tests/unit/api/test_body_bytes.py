"""Bodies that arrive at once are bounded by their bytes, and those of one account by half of it."""

from contextlib import ExitStack

import pytest
from starlette.requests import Request
from starlette.types import Message

from api.authentication import OWNER
from api.body_bytes import BODIES, BodyBytes
from api.gate import FACTS, RequestFacts, read_json_body
from api.problems import ProblemRaised


def test_what_arrives_at_once_is_bounded_and_given_back() -> None:
    """The one that would be too much is told so; the others go on, and its room is free again."""
    bodies = BodyBytes(100)
    with bodies.reading("a") as one, ExitStack() as second, bodies.reading("c") as three:
        one(50)
        two = second.enter_context(bodies.reading("b"))
        two(40)
        with pytest.raises(ProblemRaised) as caught:
            three(11)
        assert caught.value.problem.slug == "overloaded"
        assert bodies.held == 90
        three(10)
        second.close()
        assert bodies.held == 60
    assert bodies.held == 0


def test_one_account_holds_half_and_leaves_the_rest_to_others() -> None:
    """On however many connections it sends slowly."""
    bodies = BodyBytes(100)
    with bodies.reading("a") as one, bodies.reading("a") as two, bodies.reading("b") as other:
        one(30)
        two(20)
        with pytest.raises(ProblemRaised) as caught:
            two(1)
        assert "of this account" in caught.value.problem.detail
        other(50)
        assert bodies.held == 100
    assert bodies.held == 0


async def test_a_client_that_goes_away_within_its_body_is_no_error_of_ours() -> None:
    """Its room is free again, and the log has no traceback of it."""
    told: list[Message] = [
        {"type": "http.request", "body": b"{", "more_body": True},
        {"type": "http.disconnect"},
    ]

    async def receive() -> Message:
        return told.pop(0)

    scope = {
        "type": "http",
        "method": "POST",
        "headers": [(b"content-type", b"application/json")],
        FACTS: RequestFacts(caller=OWNER),
    }
    with pytest.raises(ProblemRaised) as caught:
        await read_json_body(Request(scope, receive))
    assert caught.value.problem.slug == "bad-request"
    assert BODIES.held == 0
