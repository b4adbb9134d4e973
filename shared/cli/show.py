"""What a person sees: tables, facts of one job, times; numbers as the api sent them."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

COLOURS = {
    "pending": "yellow",
    "running": "cyan",
    "succeeded": "green",
    "cancelled": "magenta",
    "dead": "red",
    "failed": "red",
    "lost_lease": "red",
    "released": "yellow",
}


def console(*, stderr: bool = False) -> Console:
    """A console that never breaks a table when its output goes to a file or a pipe."""
    made = Console(stderr=stderr, highlight=False)
    if not made.is_terminal:
        made.width = max(made.width, 160)
    return made


def table(title: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> Table:
    """A plain table; columns whose name ends in `#` hold numbers and stand to the right."""
    made = Table(title=title, title_justify="left", box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for column in columns:
        made.add_column(
            column.removesuffix("#"),
            justify="right" if column.endswith("#") else "left",
            no_wrap=column.removesuffix("#") in {"id", "job", "worker"},
        )
    for row in rows:
        made.add_row(*(cell if isinstance(cell, Text) else as_text(cell) for cell in row))
    return made


def as_text(value: Any) -> str:
    """A value for a person; nothing for None."""
    return "" if value is None else str(value)


def state(value: str | None) -> Text:
    """A state or outcome in its colour."""
    return Text(value or "", style=COLOURS.get(value or "", ""))


def moment(value: str | None) -> str:
    """An instant of the api in this machine's own time zone, to the second."""
    if not value:
        return ""
    return datetime.fromisoformat(value).astimezone().strftime("%Y-%m-%d %H:%M:%S")


def took(start: str | None, end: str | None) -> str:
    """How long it took, or has taken until now."""
    if not start:
        return ""
    until = datetime.fromisoformat(end) if end else datetime.now(UTC)
    return duration(max(until - datetime.fromisoformat(start), timedelta()))


def duration(span: timedelta) -> str:
    """A duration as a person says it: 3.4 s, 12 min 05 s, 2 h 03 min."""
    seconds = span.total_seconds()
    if seconds < 60:
        return f"{seconds:.1f} s"
    if seconds < 3600:
        return f"{int(seconds // 60)} min {int(seconds % 60):02} s"
    return f"{int(seconds // 3600)} h {int(seconds % 3600 // 60):02} min"


def progress(job: Mapping[str, Any]) -> str:
    """The job's progress: 1,200/5,000 movements (24%)."""
    now = job.get("progress") or {}
    done, total, unit = now.get("done"), now.get("total"), now.get("unit") or ""
    if done is None:
        return ""
    if not total:
        return f"{done:,} {unit}".strip()
    return f"{done:,}/{total:,} {unit}".strip() + f" ({100 * done // total}%)"


def reason(error: Any) -> str:
    """An error of a job or attempt in one line: its code, its message."""
    if not error:
        return ""
    if not isinstance(error, dict):
        return str(error)
    code = error.get("code") or error.get("type")
    message = str(error.get("message") or error.get("detail") or "")
    if code and message and not message.startswith(f"{code}:"):
        return f"{code}: {message}"
    return message or str(code or error)
