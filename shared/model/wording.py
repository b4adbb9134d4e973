"""Wording: what happened to a job of the first world, as people say it."""

from shared.model.actions import ACTIONS
from shared.model.state import State
from shared.model.world import Move


def worker_name(index: int) -> str:
    """A worker as people call it."""
    return f"worker {chr(ord('A') + index)}"


def job_name(index: int) -> str:
    """A job as people call it."""
    return f"job {index + 1}"


def in_words(move: Move[State], before: State) -> str:
    """One sentence on what happened."""
    fence = chunk = 0
    if move.worker is not None:
        was, now = before.workers[move.worker], move.state.workers[move.worker]
        who = now if move.action in {"claim", "read_input"} else was
        fence, chunk = who.fence, who.chunk + 1
    return ACTIONS[move.action].words.format(
        worker=worker_name(move.worker or 0),
        job="a job" if move.job is None else job_name(move.job),
        fence=fence,
        chunk=chunk,
    )


def shown(state: State, index: int) -> str:
    """How the job stands, in one line."""
    job = state.jobs[index]
    effects = " ".join("+".join(f"f{fence}" for fence in each) or "-" for each in job.effects)
    lease = (" lease" if job.lease else " expired") if job.state == "running" else ""
    return f"{job.state}{lease}, fence {job.fence}, effects [{effects}]"
