"""Bugs of unposting: what hangs on a document, which version is meant, and who must approve."""

from tests.mutants.mutant import mutant

RECORDS = "worker/records/unposting.py"
HANDLER = "worker/handlers/unposting.py"
WHOLE = "protocol/test_unposting.py"
COSTS = "protocol/test_unposting_costs.py"
HTTP = "protocol/api/test_unposting.py"

MUTANTS = (
    mutant(
        "an unposting takes off a version that nobody selected",
        (RECORDS, "if head.version != listed.version:", "if False:"),
        f"{WHOLE}::test_a_stale_unposting_leaves_the_next_version_alone",
    ),
    mutant(
        "a sale comes off because its return was asked for, though the return stays",
        (RECORDS, "if row.id not in good]", "if row.id not in facts.heads]"),
        f"{WHOLE}::test_what_refers_and_stays_keeps_the_other_one",
    ),
    mutant(
        "the earliest documents are unposted first",
        (HANDLER, "newest_first=True", "newest_first=False"),
        f"{WHOLE}::test_filters_take_what_is_posted_of_the_jobs_brand_latest_first",
    ),
    mutant(
        "a brand's job takes back entries with lines of another",
        (RECORDS, "            brands.update(entry.brands)", "            pass"),
        f"{WHOLE}::test_what_is_not_the_jobs_own",
    ),
    mutant(
        "a reversal may be of a day before its entry",
        (RECORDS, "and latest is not None and day < latest:", "and day is None:"),
        f"{WHOLE}::test_days_that_no_reversal_may_have",
    ),
    mutant(
        "the costs of a slip come off though nobody asked for it",
        (RECORDS, "and not (unposter.costs and row.alone)", "and not row.alone"),
        f"{COSTS}::test_the_costs_of_a_slip_come_off_with_it_and_are_made_anew",
    ),
    mutant(
        "costs of many documents come off with one of them",
        (RECORDS, "and not (unposter.costs and row.alone)", "and not unposter.costs"),
        f"{COSTS}::test_costs_of_many_are_in_the_way_until_they_are_named",
    ),
    mutant(
        "a slip is free though somebody holds its costs",
        (
            RECORDS,
            "or {each.document_id, *(row.cost_document_id for row in costs[each.document_id])} <= held",
            "or {each.document_id} <= held",
        ),
        f"{COSTS}::test_costs_that_somebody_holds_make_their_slip_busy",
    ),
    mutant(
        "an approval is of a company's books, whatever is unposted of them",
        ("shared/jobs/acts.py", "(job.company, job.brand, row.print)", "(job.company, job.brand)"),
        f"{HTTP}::test_an_approval_that_does_not_count_says_why",
    ),
    mutant(
        "an act that joins a job asks for an approval of its own",
        ("api/acts.py", "if name is None or not accepted.created:", "if name is None:"),
        f"{HTTP}::test_a_job_that_is_there_already_uses_none",
    ),
    mutant(
        "an act passes in a batch without an approval",
        (
            "api/batch.py",
            "return act_among_many(checked, kinds) or checked, False",
            "return checked, False",
        ),
        f"{HTTP}::test_an_unposting_comes_alone",
    ),
    mutant(
        "whoever may submit may unpost",
        ("api/acts.py", "if not who.has(Role.OPERATE):", "if False:"),
        f"{HTTP}::test_an_unposting_asks_for_role_operate",
    ),
    mutant(
        "another service unposts by SQL, which asks for no approval",
        (
            "alembic/versions/0161_approved_kinds.py",
            "WHEN k.approval IS NOT NULL",
            "WHEN false",
        ),
        f"{HTTP}::test_sql_of_another_service_is_refused_and_the_platform_is_not",
    ),
    mutant(
        "whose document an outcome is of is told to everybody",
        (
            "shared/jobs/outcomes.py",
            "                                 OR d.brand = CAST(:brand AS text))",
            "                                 OR true)",
        ),
        "protocol/api/test_outcomes.py::test_a_document_is_named_to_who_sees_the_books_of_the_job",
    ),
)
