"""The actions: what each is called, how it is scheduled, and which code it stands for.

*fair*: must happen at last when it stays possible. *choice*: a client, a handler or the
heartbeat may do it. *fault*: the world may do it. A removed protection adds the *mutant* ones.
"""

from dataclasses import dataclass
from typing import Literal

Kind = Literal["fair", "choice", "fault", "mutant"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionSpec:
    """`implements` is the dotted name of the code; None where the world itself acts.

    `words` is a sentence with {worker}, {job}, {fence} and {chunk} to be filled in.
    """

    kind: Kind
    implements: str | None
    words: str


def _fair(implements: str | None, words: str) -> ActionSpec:
    return ActionSpec(kind="fair", implements=implements, words=words)


def _choice(implements: str, words: str) -> ActionSpec:
    return ActionSpec(kind="choice", implements=implements, words=words)


def _fault(words: str, implements: str | None = None) -> ActionSpec:
    return ActionSpec(kind="fault", implements=implements, words=words)


def _mutant(implements: str, words: str) -> ActionSpec:
    return ActionSpec(kind="mutant", implements=implements, words=words)


ACTIONS: dict[str, ActionSpec] = {
    "submit": _choice("shared.jobs.enqueue.enqueue", "{job} is submitted, with its outbox row"),
    "relay_publish": _fair("shared.outbox.Relay", "relay sends {job}'s message, deletes its row"),
    "relay_drop": _fair("shared.publishing.take_due", "relay drops {job}'s row: it is not pending"),
    "relay_crash": _fault(
        "relay sends {job}'s message and dies before it deletes the row", "shared.outbox.Relay"
    ),
    "receive": _fair("worker.receiver.Receiver", "{worker} receives a message of {job}"),
    "claim": _fair("worker.claim.claim_jobs", "{worker} claims {job} under fence {fence}"),
    "miss_delete": _fair("worker.settle.settle", "{worker} misses {job}, deletes the message"),
    "put_off": _fair("worker.settle.settle", "{worker} misses {job}, puts the message off"),
    "read_input": _fair(
        "worker.claim.read_input", "{worker} reads {job}'s checkpoint: chunk {chunk} is next"
    ),
    "commit_chunk": _fair(
        "worker.fence.fenced_transaction",
        "{worker} commits chunk {chunk} of {job} under fence {fence}",
    ),
    "complete": _fair(
        "worker.outcome.complete_job",
        "{worker} commits chunk {chunk} of {job} and its completion under fence {fence}",
    ),
    "lose_lease": _fair(
        "worker.lease.hold_fence",
        "{worker} finds fence {fence} of {job} dead, rolls back, keeps quiet",
    ),
    "doubt_committed": _fault(
        "{worker} commits chunk {chunk} of {job} under fence {fence}; the answer is lost",
        "worker.fence.fenced_transaction",
    ),
    "doubt_rolled_back": _fault(
        "{worker}'s commit of chunk {chunk} of {job} is rolled back; the answer is lost",
        "worker.fence.fenced_transaction",
    ),
    "settle": _fair("worker.lease.settle_doubt", "{worker} asks what became of its commit"),
    "fail": _choice("worker.outcome.fail_job", "{worker}'s handler of {job} raises: charged"),
    "release": _choice("worker.outcome.release_job", "{worker} hands {job} back, uncharged"),
    "delete_message": _fair("worker.deliveries.Deliveries", "{worker} deletes {job}'s message"),
    "renew": _choice("worker.lease.renew_leases", "{worker}'s heartbeat renews {job}'s lease"),
    "reap": _fair("worker.reaper.reap_expired", "reaper: {job}'s lease ran out"),
    "reconcile": _fair("worker.reconciler.restage_lost", "reconciler stages {job} again"),
    "cancel": _choice("shared.jobs.cancel.cancel_job", "a client cancels {job}"),
    "redrive": _choice("shared.jobs.redrive.redrive_job", "an operator redrives {job}"),
    "clean_up": _fair("worker.cleanup.clean_up_one", "what {job} left half-built is removed"),
    "finish_commit": _fair(
        "worker.fence.fenced_transaction", "{worker} sends the COMMIT that was due, of {job}"
    ),
    "idle_timeout": _fair(
        "shared.database.set_limits", "the server ends {worker}'s idle transaction on {job}"
    ),
    "expire": _fault("{job}'s lease runs out although its owner lives"),
    "expire_unheld": _fair(None, "{job}'s lease runs out: nobody renews it"),
    "stop_in_commit": _fault("{worker} is stopped (SIGSTOP) between fence and COMMIT of {job}"),
    "pause": _fault("{worker} is stopped (SIGSTOP)"),
    "resume": _fault("{worker} goes on (SIGCONT)"),
    "crash": _fault("{worker} is killed; {job}'s message becomes visible again"),
    "duplicate": _fault("SQS repeats {job}'s message"),
    "redeliver": _fault("the message of {job} that {worker} holds becomes visible again"),
    "lose": _fault("SQS loses {job}'s message"),
    "publish_early": _mutant("shared.outbox.Relay", "{job}'s message is sent before its COMMIT"),
    "relay_deletes_unsent": _mutant("shared.outbox.Relay", "relay deletes {job}'s row, unsent"),
    "fence_by_select": _mutant(
        "worker.lease.hold_fence", "{worker} looks whether fence {fence} of {job} would hold"
    ),
    "write_late": _mutant("worker.fence.fenced_transaction", "{worker} writes {job}'s last chunk"),
    "guess": _mutant("worker.lease.settle_doubt", "{worker} guesses that it did not commit"),
}
