"""Messages: what SQS carries back may be anything; it is ours, or poison, and never a crash."""

import json
from contextlib import suppress
from uuid import uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.errors import PoisonMessage
from shared.messages import LONGEST_BODY, JobMessage, parse_message
from shared.types import JobId

OURS = JobMessage(
    job_id=JobId(uuid4()),
    kind="costing.run",
    brand="ĐỎ \x1f 🎉",
    trace='00-"quoted"',
    deployment_id=uuid4(),
)


def body(**changes: object) -> str:
    """One of ours with a member changed; None removes it."""
    members = json.loads(OURS.to_body()) | changes
    return json.dumps({name: value for name, value in members.items() if value is not None})


def test_a_message_comes_back_as_it_was_sent() -> None:
    """In ASCII: SQS refuses characters that a brand's name might hold."""
    assert OURS.to_body().isascii()
    assert parse_message(OURS.to_body()) == OURS


def test_members_of_a_later_version_are_no_poison() -> None:
    """An old worker reads what it knows and leaves the rest."""
    assert parse_message(body(more="later")) == OURS


@pytest.mark.parametrize("name", ["brand", "trace"])
def test_brand_and_trace_may_be_missing(name: str) -> None:
    """A job of a whole company has no brand."""
    assert getattr(parse_message(body(**{name: None})), name) is None


POISON: dict[str, str] = {
    "empty": "",
    "no JSON": "hello",
    "a pickle": "\x80\x04K\x01.",
    "a list": "[]",
    "a number": "1",
    "null": "null",
    "NaN": "NaN",
    "no members": "{}",
    "no job": body(job_id=None),
    "no kind": body(kind=None),
    "no deployment": body(deployment_id=None),
    "a job that is no UUID": body(job_id="1"),
    "a job that is a number": body(job_id=1),
    "a job that is a list": body(job_id=["x"]),
    "a kind that is a list": body(kind=["x"]),
    "a brand that is an object": body(brand={"a": 1}),
    "a trace that is a list": body(trace=[1]),
    "too long": body(trace="x" * LONGEST_BODY),
    "deep": "[" * 4_000,
    "deep objects": '{"a":' * 500 + "1" + "}" * 500,
    "a huge number": '{"job_id": ' + "9" * 4_000 + "}",
    "half a pair": '{"job_id": "\\ud800"}',
}


@pytest.mark.parametrize("what", POISON)
def test_what_is_not_ours_is_poison_with_a_reason(what: str) -> None:
    """An operator will read the reason beside the body."""
    with pytest.raises(PoisonMessage) as caught:
        parse_message(POISON[what])
    assert 0 < len(str(caught.value)) < 500


@given(st.text() | st.text(alphabet='{}[]":,0123456789.eE-+\\u nultrefas', max_size=200))
def test_no_text_is_more_than_poison(words: str) -> None:
    """Whatever comes: an answer or PoisonMessage, no other exception."""
    with suppress(PoisonMessage):
        parse_message(words)


@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.integers() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        max_leaves=20,
    )
)
def test_no_json_is_more_than_poison(value: object) -> None:
    """The same for everything that is JSON."""
    for name in ("job_id", "kind", "brand", "trace", "deployment_id"):
        with suppress(PoisonMessage):
            parse_message(body(**{name: value}))
