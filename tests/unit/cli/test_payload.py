import io

import click
import pytest

from shared.cli.payload import payload_text


def test_equals_is_text_and_colon_equals_is_json() -> None:
    """A store called 007 stays a text, a list stays a list."""
    text = payload_text(None, None, ["store=007", "items:=[1, 2]", "note=a=b"])
    assert text == '{"store": "007", "items": [1, 2], "note": "a=b"}'


def test_a_payload_given_whole_is_sent_as_it_was_written() -> None:
    """No number passes through a float on its way to the api."""
    written = '{"rate":  1.10, "huge": 12345678901234567890.123}'
    assert payload_text(written, None, []) == written
    assert payload_text(None, io.StringIO(written), []) == written


def test_no_payload_is_an_empty_object() -> None:
    assert payload_text(None, None, []) == "{}"


@pytest.mark.parametrize(
    ("raw", "words", "said"),
    [
        ("[1]", [], "must be a JSON object"),
        ("{", [], "is not JSON"),
        ("{}", ["a=1"], "give the payload once"),
        (None, ["a"], "neither name=text nor name:=json"),
        (None, ["=1"], "neither name=text nor name:=json"),
        (None, ["a=1", "a:=1"], "is given twice"),
        (None, ["a:=x"], "a=x is text"),
    ],
)
def test_a_payload_that_cannot_be_meant_is_a_usage_error(
    raw: str | None, words: list[str], said: str
) -> None:
    with pytest.raises(click.UsageError, match=said):
        payload_text(raw, None, words)
