"""Words: one plain sentence for each reason of /why. Pure.

What is the case, in numbers, and what to do, if there is something to do.
"""

from datetime import UTC, datetime
from typing import Any

from shared.jobs.pace import Row, pace_of
from shared.kinds.locks import LOCK_FIELDS, locks_json
from shared.lock_words import locked
from shared.unexpected import unexpected_type

LONGEST_ERROR = 200
# Counts of what lies ahead end here.
MOST_AHEAD = 1000


def span(seconds: float | None) -> str:
    """A time as a person says it, never less than it is by much: 4 s, 3 min, 2 h, 5 days."""
    if seconds is None:
        return "an unknown time"
    seconds = max(0.0, seconds)
    for unit, length, until in (("s", 1, 120), ("min", 60, 7200), ("h", 3600, 172_800)):
        if seconds < until:
            said = round(seconds / length)
            return f"{said} {unit}" if said else "less than 1 s"
    return f"{round(seconds / 86_400)} days"


def instant(at: datetime) -> str:
    """An instant to the second, in UTC."""
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def error_words(error: Any) -> str:
    """An error's code, its type where nobody meant it, and message on one line, shortened."""
    if not isinstance(error, dict):
        return "no error was kept"
    message = " ".join(str(error.get("message") or "").split())
    names = [str(error.get("code") or error.get("type") or ""), unexpected_type(error) or ""]
    names = [name for name in names if not message.startswith(f"{name}:")]  # its message says it
    said = ": ".join(filter(None, (*names, message)))
    said = said.rstrip(".") or "an error without words"
    return said if len(said) <= LONGEST_ERROR else f"{said[: LONGEST_ERROR - 1]}…"


def _count(n: int, one: str) -> str:
    return f"{n:,} {one}" if n == 1 else f"{n:,} {one}s"


def _all_that_can(row: Row) -> str:
    n = row["know_version"]
    who = "The only live worker" if n == 1 else f"Each of the {n:,} live workers"
    return f"{who} of queue {row['queue']} that can run kind {row['kind']}"


def backoff(row: Row) -> str:
    """An attempt failed, and the next one waits for its time."""
    return (
        f"Attempt {row['charged']} of {row['max_attempts']} failed ({error_words(row['error'])}) "
        f"and the job is tried again in {span(row['due_in'])}; where the error will come again, "
        "correct its cause, or cancel the job."
    )


def scheduled(row: Row) -> str:
    """Its time has not come."""
    return (
        f"The job is not to start before {instant(row['available_at'])}, in "
        f"{span(row['due_in'])}; nothing needs to be done."
    )


def snoozed(row: Row) -> str:
    """Its handler has named the time when it wants to go on."""
    goes_on = "nothing needs to be done"
    if not row["resumed"]:
        goes_on = f"it is paused as well: POST /v1/migrations/{row['id']}/resume lets it go on then"
    return (
        f"Its handler has asked for the job to be run again at {instant(row['available_at'])}, in "
        f"{span(row['due_in'])} ({error_words({'message': row['last_words']})}); {goes_on}."
    )


def handed_back(row: Row) -> str:
    """A worker gave it back, to go on later."""
    return (
        f"Its worker has handed the job back, uncharged, to go on in {span(row['due_in'])}; "
        "nothing needs to be done."
    )


def paused(row: Row) -> str:
    """An operator has paused its queue."""
    queue = row["queue"]
    return (
        f"Queue {queue} is paused, so that none of its jobs starts; "
        f"POST /v1/queues/{queue}/resume lets them go on."
    )


def kind_paused(row: Row) -> str:
    """An operator has paused its kind."""
    kind = row["kind"]
    return (
        f"Kind {kind} is paused, so that none of its jobs starts; "
        f"POST /v1/kinds/{kind}/resume lets them go on."
    )


def frozen(row: Row) -> str:
    """Somebody has frozen the books it would write."""
    company, brand = row["frozen_company"], row["frozen_brand"]
    books = f"company {company}" if brand is None else f"brand {brand} of company {company}"
    why = "" if row["frozen_for"] is None else f" ({error_words({'message': row['frozen_for']})})"
    return (
        f"The books of {books} have been frozen since {instant(row['frozen_at'])}{why}, so that no "
        "job that writes them starts; POST /v1/books/thaw lets them go on."
    )


def job_paused(row: Row) -> str:
    """Somebody has paused the job itself."""
    return (
        f"The job has been paused since {instant(row['paused_at'])}; "
        f"POST /v1/migrations/{row['id']}/resume lets it go on from where it stands."
    )


def group_cancelling(row: Row) -> str:
    """It is a member of a group that is to end."""
    return (
        f"The job's group {row['group_id']} is being cancelled, so that none of its members "
        "starts; a worker's maintenance cancels this one in a moment."
    )


