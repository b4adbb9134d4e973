"""Bugs in how it is operated: pages, sessions, alerts, doctor, retention, logs, the simulator."""

from tests.mutants.mutant import mutant

FORMS, GATE, PATHS = "api/ui/forms.py", "api/gate.py", "api/ui/paths.py"
ARCHIVE, MONTHS = "alembic/versions/0054_archive.py", "alembic/versions/0193_archive_months.py"
STEPS, QUEUES = "shared/alerts/steps.py", "shared/doctor/queues.py"
LOOK, PLAN, ERRORS = "api/ui/job_look.py", "shared/model/timed/plan.py", "worker/telling.py"
LOGIN, ARCHIVED = "pages/test_login.py", "protocol/api/test_archive.py"

MUTANTS = (
    # Pages
    mutant(
        "a form needs no token",
        (
            FORMS,
            "if seed is None or not hmac.compare_digest(",
            "if seed is None and not hmac.compare_digest(",
        ),
        "pages/test_safety.py::test_no_form_is_believed_but_ours",
    ),
    mutant(
        "a session's cookie is believed under /v1",
        (
            GATE,
            '            if is_page(request.scope["path"]):\n',
            '            if "authorization" not in request.headers:\n',
        ),
        f"{LOGIN}::test_a_bearer_token_opens_no_page_and_a_cookie_no_route",
    ),
    mutant(
        "a login leads wherever it was told to",
        (
            PATHS,
            '    if parts.scheme or parts.netloc or "//" in path or "/.." in path:\n',
            "    if parts.scheme or parts.netloc:\n",
        ),
        f"{LOGIN}::test_a_login_leads_nowhere_else",
    ),
    mutant(
        "a page of dead letters shows every brand's",
        (
            "api/ui/routes/dead_letters.py",
            "            limit=MOST_JOBS + 1,\n            scope=who.scope,\n",
            "            limit=MOST_JOBS + 1,\n",
        ),
        "pages/test_scope.py::test_a_brand_sees_nothing_of_another_one[dead]",
    ),
    mutant(
        "a job's page is everybody's",
        (
            LOOK,
            "        why = await explain_job(conn, job_id, who.scope)\n",
            "        why = await explain_job(conn, job_id, EVERYTHING)\n",
        ),
        "pages/test_scope.py::test_a_brand_sees_nothing_of_another_one[page]",
        (
            LOOK,
            "    row = await show_job(conn, job_id, scope=who.scope)\n",
            "    row = await show_job(conn, job_id, scope=EVERYTHING)\n",
        ),
        (
            LOOK,
            "from shared.access import Role\n",
            "from shared.access import EVERYTHING, Role\n",
        ),
    ),
    # Retention
    mutant(
        "retention deletes before it archives",
        (
            ARCHIVE,
            "            INSERT INTO chot.archived_jobs (id,",
            (
                "            DELETE FROM chot.job_outputs WHERE job_id = ANY(ids);\n"
                "            INSERT INTO chot.archived_jobs (id,"
            ),
        ),
        f"{ARCHIVED}::test_an_archived_job_answers_as_it_did",
    ),
    mutant(
        "what is dead is archived, too",
        (
            ARCHIVE,
            "                       AND state IN ('succeeded', 'cancelled') AND NOT cleanup_due\n",
            (
                "                       AND state IN ('succeeded', 'cancelled', 'dead')"
                " AND NOT cleanup_due\n"
            ),
        ),
        f"{ARCHIVED}::test_only_what_is_over_for_good_is_archived",
        (
            ARCHIVE,
            "WHERE id = ANY(ids) AND state IN ('succeeded', 'cancelled');",
            "WHERE id = ANY(ids);",
        ),
    ),
    mutant(
        "a month is dropped with those of it that ended late",
        (MONTHS, "                IF young > 0 THEN\n", "                IF young < 0 THEN\n"),
        "protocol/test_months.py::test_a_month_whose_time_is_over_is_dropped_as_a_whole",
    ),
    mutant(
        "a month is dropped while much of it is young",
        (
            MONTHS,
            "                    CONTINUE WHEN young > 1000;\n",
            "                    CONTINUE WHEN young > 1000000;\n",
        ),
        "protocol/test_months.py::test_a_month_of_which_many_ended_late_waits",
    ),
    # Signals
    mutant(
        "an alert is told at each look",
        (
            STEPS,
            "    if after.told_at is None:\n",
            "    if after.told_at is None or not silenced:\n",
        ),
        "protocol/alerts/test_rules.py::test_a_rule_fires_after_its_time_once_and_is_over",
    ),
    mutant(
        "an alert is over as soon as its number is well once",
        (
            STEPS,
            "timedelta(seconds=resolve_seconds)",
            "timedelta(seconds=0 * resolve_seconds)",
        ),
        "protocol/alerts/test_delivery.py::test_a_number_that_swings_is_one_incident",
    ),
    mutant(
        "the doctor takes a queue's visibility as it is",
        (QUEUES, "            visibility < wanted.lease,\n", "            visibility < 0,\n"),
        "protocol/doctor/test_queues.py::test_an_attribute_against_the_rules",
    ),
    mutant(
        "the log tells an error's own words",
        (
            ERRORS,
            '"code": error["code"], "where": error.get("where")}',
            '"code": error["code"], "where": error.get("where"), "message": error["message"]}',
        ),
        "scenarios/test_log_canaries.py::test_a_payload_goes_through_everything_and_is_in_no_line",
    ),
    # The simulator
    mutant(
        "the simulator keeps the fence that was taken away",
        (
            PLAN,
            "return without(*(() if self.fence else FENCE))",
            "return without(*(() if self.fence else FENCE[:1]))",
        ),
        "model/test_timed.py::test_without_the_fence_the_same_plans_write_twice",
    ),
)
