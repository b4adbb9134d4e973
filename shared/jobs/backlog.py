"""Backlog: how many seconds the workers of a queue would need for what is due in it now.

    backlog = due work ÷ slots

Due work is what one slot would need for it: of each kind the jobs that are due and that a worker
could run, times the mean seconds of the kind's last attempts. Not counted is what no further worker
would help: a paused queue or kind, frozen books, a job paused by itself, one that waits for a lock
or for its group, what is beyond a maximum of running jobs, and a kind that the live workers of the
queue do not know. Slots are those of live workers that do not drain.

Without any slot the signal is that of one slot, and at least the age of the oldest due job: so it
grows while nobody comes, and is never infinite, which no alarm could compare.
"""

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from shared.jobs.ends import READ_MEANS
from shared.jobs.limits import places_taken
from shared.jobs.stops import books_frozen

# What an attempt of a kind takes of which none has ended yet and none has run for longer.
NEW_KIND_SECONDS = 30.0

_LIVE = """chot.worker_queues wq JOIN chot.workers w USING (worker_id)
         WHERE w.live_until > clock_timestamp() AND w.state <> 'draining'"""
_SLOTS = f"""
    SELECT wq.queue, sum(wq.slots)::integer AS slots, count(*) AS workers FROM {_LIVE}
     GROUP BY wq.queue"""
_SERVED = f"""
    SELECT DISTINCT wq.queue, k.kind
      FROM (SELECT wq.queue, w.kinds FROM {_LIVE}) AS wq
     CROSS JOIN LATERAL jsonb_object_keys(wq.kinds) AS k (kind)"""
_LONGEST = """
    SELECT j.kind, max(extract(epoch FROM clock_timestamp() - a.started_at))::double precision
               AS seconds
      FROM chot.jobs j JOIN chot.attempts a ON a.job_id = j.id AND a.fence = j.fence
     WHERE j.state = 'running' GROUP BY j.kind"""

# Each from what is few: no pending job is read that nothing holds.
_HELD = f"""
    SELECT kind, sum(jobs)::bigint AS jobs FROM (
        SELECT kind, count(*) AS jobs FROM chot.jobs
         WHERE state = 'pending' AND (paused_at IS NOT NULL OR joins IS NOT NULL) GROUP BY kind
        UNION ALL
        SELECT j.kind, count(DISTINCT l.job_id)
          FROM chot.job_locks l JOIN chot.jobs j ON j.id = l.job_id AND j.state = 'pending'
         WHERE l.waiting AND l.woken_at IS NULL GROUP BY j.kind
        UNION ALL
        SELECT j.kind, count(*) FROM chot.jobs j
         WHERE j.state = 'pending' AND EXISTS (SELECT FROM chot.freezes) AND {books_frozen("j")}
         GROUP BY j.kind) AS each GROUP BY kind"""
_ALL_LIMITS = """
    SELECT name AS kind, NULL::text AS company, NULL::text AS brand, max_running FROM chot.kinds
     WHERE max_running IS NOT NULL
    UNION ALL SELECT kind, company, brand, max_running FROM chot.running_limits"""
_LIMITS = f"""
    SELECT o.kind, o.company, o.brand, greatest(0, o.max_running - {places_taken("o")}) AS room
      FROM ({_ALL_LIMITS}) AS o"""
_LANES = f"""
    SELECT kind, company, brand, count(*) AS jobs FROM chot.jobs
     WHERE state = 'pending' AND kind = ANY(ARRAY(
               SELECT k.name FROM chot.kinds k
                WHERE EXISTS (SELECT FROM ({_ALL_LIMITS}) AS o
                               WHERE o.kind IS NULL OR o.kind = k.name)))
     GROUP BY kind, company, brand"""

# Members of the counts (counts.py), each a list of rows.
MEMBERS = {
    "slots": _SLOTS,
    "served": _SERVED,
    "means": READ_MEANS,
    "longest": _LONGEST,
    "held": _HELD,
    "limits": _LIMITS,
    "lanes": _LANES,
    "paused_kinds": "SELECT name FROM chot.kinds WHERE paused",
}


def backlog_seconds(counts: Mapping[str, Any]) -> dict[str, float]:
    """The backlog of each queue in seconds: 0 where nothing is due that a worker could run."""
    slots = {row["queue"]: int(row["slots"]) for row in counts["slots"]}
    work: dict[str, float] = {row["name"]: 0.0 for row in counts["queues"]}
    oldest: dict[str, float] = defaultdict(float)
    runnable = _runnable(counts)
    for row in counts["pending"]:
        jobs = runnable(row)
        if jobs > 0:
            queue = row["queue"]
            work[queue] = work.get(queue, 0.0) + jobs * _seconds(counts, row["kind"])
            oldest[queue] = max(oldest[queue], float(row["oldest_due_seconds"]))
    return {
        queue: seconds / slots[queue] if slots.get(queue) else max(seconds, oldest[queue])
        for queue, seconds in work.items()
    }


def _runnable(counts: Mapping[str, Any]) -> Any:
    """A function of a row of `pending`: how many of its due jobs another worker could run."""
    stopped = {row["name"] for row in counts["queues"] if row["paused"]}
    paused = {row["name"] for row in counts["paused_kinds"]}
    held = {row["kind"]: int(row["jobs"]) for row in counts["held"]}
    served = {(row["queue"], row["kind"]) for row in counts["served"]}
    staffed = {row["queue"] for row in counts["slots"] if row["slots"]}
    most = _within_limits(counts)

    def runnable(row: Mapping[str, Any]) -> int:
        queue, kind = row["queue"], row["kind"]
        if queue in stopped or kind in paused:
            return 0
        if queue in staffed and (queue, kind) not in served:
            return 0
        due = max(0, int(row["due"]) - held.get(kind, 0))
        return min(due, most.get(kind, due))

    return runnable


def _within_limits(counts: Mapping[str, Any]) -> dict[str, int]:
    """Of each kind that has a limit: how many more may run, whoever of its lanes comes first."""
    rooms = [[row, int(row["room"])] for row in counts["limits"]]
    most: dict[str, int] = {}
    for lane in counts["lanes"]:
        covering = [each for each in rooms if _covers(each[0], lane)]
        if not covering:
            most[lane["kind"]] = most.get(lane["kind"], 0) + int(lane["jobs"])
            continue
        jobs = min(int(lane["jobs"]), *(room for _, room in covering))
        for each in covering:
            each[1] -= jobs
        most[lane["kind"]] = most.get(lane["kind"], 0) + jobs
    return most


def _covers(limit: Mapping[str, Any], lane: Mapping[str, Any]) -> bool:
    return all(limit[name] in {None, lane[name]} for name in ("kind", "company", "brand"))


def _seconds(counts: Mapping[str, Any], kind: str) -> float:
    known = {row["kind"]: float(row["seconds"]) for row in counts["means"]}
    if kind in known:
        return known[kind]
    longest = {row["kind"]: float(row["seconds"]) for row in counts["longest"]}
    return max(NEW_KIND_SECONDS, longest.get(kind, 0.0))
