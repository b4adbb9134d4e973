"""Fences: who may write a job's row, and what such a statement has to name."""

import re

import pytest

from tests.architecture.statements import literals, migrations, module_statements, sources

WRITES_A_JOB = re.compile(r"(UPDATE|INSERT INTO|DELETE FROM|MERGE INTO)\s+chot\.jobs\b")
# Everybody else asks one of these. chot.enqueue() itself stands in migration 0009.
MAY_WRITE_A_JOB = {
    "shared/jobs/acts.py",  # who approved, in the transaction of its submit
    "shared/groups/fill.py",  # what a join waits for
    "shared/groups/progress.py",  # of a join that waits, told by its members
    "shared/groups/redrive.py",  # a cancelled member is let go
    "shared/groups/renew.py",  # which group a join waits for again
    "shared/groups/stop.py",
    "shared/jobs/cancel.py",
    "shared/jobs/back.py",
    "shared/jobs/exits.py",  # the follow-up, within every exit
    "shared/jobs/locks.py",  # blocked_by, within a claim that was not won for a lock
    "shared/migrations/pausing.py",  # paused_at
    "shared/outbox.py",  # published_at
    "worker/claim.py",
    "worker/cleanup.py",
    "worker/completions.py",
    "worker/lease.py",
    "worker/outcome.py",
    "worker/reaper.py",
    "worker/reconciler.py",
    "worker/waiting.py",
}
LOCK = re.compile(r"FOR\s+(NO KEY UPDATE|UPDATE|SHARE|KEY SHARE)(\s+OF\s+\w+)?")
# What stands right before the lock: the order, or the one row that is asked for.
IN_ORDER = re.compile(
    r"(ORDER BY ([\w., ]*\bid|q\.name)(\s+LIMIT \S+)?|\bid = :job_id"
    r"|k\.max_running IS NOT NULL)\s*$"  # the one row of a job's kind
)
STATEMENTS = module_statements()
OF_THE_OWNER = sorted(
    name
    for name, statement in STATEMENTS.items()
    if name.startswith(
        ("worker.completions.", "worker.lease.", "worker.outcome.", "worker.waiting.")
    )
    and WRITES_A_JOB.search(statement.text)
)
UPDATES = sorted(
    name for name, statement in STATEMENTS.items() if "UPDATE chot.jobs" in statement.text
)


COMPLETIONS = {"COMPLETE_JOB", "COMPLETE_MANY"}


def test_only_the_protocol_writes_jobs() -> None:
    """Seven verbs in their modules; a route or a handler that writes one is found here."""
    found = {
        path
        for path, tree in sources()
        for _, words in literals(tree)
        if WRITES_A_JOB.search(words)
    }
    assert found == MAY_WRITE_A_JOB


def test_no_later_migration_writes_jobs() -> None:
    """But for the functions that enqueue and archive, a migration leaves rows as they are."""
    found = {
        path.name
        for path, tree in migrations()
        for _, words in literals(tree)
        if WRITES_A_JOB.search(words)
    }
    assert found == {
        "0009_enqueue.py",
        "0054_archive.py",
        "0086_enqueue_each.py",
        "0092_submit_locks.py",
        "0102_group_append.py",
    }


def test_the_owners_statements_are_all_looked_at() -> None:
    """Renewal, fence and three exits: a list that came out empty would prove nothing."""
    names = {name.rpartition(".")[2] for name in OF_THE_OWNER}
    assert names >= {"RENEW_LEASES", "HOLD_FENCE", "FAIL_JOB", "RELEASE_JOB"} | COMPLETIONS


@pytest.mark.parametrize("name", OF_THE_OWNER)
def test_a_write_of_the_owner_names_fence_and_token(name: str) -> None:
    """A worker's name is no fence, and one of the two may be given twice after a failover."""
    update = STATEMENTS[name].text.partition("UPDATE chot.jobs")[2].partition("RETURNING")[0]
    assert re.search(r"j\.fence = (:fence|m\.fence)\b", update), name
    assert re.search(r"j\.lease_token = (:token|m\.token)\b", update), name
    assert "j.state = 'running'" in update, name


@pytest.mark.parametrize("name", UPDATES)
def test_a_transition_names_the_state_it_leaves(name: str) -> None:
    """Every update of a job is conditional; its row count says who won."""
    for part in STATEMENTS[name].text.split("UPDATE chot.jobs")[1:]:
        where = part.partition("RETURNING")[0].partition("WHERE")[2]
        assert re.search(r"\bstate (=|IN) ", where), f"{name}: …WHERE{where}"


def test_jobs_are_locked_for_no_key_update_only() -> None:
    """⚑ A foreign key's KEY SHARE would blind FOR UPDATE SKIP LOCKED to a zombie's job."""
    found = [
        f"{name}: FOR {lock}{of}"
        for name, statement in STATEMENTS.items()
        if "chot.jobs" in statement.text
        for lock, of in LOCK.findall(statement.text)
        if lock != "NO KEY UPDATE"
        and of.split()[-1:] not in (["o"], ["p"], ["l"])  # outbox, published, locks
    ]
    assert found == []


def test_a_batch_locks_jobs_in_id_order() -> None:
    """⚑ Two batches over the same rows in other orders would deadlock."""
    found = [
        f"{name}: …{statement.text[: lock.start()][-80:]}"
        for name, statement in STATEMENTS.items()
        if "chot.jobs" in statement.text
        for lock in re.finditer(r"FOR NO KEY UPDATE", statement.text)
        if not IN_ORDER.search(statement.text[: lock.start()])
    ]
    assert found == []


def test_a_lock_without_its_order_would_be_noticed() -> None:
    """The two patterns above find what they are there for."""
    assert LOCK.findall("SELECT 1 FROM chot.jobs FOR UPDATE SKIP LOCKED") == [("UPDATE", "")]
    assert WRITES_A_JOB.search("WITH x AS (UPDATE chot.jobs j SET state = 'dead')")
    assert not IN_ORDER.search("SELECT id FROM chot.jobs WHERE EXISTS (SELECT 1) ")