def group_open(row: Row) -> str:
    """It joins a group that has not ended, or has ended without need of it."""
    group, total = row["joins"], row["group_total"]
    if row["group_outcome"] is not None:
        return (
            f"The job's group {group} is {row['group_state']} and will not have succeeded "
            f"({row['group_outcome']}), so that the job does not run; a worker's maintenance ends "
            "it in a moment."
        )
    ended = (total or 0) - (row["group_remaining"] or 0)
    more = (
        f"it takes members until POST /v1/groups/{group}/seal"
        if row["group_state"] == "open"
        else "nothing needs to be done"
    )
    goes_on = "starts" if row["started_at"] is None else "goes on"
    return (
        f"The job {goes_on} once its group {group} has ended ({ended:,} of "
        f"{_count(total, 'member')} ended); {more}."
    )


def out_of_attempts(row: Row) -> str:
    """Its budget is used up, though it is not dead."""
    return (
        f"No attempt is left ({row['charged']} of {row['max_attempts']} were charged, "
        f"{_count(row['lost_leases'], 'worker')} lost), so that no worker takes the job; cancel "
        "it and submit it anew."
    )


def no_worker(row: Row) -> str:
    """Nobody serves its queue."""
    return (
        f"No live worker serves queue {row['queue']}, so that nobody can run the job; start one "
        "whose CHOT_QUEUES names it."
    )


def kind_unknown(row: Row) -> str:
    """Nobody who serves its queue knows its kind."""
    return (
        f"Nobody among {_count(row['live'], 'live worker')} of queue {row['queue']} knows kind "
        f"{row['kind']}; start a worker whose CHOT_KIND_MODULES and CHOT_HANDLER_MODULES have it."
    )


def version_unknown(row: Row) -> str:
    """Everybody who knows its kind is too old for its payload."""
    return (
        f"The payload is of version {row['payload_version']} of kind {row['kind']} and the live "
        f"workers of queue {row['queue']} know it up to version {row['newest_version']}; deploy "
        "workers of the newer code."
    )


def stopping(row: Row) -> str:
    """Everybody who could run it is leaving."""
    return (
        f"{_all_that_can(row)} is draining and takes nothing more; the job waits for the next "
        "worker to start."
    )


def runs_alone(row: Row) -> str:
    """It is under suspicion and waits for a worker of its own."""
    if row["alone_worker"]:
        who = f"worker {row['alone_worker']} has reserved queue {row['queue']} for such a job"
    else:
        who = "it waits for a worker to let its other jobs end"
    return (
        f"The job has lost its worker {row['lost_leases']} times and runs only without neighbours "
        f"now, so that the one that kills its process is found: {who}; the workers' logs may say "
        "why they vanished."
    )


def workers_alone(row: Row) -> str:
    """Everybody who could run it is busy with one under suspicion."""
    return (
        f"{_all_that_can(row)} is kept for a job that runs alone, or is draining; this one follows."
    )


def lock_held(row: Row) -> str:
    """A job that runs holds what it would lock."""
    who = _job(row["holder_id"], row["holder_kind"])
    how = "for itself" if row["held_mode"] == "exclusive" else "together with others"
    what = _locked(row, "held")
    return f"{who} holds {what} {how}; this one starts in its turn once that is free."


def lock_reserved(row: Row) -> str:
    """A job that waits for what it would lock goes first."""
    who = _job(row["waiter_id"], row["waiter_kind"])
    what = _locked(row, "reserved")
    return (
        f"{who} waits for {what}, too, and goes first, by priority and age; this one starts in its "
        "turn after it."
    )


def _job(job_id: Any, kind: str | None) -> str:
    return "A job of somebody else's" if job_id is None else f"Job {job_id} ({kind})"


def _locked(row: Row, how: str) -> str:
    lock = locks_json({name: row[f"{how}_{name}"] for name in LOCK_FIELDS})
    return locked(lock["root"], lock["part"], lock["period_from"], lock["period_to"])


def maximum(row: Row) -> str:
    """As many of its kind run as may."""
    taken, most = row["places_taken"], row["max_running"]
    run = f"{most} may run" if taken is None else f"{taken} run, {most} may"
    return (
        f"Kind {row['kind']} is at its maximum ({run}); the job starts in its turn once one of "
        "them has ended."
    )


def limit(row: Row) -> str:
    """As many as one of an operator's limits lets run."""
    taken, most = row["limit_taken"], row["limit_most"]
    run = f"{most} may run" if taken is None else f"{taken} run, {most} may"
    return (
        f"The limit of {limited(row['limit_kind'], row['limit_company'], row['limit_brand'])} is "
        f"reached ({run}); the job starts in its turn once one of them has ended."
    )


def limited(kind: str | None, company: str | None, brand: str | None) -> str:
    """What a running limit holds for, as a person says it."""
    whose = f"company {company}" if brand is None else f"brand {brand} of company {company}"
    what = [] if kind is None else [f"kind {kind}"]
    return " in ".join([*what, *([] if company is None else [whose])])


def refused(row: Row) -> str:
    """Its message was put aside."""
    return (
        f"SQS has refused the job's message for good ({row['last_error'] or 'no reason told'}); "
        "correct what it says, then pause and resume the queue, which publishes the job anew."
    )


