"""Bodies that arrive at once are bounded by their bytes, whoever sends them."""

from contextlib import ExitStack

import pytest

from api.gate import BodyBytes
from api.problems import ProblemRaised


def test_what_arrives_at_once_is_bounded_and_given_back() -> None:
    """The one that would be too much is told so; the others go on, and its room is free again."""
    bodies = BodyBytes(100)
    with bodies.reading() as one, ExitStack() as second:
        one(60)
        two = second.enter_context(bodies.reading())
        two(30)
        with pytest.raises(ProblemRaised) as caught:
            two(11)
        assert caught.value.problem.slug == "overloaded"
        assert bodies.held == 90
        one(10)
        second.close()
        assert bodies.held == 70
    assert bodies.held == 0
