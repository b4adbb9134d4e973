"""Bugs in closing a period: its gate, whose close it is, what it looks for, who has approved."""

from tests.mutants.mutant import mutant

CLOSES = "protocol/test_period_close.py"
RACES = "protocol/test_period_races.py"
RECORDS = "worker/records/periods.py"
OF_JOB = """
           AND (SELECT e.job_id FROM books.period_events e
                 WHERE e.company = p.company AND e.period = p.period
                 ORDER BY e.id DESC LIMIT 1) = CAST(:job_id AS uuid)"""

MUTANTS = (
    mutant(
        "a close asks nobody to leave the period first",
        (RECORDS, "    await conn.execute(LOCK_GATE, scope)\n", ""),
        f"{RACES}::test_the_gate_waits_for_a_writer_that_passed_it_before",
    ),
    mutant(
        "a close believes its results to have read every movement",
        (
            "worker/records/period_checks.py",
            "NOT pg_visible_in_snapshot(s.xid, r.snapshot)",
            "false",
        ),
        f"{CLOSES}::test_a_movement_between_the_look_and_the_gate_refuses_the_close",
        also={
            f"{RACES}::test_the_gate_waits_for_a_writer_that_passed_it_before": (
                "what it waits for is found by nothing else"
            ),
        },
    ),
    mutant(
        "a cleanup opens what another close has taken over",
        (RECORDS, f"AND p.status = 'closing'{OF_JOB}", "AND p.status = 'closing'"),
        f"{CLOSES}::test_another_close_takes_over_what_a_dead_one_has_left",
    ),
    mutant(
        "periods are closed in any order",
        ("alembic/versions/0129_period_order.py", "            IF FOUND THEN", "IF false THEN"),
        f"{RACES}::test_the_database_itself_knows_the_order",
    ),
    mutant(
        "a close that joins another one uses its approval",
        ("api/periods.py", "        if accepted.created:\n", "        if accepted:\n"),
        "protocol/api/test_periods.py::test_what_is_refused_uses_no_approval",
    ),
)
