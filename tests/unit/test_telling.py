"""What a log may say of an error: the world's words, nobody's data."""

import io
import json
import logging

import asyncpg
import pytest
from botocore.exceptions import ClientError
from pydantic import BaseModel, ValidationError
from sqlalchemy.exc import DBAPIError

from shared.errors import PermanentError
from shared.library_logs import ToStructlog
from shared.logs import configure_logs, log
from shared.telling import scrubbed, shown, told

CANARY = "CANARY-7f3a"


class Strict(BaseModel):
    """Quotes what it refuses."""

    number: int


def quoting() -> list[BaseException]:
    """Errors that quote what they were given."""
    with pytest.raises(ValidationError) as refused:
        Strict.model_validate({"number": CANARY})
    data = asyncpg.exceptions.InvalidTextRepresentationError(f'invalid input: "{CANARY}"')
    unique = asyncpg.exceptions.UniqueViolationError(f"duplicate\nDETAIL:  Key (a)=({CANARY})")
    raised = asyncpg.exceptions.RaiseError(f"{CANARY} is not wanted")
    return [
        refused.value,
        ValueError(CANARY),
        KeyError(CANARY),
        PermanentError(CANARY, details={"x": CANARY}),
        AssertionError(CANARY),
        data,
        unique,
        raised,
        DBAPIError("INSERT", {"x": CANARY}, data),
        ExceptionGroup(CANARY, [ValueError(CANARY)]),
    ]


@pytest.mark.parametrize("error", quoting(), ids=lambda each: type(each).__name__)
@pytest.mark.parametrize("style", ["json", "text"])
def test_no_line_says_what_an_error_quotes(
    error: BaseException, style: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a cause and as a context, too; by us and by a library; on a terminal and in a file."""
    out = io.StringIO()
    monkeypatch.setattr("sys.stderr", out)
    configure_logs(style)
    library = logging.Logger("asyncio")  # noqa: LOG001 - of this test alone
    library.addHandler(ToStructlog())
    try:
        try:
            raise error  # noqa: TRY301 - it is the cause of the next
        except BaseException as caught:
            raise RuntimeError(f"it was {CANARY}") from caught
    except RuntimeError as error_with_cause:
        log.error("it.failed", exc_info=error_with_cause)
        log.warning("it.waits", error=told(error_with_cause))
        library.error("Task exception was never retrieved\nfuture: %s", CANARY, exc_info=True)
    written = out.getvalue()
    monkeypatch.undo()
    configure_logs()
    assert CANARY not in written
    assert "RuntimeError" in written
    assert type(error).__name__ in written
    assert "test_telling.py" in written, "where it was is told"
    if style == "json":
        lines = [json.loads(line) for line in written.splitlines()]
        assert [line["event"] for line in lines] == ["it.failed", "it.waits", "asyncio"]
        assert lines[2]["message"] == "Task exception was never retrieved"


def test_the_worlds_errors_keep_their_words() -> None:
    """What an operator needs to see: who refused, and why."""
    refused = ClientError({"Error": {"Code": "AccessDenied", "Message": "no"}}, "SendMessage")
    assert "AccessDenied" in told(refused)
    assert told(ConnectionRefusedError(111, "refused")) == "[Errno 111] refused"
    assert told(TimeoutError()) == "TimeoutError"
    away = asyncpg.exceptions.AdminShutdownError("terminating connection")
    assert told(away) == "57P01 terminating connection"
    assert told(DBAPIError("SELECT", None, away)) == "57P01 terminating connection"


def test_an_error_that_causes_itself_is_told_once() -> None:
    """A circle of causes ends, and a context that was suppressed is not told."""
    first, second = ValueError("a"), OSError("b")
    first.__cause__, second.__cause__ = second, first
    assert [each["type"] for each in shown(first)] == ["ValueError", "OSError"]
    hidden = ValueError("a")
    hidden.__context__, hidden.__suppress_context__ = OSError("b"), True
    assert len(shown(hidden)) == 1


def test_a_password_in_a_url_is_struck_out() -> None:
    """Whichever scheme, as often as it stands there, and with a slash that somebody left in it."""
    said = "postgresql://chot_app:s3:c/ret@h:5/x and amqp://u:p@h, http://h:80/p?q=a"
    clean = "postgresql://chot_app:***@h:5/x and amqp://u:***@h, http://h:80/p?q=a"
    assert scrubbed(said) == clean
