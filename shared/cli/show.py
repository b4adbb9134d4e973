"""What a person sees: tables, facts of one job, times; numbers as the api sent them."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from rich.console import Console
from rich.text import Text

from shared.cli.plain import visible
from shared.cli.words import in_commands
from shared.unexpected import unexpected_type

# Columns of what has none: more than any row has, be its reason as long as a message may be.
UNBROKEN = 1_000_000
USUAL = 80
# Characters of a reason that stands in a table of many and is whole elsewhere.
BRIEF = 160
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
    """A console that writes a row as a line when its output goes to a file or a pipe."""
    made = Console(stderr=stderr, highlight=False)
    if not made.is_terminal:
        made.width = UNBROKEN
    elif not made.width:
        made.width = USUAL  # COLUMNS=0: of nothing all would be cut away
    return made


def plain(said: Any, style: str = "") -> Text:
    """One line of text for a console, no word of it taken for markup."""
    return Text(visible(said), style=style)


def state(value: str | None) -> Text:
    """A state or outcome in its colour."""
    return plain(value or "", COLOURS.get(value or "", ""))


def moment(value: str | None) -> str:
    """An instant of the api in this machine's own time zone, to the second."""
    if not value:
        return ""
    return datetime.fromisoformat(value).astimezone().strftime("%Y-%m-%d %H:%M:%S")


def clock(value: str | None) -> str:
    """As moment(), of today the time only."""
    said = moment(value)
    today = datetime.now().astimezone().strftime("%Y-%m-%d ")
    return said.removeprefix(today)


def not_before(job: Mapping[str, Any]) -> str:
    """When a pending job may begin, if that is still to come; in this machine's time zone."""
    available = job.get("available_at")
    if job.get("state") != "pending" or not available:
        return ""
    return moment(available) if datetime.fromisoformat(available) > datetime.now(UTC) else ""


def whose(job: Mapping[str, Any]) -> str:
    """Company and brand in one word."""
    return "/".join(filter(None, (job.get("company"), job.get("brand"))))


def took(start: str | None, end: str | None) -> str:
    """How long it took, or has taken until now."""
    if not start:
        return ""
    until = datetime.fromisoformat(end) if end else datetime.now(UTC)
    return duration(max(until - datetime.fromisoformat(start), timedelta()))


def took_of(job: Mapping[str, Any]) -> str:
    """How long a job took, or has taken; nothing of one that waits, be it for another attempt."""
    if job.get("state") == "pending":
        return ""
    return took(job.get("started_at"), job.get("finished_at"))


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


def rate(value: float) -> str:
    """Units per second, three digits at least of what is slow: 1,500/s, 3.2/s, 0.0042/s."""
    if value >= 10:
        return f"{value:,.0f}/s"
    return f"{value:.1f}/s" if value >= 1 else f"{value:.2g}/s"


def pace(job: Mapping[str, Any]) -> str:
    """The rate of a running job and what its estimate leaves: 1,500/s, 12 min 05 s left."""
    now = job.get("progress") or {}
    parts = [] if not now.get("rate") else [rate(now["rate"])]
    if now.get("eta"):
        left = datetime.fromisoformat(now["eta"]) - datetime.now(UTC)
        if left > timedelta():
            parts.append(f"{duration(left)} left")
    return ", ".join(parts)


def charged(job: Mapping[str, Any]) -> int:
    """How many of its attempts count against its budget: a lost worker and a drain do not."""
    return int(job["attempt"]) - (job.get("lost_leases") or 0) - (job.get("interruptions") or 0)


def reason(error: Any) -> str:
    """An error of a job or attempt in one line: code, type and place where unexpected, message.

    An error with a code of its own was raised on purpose: its code and message say it all.
    """
    if not error:
        return ""
    if not isinstance(error, dict):
        return str(error)
    code, kind, unexpected = error.get("code"), error.get("type"), unexpected_type(error)
    names = [str(name) for name in (code, unexpected) if name]
    message = str(error.get("message") or error.get("detail") or "")
    if names and message.startswith(f"{names[-1]}:"):
        names.pop()
    said = in_commands(": ".join(filter(None, [*names, message])) or str(kind or error))
    return " ".join(filter(None, (said, _fields(error), _place(error) if unexpected else "")))


def brief(said: str) -> str:
    """The beginning of what may be long: its first line, or as much of it as a table has."""
    begun = said.split("\n", 1)[0][:BRIEF]
    return said if begun == said else f"{begun.rstrip()}…"


def _fields(error: Mapping[str, Any]) -> str:
    """What a payload's model has against it, field by field."""
    details = error.get("details")
    listed = details.get("errors") if isinstance(details, dict) else None
    if not isinstance(listed, list):
        return ""
    told = [f"{item.get('field')}: {item.get('rule')}" for item in listed if isinstance(item, dict)]
    return f"({'; '.join(told)})" if told else ""


def _place(error: Mapping[str, Any]) -> str:
    """Its innermost line that is no library's: those have a folder before their file."""
    frames = [str(frame) for frame in error.get("where") or []]
    own = [frame for frame in frames if "/" not in frame.partition(":")[0]]
    return f"({(own or frames)[-1]})" if frames else ""


def where(error: Any) -> str:
    """The last frames of an unexpected error, the innermost last; nothing without any."""
    if not isinstance(error, dict) or unexpected_type(error) is None:
        return ""
    frames = error.get("where")
    return " → ".join(map(str, frames or []))
