"""What a log may say of an error: never what a payload, a header or a setting held.

An error's words belong to whoever raised it, and may quote what it was given. So they are told of
errors that only the world raises (sockets, SQS, PostgreSQL), and of all others the type and the
place. The words of an attempt's error stand in the database, for those who may read its job.
"""

import re
import sys
from types import TracebackType
from typing import Any

from shared.errors import ConfigRefused

MOST_FRAMES = 50
MOST_CAUSES = 10
MOST_CHARACTERS = 500
# Errors of data and of constraints quote the data; P0 is raised by functions, with words of theirs.
QUOTING = ("22", "23", "P0", "CH", "42")
# By module and name: whoever has not imported them has none, and the command line starts fast.
WORLDLY = (
    ("botocore.exceptions", "BotoCoreError"),
    ("botocore.exceptions", "ClientError"),
    ("asyncpg", "InterfaceError"),
    ("sqlalchemy.exc", "TimeoutError"),
    ("sqlalchemy.exc", "InterfaceError"),
)
DETAILS = re.compile(r"\n(DETAIL|HINT|CONTEXT|\[SQL|\[parameters|\(Background)[\s\S]*")
PASSWORD = re.compile(r"(://[^\s:/@]*):[^\s@]*@")


def told(error: BaseException) -> str:
    """The error as a log may have it: its words where they are the world's, else its type."""
    found = getattr(error, "orig", None)  # what SQLAlchemy's errors wrap
    cause = found if isinstance(found, BaseException) else error
    name = type(cause).__name__
    driver = _of_server(cause)
    if driver is not None:
        state: str = driver.sqlstate  # type: ignore[attr-defined] # looked for
        quotes = state.startswith(QUOTING)
        return f"{type(driver).__name__} ({state})" if quotes else _cut(f"{state} {driver}")
    if isinstance(cause, _worldly()) or getattr(error, "connection_invalidated", False):
        return _cut(str(cause)) or name
    return name


def _worldly() -> tuple[type[BaseException], ...]:
    modules = sys.modules
    loaded = (getattr(modules[module], name) for module, name in WORLDLY if module in modules)
    return (OSError, ConfigRefused, *loaded)


def _of_server(error: BaseException | None) -> BaseException | None:
    """What PostgreSQL itself has said, however deeply it is wrapped."""
    for _ in range(MOST_CAUSES):  # causes may go in a circle
        if error is None:
            break
        if type(error).__module__.startswith("asyncpg") and getattr(error, "sqlstate", None):
            return error
        error = error.__cause__
    return None


def _cut(words: str) -> str:
    return scrubbed(words)[:MOST_CHARACTERS].strip()


def scrubbed(words: str) -> str:
    """The text without a password in a URL and without what PostgreSQL adds to its messages."""
    if "://" in words:
        words = PASSWORD.sub(r"\1:***@", words)
    return DETAILS.sub("", words) if "\n" in words else words


def shown(error: BaseException) -> list[dict[str, Any]]:
    """The error and what caused it, first the one that was raised: type, words, frames."""
    found: list[dict[str, Any]] = []
    seen: set[int] = set()
    each: BaseException | None = error
    while each is not None and id(each) not in seen:
        seen.add(id(each))
        entry: dict[str, Any] = {"type": type(each).__name__, "frames": _frames(each.__traceback__)}
        if (said := told(each)) != entry["type"]:
            entry["said"] = said
        if isinstance(each, BaseExceptionGroup):
            entry["exceptions"] = [shown(inner) for inner in each.exceptions[:10]]
        found.append(entry)
        each = each.__cause__ or (None if each.__suppress_context__ else each.__context__)
    return found


def _frames(traceback: TracebackType | None) -> list[str]:
    frames = []
    while traceback is not None:
        code = traceback.tb_frame.f_code
        place = "/".join(code.co_filename.rsplit("/", 3)[-3:])
        frames.append(f"{place}:{traceback.tb_lineno} {code.co_name}")
        traceback = traceback.tb_next
    return frames[-MOST_FRAMES:]
