"""What is refused is said once, and says what is meant."""

from api.gate import unauthorized
from api.submission import refusal_problem
from shared.errors import EnqueueRefused
from shared.jobs.enqueue import Submit


def test_a_field_is_named_once() -> None:
    """The database says `max_attempts is …`, and the problem has the field already."""
    refused = EnqueueRefused(
        "max_attempts is 99; kind k allows 1 to 25", code="CH003", field="max_attempts"
    )
    job = Submit(kind="k", company="C", payload="{}", principal="p", max_attempts=99)
    problem = refusal_problem(refused, job)
    assert problem.detail == "max_attempts: is 99; kind k allows 1 to 25"


def test_a_401_tells_that_the_key_may_have_ended() -> None:
    """And not which of the three it is."""
    assert "unknown, expired or revoked" in unauthorized().detail
