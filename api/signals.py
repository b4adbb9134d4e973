"""What only an api process can count itself; shown by its /metrics."""

import asyncio
from time import monotonic

from prometheus_client import Counter, Histogram

from shared.signals import PROCESS, note_lag

LAG_SECONDS = 0.1
CLASSES = ("none", "2xx", "3xx", "4xx", "5xx")
REQUESTS = Histogram(
    "chot_http_request_seconds",
    "How long requests took, by the class of their status; none: nobody waited for the answer",
    ("status",),
    buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30),
    registry=PROCESS,
)
REPLAYS = Counter(
    "chot_idempotent_replays",
    "Requests that got the answer stored under their Idempotency-Key",
    registry=PROCESS,
)
_BY_CLASS = {name: REQUESTS.labels(name) for name in CLASSES}


def note_request(status: int, seconds: float) -> None:
    """Note one request; status 0 means that nobody waited for its answer."""
    _BY_CLASS[f"{status // 100}xx" if 200 <= status < 600 else "none"].observe(seconds)


async def watch_lag(stop: asyncio.Event) -> None:
    """Measure how long this loop keeps a timer waiting, for ever."""
    while not stop.is_set():
        due = monotonic() + LAG_SECONDS
        await asyncio.sleep(LAG_SECONDS)
        note_lag(due)
