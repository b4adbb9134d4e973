"""The evidence of a small run in which all went well, and what its parts are built with."""

from typing import Any

from tests.faults.evidence import (
    Attempt,
    Call,
    Effect,
    Entry,
    Evidence,
    Facts,
    Group,
    Job,
    Key,
    Limit,
    Lock,
    Transition,
    Window,
)
from tests.faults.schema import ACCOUNTS, OPENING_BALANCE

WRITER, MOVER, GATHERER, POISON, CANCELLED = "w", "m", "g", "p", "c"
HOLDER, WAITER = "h", "r"
GROUP, FIRST, SECOND, JOIN = "G", "g1", "g2", "j"


def facts(**changes: Any) -> Facts:
    """The run of twenty seconds, with changes."""
    balances = {str(code): OPENING_BALANCE for code in range(ACCOUNTS)}
    standard: dict[str, Any] = {
        "seed": 1,
        "seconds": 20.0,
        "workers": 3,
        "postgres": 18,
        "began": 0.0,
        "ended": 100.0,
        "lease": 3.0,
        "idle_in_transaction": 2.0,
        "reaper": 1.0,
        "drained": True,
        "drain_seconds": 1.0,
        "outbox": 0,
        "balances": balances | {"0": OPENING_BALANCE + 7, "1": OPENING_BALANCE - 7},
        "orders": [(1, WRITER)],
        "costed": {"RED/A movement 1": [[5, 0, None]]},
        "oracle": {"RED/A movement 1": [[5, 0, None]]},
        "limits": [Limit(kind=None, company="ACME", brand="RED", max_running=1)],
    }
    return Facts(**(standard | changes))


def call(number: int, op: str, **changes: Any) -> Call:
    """A call that was answered at once."""
    standard: dict[str, Any] = {
        "process": number,
        "args": {},
        "began": float(number),
        "ended": number + 0.5,
        "outcome": "ok",
        "answer": {},
    }
    return Call(id=number, op=op, **(standard | changes))


def submit(number: int, job_id: str, kind: str, payload: dict[str, Any], **changes: Any) -> Call:
    """A submit that made this job."""
    op, key = changes.pop("op", "submit"), changes.pop("key", None)
    answer = {"job_id": job_id, "created": True, "status": 202, "body": f"answer of {job_id}"}
    args = {"kind": kind, "payload": payload, "key": key}
    return call(number, op, **({"args": args, "answer": answer} | changes))


def many(*redriven: str) -> dict[str, Any]:
    """The answer to a redrive of many."""
    return {"status": 200, "body": "", "redriven": list(redriven), "refused": []}


def job(job_id: str, kind: str, payload: dict[str, Any], **changes: Any) -> Job:
    """A job's row at its end."""
    standard: dict[str, Any] = {
        "state": "succeeded",
        "attempt": 1,
        "max_attempts": 5,
        "lost_leases": 0,
        "interruptions": 0,
        "fence": 1,
        "checkpoint_no": 1,
    }
    return Job(id=job_id, kind=kind, payload=payload, **(standard | changes))


def trail(start: int, job_id: str, *states: tuple[Any, ...]) -> list[Transition]:
    """(state, fence, lost_leases, checkpoint_no) each, one second apart from `start` on."""
    found: list[Transition] = []
    for place, (state, fence, lost, checkpoint_no) in enumerate(states):
        before = found[-1] if found else None
        running = state == "running"
        found.append(
            Transition(
                n=start + place,
                job_id=job_id,
                old_state=before.state if before else None,
                state=state,
                old_fence=before.fence if before else None,
                fence=fence,
                token=f"{job_id}{fence}" if running else None,
                attempt=fence,
                max_attempts=5,
                lost_leases=lost,
                interruptions=0,
                checkpoint_no=checkpoint_no,
                lease_expires_at=start + place + 3.0 if running else None,
                worker_id="a" if running else None,
                at=float(start + place),
                xact=start + place,
            )
        )
    return found


def attempt(job_id: str, fence: int, outcome: str | None) -> Attempt:
    """One claim and its outcome."""
    return Attempt(
        job_id=job_id,
        fence=fence,
        attempt=fence,
        outcome=outcome,
        worker_id="a",
        claimed_checkpoint_no=0,
    )


def effect(n: int, job_id: str, chunk: int, fence: int, **changes: Any) -> Effect:
    """An effect written and committed at `n`."""
    standard: dict[str, Any] = {"item": None, "attempt": fence, "pid": fence, "at": float(n)}
    standard["xact"] = n
    return Effect(n=n, job_id=job_id, chunk=chunk, fence=fence, **(standard | changes))


def sound_trails() -> list[Transition]:
    """What became of the jobs of sound(), step by step."""
    return [
        *trail(
            10,
            WRITER,
            ("pending", 0, 0, 0),
            ("running", 1, 0, 0),
            ("running", 1, 0, 1),
            ("pending", 1, 1, 1),
            ("running", 2, 1, 1),
            ("running", 2, 1, 2),
            ("succeeded", 2, 1, 3),
        ),
        *trail(20, MOVER, ("pending", 0, 0, 0), ("running", 1, 0, 0), ("succeeded", 1, 0, 1)),
        *trail(30, GATHERER, ("pending", 0, 0, 0), ("running", 1, 0, 0), ("succeeded", 1, 0, 1)),
        *trail(40, POISON, ("pending", 0, 0, 1), ("running", 1, 0, 1), ("dead", 1, 0, 1)),
        *trail(
            50,
            CANCELLED,
            ("pending", 0, 0, 0),
            ("running", 1, 0, 0),
            ("running", 1, 0, 1),
            ("cancelled", 1, 0, 1),
        ),
        *(each for start, name in SHORT for each in trail(start, name, *ONE_COMMIT)),
    ]