def window_full(row: Row) -> str:
    """It waits for its turn in the order of publishing."""
    higher = f" and {_up_to(row['higher'])} of higher priority" if row["higher"] else ""
    used = "" if row["window_used"] is None else f"{row['window_used']} of "
    return (
        f"The window of queue {row['queue']} is full ({used}"
        f"{_count(row['window_size'], 'message')} out for {_count(row['slots'], 'slot')}), and the "
        f"job waits for its turn behind {_up_to(row['ahead'])} of its kind, brand and priority"
        f"{higher}; more workers, or a higher priority, make it sooner."
    )


def _up_to(n: int) -> str:
    return f"{n:,} or more" if n >= MOST_AHEAD else f"{n:,}"


def publishing_failed(row: Row) -> str:
    """Its message could not be sent, and is tried again."""
    return (
        f"SQS did not take the job's message ({row['last_error']}), tried {row['sends']} times; "
        f"the relay tries again in {span(row['sent_in'])}."
    )


def publishing(row: Row) -> str:
    """Its message is about to be sent, or being sent."""
    since = span(max(0.0, -row["due_in"]))
    return (
        f"The job has been due for {since} and its message is on its way to SQS; if that lasts, "
        "see what GET /readyz of the apis says of the relay."
    )


def slots_busy(row: Row) -> str:
    """Its message is there, and everybody is busy."""
    return (
        f"The job's message is in SQS, and all {_count(row['slots'], 'slot')} of "
        f"{_count(row['working'], 'live worker')} that can run it were busy at the last heartbeat; "
        "it starts when one is free."
    )


def delivery(row: Row) -> str:
    """Its message is there, and somebody is free."""
    return (
        f"The job's message has been in SQS for {span(row['published_for'])}, and "
        f"{row['free_slots']} of {_count(row['slots'], 'slot')} were free at the last heartbeat; a "
        "worker takes it in a moment, or else it is published again."
    )


def expired(row: Row) -> str:
    """Whoever ran it has fallen silent."""
    next_step = (
        "the job is about to be taken over from its last checkpoint"
        if row["attempts_left"]
        else "no attempt is left, and the job is about to be buried"
    )
    return (
        f"The lease of worker {row['worker_id']} on the job ran out {span(-row['lease_left'])} ago "
        f"without being renewed; {next_step}."
    )


def silent(row: Row) -> str:
    """Whoever runs it may be gone, and its lease has not run out yet."""
    next_step = (
        "another worker takes the job over from its last checkpoint"
        if row["attempts_left"]
        else "the job is buried, since no attempt is left"
    )
    return (
        f"Worker {row['worker_id']}, which runs attempt {row['attempt']} of the job, has not been "
        f"heard of for {span(row['owner_silent_for'])}; unless it comes back, its lease ends in "
        f"{span(row['lease_left'])} and {next_step}."
    )


def running(row: Row) -> str:
    """Somebody runs it."""
    return (
        f"Worker {row['worker_id']} has been running attempt {row['attempt']} of the job for "
        f"{span(row['going_for'])}{_progress_words(row)}; nothing needs to be done."
    )


def _progress_words(row: Row) -> str:
    done, total, eta = row["progress_done"], row["progress_total"], pace_of(row).eta
    if done is None:
        return ""
    of = "" if total is None else f" of {total:,}"
    unit = f" {row['progress_unit']}" if row["progress_unit"] else ""
    left = "" if eta is None else f", with {span((eta - row['read_at']).total_seconds())} left"
    return f", {done:,}{of}{unit} done{left}"


def succeeded(row: Row) -> str:
    """It is done."""
    return (
        f"The job succeeded at {instant(row['finished_at'])} in attempt {row['attempt']}; its "
        f"result is in GET /v1/jobs/{row['id']}."
    )


def cancelled(row: Row) -> str:
    """Somebody did not want it any more."""
    left = (
        "what its attempts left half-built is still being removed"
        if row["cleanup_due"]
        else "submit it anew if it is wanted after all"
    )
    return f"The job was cancelled at {instant(row['finished_at'])}; {left}."


def dead(row: Row, refused: str | None) -> str:
    """It is dead; `refused` is the problem that a redrive would meet."""
    nobody = "" if row["know_kind"] else ", which no live worker knows how to do"
    twin = row["twin"]
    met = {
        None: f"POST /v1/jobs/{row['id']}/redrive tries it again",
        "cleanup-pending": "a redrive is refused until its leftovers are removed" + nobody,
        "twin-active": f"a redrive is refused while job {twin} does the same work",
        "payload-outdated": "a redrive is refused, since its payload does not fit today's model: "
        "submit a new job",
    }[refused]
    return (
        f"The job died at {instant(row['finished_at'])} after {_count(row['charged'], 'attempt')} "
        f"of {row['max_attempts']} and {_count(row['lost_leases'], 'lost worker')} "
        f"({error_words(row['error'])}); {met}."
    )
