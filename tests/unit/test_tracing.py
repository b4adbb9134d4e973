"""The W3C trace context: what is kept of it, whatever is sent."""

import asyncio
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.tracing import (
    LONGEST,
    current_trace,
    headers_of,
    read_trace,
    spans_wanted,
    trace_id_of,
    tracing,
)

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
PARENT = f"00-{TRACE}-{SPAN}-01"


@pytest.mark.parametrize(
    ("parent", "kept"),
    [
        (PARENT, PARENT),
        (f" {PARENT}\t", PARENT),
        (f"00-{TRACE}-{SPAN}-00", f"00-{TRACE}-{SPAN}-00"),
        (f"01-{TRACE}-{SPAN}-ff-later", f"00-{TRACE}-{SPAN}-01"),
        (f"00-{TRACE}-{SPAN}-01-more", None),
        (f"ff-{TRACE}-{SPAN}-01", None),
        (f"00-{'0' * 32}-{SPAN}-01", None),
        (f"00-{TRACE}-{'0' * 16}-01", None),
        (PARENT.upper(), None),
        (PARENT[:-1], None),
        (f"00-{TRACE}-{SPAN}", None),
        ("", None),
        ("00-\x00-x-01", None),
        (f"cc-{TRACE}-{SPAN}-01-" + "x" * 10_000, None),
    ],
)
def test_a_parent_is_kept_or_ignored(parent: str, kept: str | None) -> None:
    """A later version begins with the same fields, and is written in ours."""
    assert read_trace([parent], []) == kept


def test_two_parents_are_none() -> None:
    """Nobody can say which is meant."""
    assert read_trace([PARENT, PARENT], []) is None
    assert read_trace([], ["a=1"]) is None


@pytest.mark.parametrize(
    ("states", "kept"),
    [
        (["a=1,b=2"], "a=1,b=2"),
        (["a=1", "b@t=2"], "a=1,b@t=2"),
        ([" a=1 ,, b=2 "], "a=1,b=2"),
        ([""], None),
        (["a"], None),
        (["A=1"], None),
        (["a=1,a=2"], None),
        (["a=\x01"], None),
        (["a=ü"], None),
        ([",".join(f"k{n}=v" for n in range(33))], None),
        (["a=1=2"], None),
    ],
)
def test_a_state_is_kept_whole_or_not_at_all(states: list[str], kept: str | None) -> None:
    """The parent is kept all the same."""
    assert read_trace([PARENT], states) == (f"{PARENT} {kept}" if kept else PARENT)


def test_a_state_that_is_too_long_loses_its_oldest_members() -> None:
    """The column and the message hold 512 bytes."""
    kept = read_trace([PARENT], [",".join(f"k{n}={'v' * 50}" for n in range(30))])
    assert kept is not None
    assert LONGEST - 60 < len(kept) <= LONGEST
    assert kept.startswith(f"{PARENT} k0=")
    assert headers_of(kept)["tracestate"].count("k") == kept.count("k")


@given(st.lists(st.text(max_size=80), max_size=2), st.lists(st.text(max_size=80), max_size=3))
def test_whatever_is_sent_is_read_without_an_error(parents: list[str], states: list[str]) -> None:
    """And what is kept is sound, and reads as itself."""
    kept = read_trace(parents, states)
    if kept is not None:
        headers = headers_of(kept)
        again = read_trace([headers["traceparent"]], [headers.get("tracestate", "")])
        assert again == kept


def test_what_a_caller_in_sql_gave_is_no_trace_unless_it_is_one() -> None:
    """Any text may stand in the column."""
    assert trace_id_of("whatever") is None
    assert headers_of("whatever x=1") == {}
    assert trace_id_of(None) is None
    assert trace_id_of(f"{PARENT} a=1") == TRACE
    assert headers_of(f"{PARENT} a=1") == {"traceparent": PARENT, "tracestate": "a=1"}


async def test_a_trace_is_that_of_its_own_task() -> None:
    """Two requests at once do not see each other's."""

    async def asked(trace: str) -> str | None:
        with tracing(trace):
            await asyncio.sleep(0)
            return current_trace()

    assert list(await asyncio.gather(asked("a"), asked("b"))) == ["a", "b"]
    assert current_trace() is None


@pytest.mark.parametrize(
    ("environ", "wanted"),
    [
        ({}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://x"}, True),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://x"}, True),
        ({"OTEL_TRACES_EXPORTER": "console"}, True),
        ({"OTEL_TRACES_EXPORTER": "none", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://x"}, False),
        ({"OTEL_SDK_DISABLED": "true", "OTEL_TRACES_EXPORTER": "otlp"}, False),
        ({"OTEL_SERVICE_NAME": "x"}, False),
    ],
)
def test_spans_are_made_where_they_have_somewhere_to_go(
    environ: dict[str, str], *, wanted: bool
) -> None:
    """OTEL_* variables as every service has them."""
    assert spans_wanted(environ) is wanted


SCRIPT = """
import sys
{hide}
from shared.logs import configure_logs
from shared.tracing import spans, start_spans
import shared.outbox, shared.jobs.enqueue
configure_logs()
start_spans("chot-test")
print(type(spans()).__name__, *(name for name in sys.modules if name.startswith("opentelemetry")))
"""
HIDE = "sys.modules['opentelemetry.sdk'] = None"


@pytest.mark.parametrize(
    ("hide", "environ", "made"),
    [
        ("", {}, "NoSpans"),
        (HIDE, {"OTEL_TRACES_EXPORTER": "console"}, "NoSpans"),
        ("", {"OTEL_TRACES_EXPORTER": "console"}, "OtelSpans"),
    ],
    ids=["not asked for", "not installed", "asked for"],
)
def test_nothing_is_imported_that_nobody_asked_for(
    hide: str, environ: dict[str, str], made: str
) -> None:
    """Without the extra a process works as without the variables, and says once what is missing."""
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT.format(hide=hide)],
        env={"PATH": "", **environ},
        capture_output=True,
        text=True,
        check=True,
    )
    kind, *imported = done.stdout.split()
    assert kind == made
    if not environ:
        assert imported == []
    assert ("tracing.not_installed" in done.stderr + done.stdout) == bool(hide)
