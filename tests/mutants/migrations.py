"""Bugs in migrations: what a cursor stands for, what is set aside, what waits and is never charged."""

from tests.mutants.mutant import mutant

RUNS = "protocol/test_migrations.py"
KILLS = "protocol/test_migration_kills.py"
WAITS = "protocol/test_migration_waits.py"
RUNNING = "worker/migrations/running.py"

MUTANTS = (
    mutant(
        "any key is good enough for a cursor",
        ("worker/migrations/bounds.py", "    if not row.is_unique:", "    if False:"),
        f"{RUNS}::test_a_key_that_is_no_total_order_is_refused[probe.by_time-KEY_NOT_UNIQUE-"
        "(at) of probe.rows is not unique]",
    ),
    mutant(
        "a run goes over rows that are born while it runs",
        (
            "worker/migrations/statements.py",
            "WHERE {self.where(after, self.upper)} ORDER BY",
            "WHERE {self.where(after, None)} ORDER BY",
        ),
        f"{RUNS}::test_rows_born_after_the_upper_bound_are_left_alone",
    ),
    mutant(
        "a batch that takes too long is tried again as it is",
        (
            "worker/migrations/steering.py",
            "            self.size = max(1, tried // 2)\n            return True\n",
            "            return True\n",
        ),
        "protocol/test_migration_rules.py::test_a_row_that_never_fits_is_given_up_in_the_end",
    ),
    mutant(
        "a dry run keeps what it has done",
        (RUNNING, "await savepoint.rollback()", "await savepoint.commit()"),
        f"{WAITS}::test_a_dry_run_counts_and_writes_nothing",
    ),
    mutant(
        "a paused migration is claimed all the same",
        ("shared/jobs/states.py", '"j.paused_at IS NULL"', '"true"'),
        f"{WAITS}::test_a_pause_of_a_pending_run_keeps_it_from_being_claimed",
    ),
    mutant(
        "a redriven run does what was set aside as if it were nothing",
        (
            "worker/handlers/migrating.py",
            '    if standing.phase == "retrying":\n        await retry_rejects(batches)\n',
            "",
        ),
        f"{RUNS}::test_a_redriven_run_tries_again_what_it_had_set_aside",
    ),
    mutant(
        "a killed run begins its prepared lines anew and keeps the old ones",
        (
            "worker/migrations/preparing.py",
            "        await save_state(tx.connection, self.run.job_id, state)\n",
            "",
        ),
        f"{KILLS}::test_kills_while_lines_are_prepared_lose_none_and_double_none",
    ),
    mutant(
        "a login that may only enqueue asks for any migration",
        ("shared/kinds/migration.py", "    by_account=True,", "    by_account=False,"),
        "protocol/api/test_migrations.py::test_sql_of_another_service_submits_no_migration",
    ),
)
