"""Simulation: the model taken step by step, by hand, at random, or along a counterexample."""

import random
from collections.abc import Iterable
from typing import Any

from shared.model.actions import ACTIONS
from shared.model.model import Model
from shared.model.properties import PROPERTIES
from shared.model.protections import ALL, without
from shared.model.state import BELIEVES, RUNNING, Bounds, Job, State, Worker
from shared.model.trace import Action, Counterexample
from shared.model.transitions import is_owner
from shared.model.wording import in_words, job_name, worker_name
from shared.model.world import Move

# How likely a random walk takes each kind: long enough to see work done, and faults to matter.
WEIGHTS = {"fair": 8, "choice": 2, "fault": 1, "mutant": 4}
DOING = {
    "idle": "waits for a message",
    "received": "holds a message, about to claim",
    "claimed": "has claimed, about to read its input",
    "ready": "works in an open transaction",
    "fenced": "stands between fence and COMMIT",
    "doubt": "does not know whether its COMMIT succeeded",
    "owing": "has completed, still owes the effects",
    "done": "about to delete the message",
}


class Simulation:
    """One world, changed by `step`. The same bounds, protections, seed and steps: the same run."""

    def __init__(self, bounds: Bounds, protections: frozenset[str] = ALL, *, seed: int = 0) -> None:
        self._model = Model(bounds, protections)
        self._random = random.Random(seed)
        self._state = self._model.initial()
        self._trace: list[dict[str, Any]] = []
        self._broken: list[str] = []

    @classmethod
    def of(cls, found: Counterexample, *, seed: int = 0) -> "Simulation":
        """The world that a counterexample starts in; `replay(found.actions)` plays it."""
        return cls(found.bounds, without(*found.removed), seed=seed)

    def enabled(self) -> list[Action]:
        """Every action that is possible now, always in the same order."""
        return [_action(move) for move in self._model.moves(self._state)]

    def step(self, action: Action | None = None) -> Action:
        """Take this action, or one at random; ValueError when it (or any) is not possible."""
        moves = list(self._model.moves(self._state))
        if action is None:
            if not moves:
                raise ValueError("nothing is possible any more")
            weights = [WEIGHTS[ACTIONS[move.action].kind] for move in moves]
            move = self._random.choices(moves, weights)[0]
        else:
            wanted = [each for each in moves if _action(each) == action]
            if not wanted:
                raise ValueError(f"{action.name} is not possible now")
            move = wanted[0]
        self._take(move)
        return _action(move)

    def walk(self, steps: int) -> list[Action]:
        """Take so many steps at random, fewer where nothing is possible any more."""
        taken: list[Action] = []
        while len(taken) < steps and self.enabled():
            taken.append(self.step())
        return taken

    def replay(self, actions: Iterable[Action]) -> None:
        """Take these actions one after the other; ValueError at the first that is not possible."""
        for action in actions:
            self.step(action)

    def _take(self, move: Move[State]) -> None:
        spec = ACTIONS[move.action]
        self._trace.append(
            {
                "number": len(self._trace) + 1,
                "action": move.action,
                "kind": spec.kind,
                "worker": move.worker,
                "job": move.job,
                "implements": spec.implements,
                "words": in_words(move, self._state),
                "broken": move.broken,
            }
        )
        if move.broken is not None and move.broken not in self._broken:
            self._broken.append(move.broken)
        self._state = move.state

    @property
    def trace(self) -> list[dict[str, Any]]:
        """What has happened so far, a JSON object a step, with a sentence in "words"."""
        return [dict(entry) for entry in self._trace]

    @property
    def broken(self) -> str | None:
        """The first property that this run has broken."""
        return self._broken[0] if self._broken else None

    @property
    def ended(self) -> bool:
        """Whether every job that was submitted has ended and the outbox is empty."""
        return self._model.has_ended(self._state)

    @property
    def state(self) -> dict[str, Any]:
        """The world as a JSON object, in words where people look at it."""
        state = self._state
        return {
            "workers": [
                _shown_worker(index, worker, state.jobs)
                for index, worker in enumerate(state.workers)
            ],
            "jobs": [_shown_job(index, job, state.workers) for index, job in enumerate(state.jobs)],
            "outbox": [job_name(i) for i, job in enumerate(state.jobs) for _ in range(job.staged)],
            "queue": [job_name(i) for i, job in enumerate(state.jobs) for _ in range(job.visible)],
            "in_flight": [
                {"job": job_name(worker.job), "worker": worker_name(index)}
                for index, worker in enumerate(state.workers)
                if worker.message
            ],
            "left": state.left._asdict(),
            "ended": self.ended,
            "broken": [{"property": name, "words": PROPERTIES[name]} for name in self._broken],
        }


def _action(move: Move[State]) -> Action:
    return Action(name=move.action, worker=move.worker, job=move.job)


def _shown_worker(index: int, worker: Worker, jobs: tuple[Job, ...]) -> dict[str, Any]:
    busy = worker.job >= 0
    believes = worker.pc in BELIEVES
    owns = believes and is_owner(worker, jobs[worker.job])
    return {
        "name": worker_name(index),
        "pc": worker.pc,
        "doing": "stopped (SIGSTOP)" if worker.paused else DOING[worker.pc],
        "job": job_name(worker.job) if busy else None,
        "fence": worker.fence if believes else None,
        "checkpoint_no": worker.checkpoint_no if believes else None,
        "next_chunk": worker.chunk + 1 if worker.pc in {"ready", "fenced", "doubt"} else None,
        "paused": worker.paused,
        "zombie": believes and not owns,
    }


def _shown_job(index: int, job: Job, workers: tuple[Worker, ...]) -> dict[str, Any]:
    owners = [
        worker_name(place)
        for place, worker in enumerate(workers)
        if worker.job == index and worker.pc in BELIEVES and is_owner(worker, job)
    ]
    return {
        "name": job_name(index),
        "state": job.state,
        "fence": job.fence,
        "lease": ("valid" if job.lease else "expired") if job.state == RUNNING else None,
        "owner": owners[0] if owners else None,
        "row_locked": job.locked,
        "checkpoint_no": job.checkpoint_no,
        "next_chunk": job.checkpoint + 1,
        "max_attempts": job.max_attempts,
        "lost_leases": job.lost_leases,
        "interruptions": job.interruptions,
        "open_attempts": list(job.open_attempts),
        "effects": [
            {"chunk": chunk + 1, "fences": list(fences)} for chunk, fences in enumerate(job.effects)
        ],
    }