ONE_COMMIT = (("pending", 0, 0, 0), ("running", 1, 0, 0), ("succeeded", 1, 0, 1))
# What waits for a lock or for its group begins when that is free.
SHORT = ((60, HOLDER), (63, WAITER), (70, FIRST), (73, SECOND), (76, JOIN))


def lock(job_id: str, mode: str, **changes: str) -> Lock:
    """A lock of all the books, for ever."""
    standard = {"root": "books/ACME", "part": "", "period_from": "", "period_to": "~"}
    return Lock(job_id=job_id, mode=mode, **(standard | changes))


def locked_and_grouped() -> Evidence:
    """Two jobs that exclude each other; a group of two, and its join."""
    whole = {"complete": True}
    return Evidence(
        facts=facts(),
        calls=[
            submit(62, HOLDER, "fault.lock_write", {"number": 10}),
            submit(63, WAITER, "fault.lock_read", {"number": 11}),
            call(64, "open", args={"number": 12, "joined": True}, answer={"group": GROUP}),
            call(
                65,
                "append",
                args={"group": GROUP, "numbers": [13, 14]},
                answer={"members": [FIRST, SECOND]},
            ),
            call(66, "seal", args={"group": GROUP}),
        ],
        jobs=[
            job(HOLDER, "fault.lock_write", whole | {"number": 10}),
            job(WAITER, "fault.lock_read", whole | {"number": 11}),
            job(FIRST, "fault.member", whole | {"number": 13}, group_id=GROUP),
            job(SECOND, "fault.member", whole | {"number": 14}, group_id=GROUP),
            job(JOIN, "fault.join", whole | {"number": 12}, joins=GROUP),
        ],
        effects=[effect(start + 2, name, 0, 1) for start, name in SHORT],
        attempts=[attempt(name, 1, "succeeded") for _, name in SHORT],
        locks=[lock(HOLDER, "exclusive"), lock(WAITER, "shared")],
        groups=[
            Group(
                id=GROUP,
                state="ended",
                policy="finish",
                outcome="succeeded",
                generation=1,
                total=2,
                remaining=0,
                succeeded=2,
                dead=0,
                cancelled=0,
                join_job_id=JOIN,
            )
        ],
    )


def sound() -> Evidence:
    """A run in which all went well: a lost lease, a move, a merge, a poison, a cancel, a wait
    for a lock, a group.
    """
    more = locked_and_grouped()
    write, gather = {"number": 1, "chunks": 2}, {"number": 3, "items": ["i1", "i2"]}
    return Evidence(
        facts=facts(),
        calls=[
            submit(1, WRITER, "fault.write", write, op="enqueue"),
            submit(2, MOVER, "fault.move", {"number": 2}, key="k2"),
            submit(3, MOVER, "fault.move", {"number": 2}, key="k2"),
            submit(4, GATHERER, "fault.merge", gather),
            submit(5, POISON, "fault.harm", {"number": 4, "how": "permanent"}),
            submit(6, CANCELLED, "fault.write", {"number": 5, "chunks": 3}),
            call(61, "cancel", args={"job_id": CANCELLED}),
            call(8, "read_balances", answer={"total": ACCOUNTS * OPENING_BALANCE}),
            submit(9, "none", "fault.write", {"number": 99}, outcome="fail", answer={}),
            *more.calls,
        ],
        jobs=[
            job(WRITER, "fault.write", write, attempt=2, fence=2, lost_leases=1, checkpoint_no=3),
            job(MOVER, "fault.move", {"number": 2, "complete": True}),
            job(GATHERER, "fault.merge", gather),
            job(POISON, "fault.harm", {"number": 4, "how": "permanent"}, state="dead"),
            job(CANCELLED, "fault.write", {"number": 5, "chunks": 3}, state="cancelled"),
            *more.jobs,
        ],
        transitions=sound_trails(),
        effects=[
            effect(12, WRITER, 0, 1),
            effect(15, WRITER, 1, 2),
            effect(22, MOVER, 0, 1),
            effect(32, GATHERER, 0, 1, item="i1"),
            effect(33, GATHERER, 1, 1, item="i2", xact=32),
            effect(52, CANCELLED, 0, 1),
            *more.effects,
        ],
        attempts=[
            attempt(WRITER, 1, "lost_lease"),
            attempt(WRITER, 2, "succeeded"),
            attempt(MOVER, 1, "succeeded"),
            attempt(GATHERER, 1, "succeeded"),
            attempt(POISON, 1, "failed"),
            attempt(CANCELLED, 1, "cancelled"),
            *more.attempts,
        ],
        keys=[Key(key="k2", job_id=MOVER, body=f"answer of {MOVER}")],
        entries=[
            Entry(job_id=MOVER, chunk=0, account=0, amount=7),
            Entry(job_id=MOVER, chunk=0, account=1, amount=-7),
        ],
        locks=more.locks,
        groups=more.groups,
        windows=[
            Window(fault="drain", target="worker 1", began=1, ended=2, detail={"exit_code": 0})
        ],
    )
