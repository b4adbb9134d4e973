"""What only a worker can count itself; served on CHOT_WORKER_METRICS_PORT (worker/served.py)."""

from prometheus_client import Counter, Gauge, Histogram

from shared.signals import PROCESS

HEARTBEATS = Counter(
    "chot_heartbeats",
    "Heartbeats that the database has taken, or not",
    ("result",),
    registry=PROCESS,
)
LATENESS = Histogram(
    "chot_heartbeat_lateness_seconds",
    "How much later than planned the database took a heartbeat",
    buckets=(0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30),
    registry=PROCESS,
)
SELF_FENCES = Counter(
    "chot_self_fences",
    "Jobs that this worker stopped itself, by cause",
    ("cause",),
    registry=PROCESS,
)
FENCE_REJECTIONS = Counter(
    "chot_fence_rejections",
    "Commits and exits that the fence refused: somebody else owned the job",
    ("at",),
    registry=PROCESS,
)
MISSES = Counter(
    "chot_claim_misses",
    "Messages whose job was not claimed, by reason",
    ("reason",),
    registry=PROCESS,
)
LOOP_SILENT = Gauge(
    "chot_event_loop_silent_seconds",
    "How long ago the jobs' event loop last answered",
    registry=PROCESS,
)

CAUSES = ("expired", "timeout", "taken", "cancelled")
MISS_REASONS = (
    "ended",
    "running",
    "unknown_job",
    "unknown_kind",
    "blocked",
    "limit",
    "lock",
    "alone",
    "busy",
    "other",
)
# There from the start: a rate over a series that begins at its first event misses that one.
for _counter, _labels in (
    (HEARTBEATS, ("ok", "missed")),
    (SELF_FENCES, CAUSES),
    (FENCE_REJECTIONS, ("commit", "exit")),
    (MISSES, MISS_REASONS),
):
    for _label in _labels:
        _counter.labels(_label)
