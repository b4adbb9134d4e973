"""Bugs of posting: what is judged, what is locked, what is done once, and all or none."""

from tests.mutants.mutant import mutant

VERDICTS = "worker/records/verdicts.py"
RECORDS = "worker/records/posting.py"
LIST = "worker/records/posting_list.py"
HANDLER = "worker/handlers/posting.py"
ATOMIC = "worker/handlers/posting_atomic.py"
FAULTS = "protocol/test_posting_faults.py"
RESTS = "protocol/test_posting_rests.py"
RACES = "protocol/test_posting_races.py"
WHOLE = "protocol/test_posting_atomic.py"
LOOKUPS = "protocol/test_posting_lookups.py::test_a_chunk_reads_what_is_its_own[per_document]"

MUTANTS = (
    mutant(
        "a document is posted as it is now, whatever was selected",
        (VERDICTS, "CASE WHEN t.version <> t.listed THEN", "CASE WHEN false THEN"),
        f"{RACES}::test_what_somebody_holds_is_busy_and_tried_again",
        also={
            f"{FAULTS}::test_what_changed_since_it_was_selected_is_not_posted": (
                "what was changed while no worker had it is posted, too"
            ),
            f"{WHOLE}::test_what_changes_before_the_publication_refuses_it": (
                "what is staged again is judged by the same statement"
            ),
        },
    ),
    mutant(
        "a brand's job writes into the stores of another",
        (
            VERDICTS,
            "CASE WHEN b.value <> 0 AND coalesce(s.brand",
            "CASE WHEN false AND coalesce(s.brand",
        ),
        f"{FAULTS}::test_a_job_of_a_brand_posts_its_brands_books_only",
    ),
    mutant(
        "amounts are held to the ledger's size one by one, their sum is not",
        (
            VERDICTS,
            "WHEN t.debit > {LARGEST} OR t.credit > {LARGEST} OR t.largest > {LARGEST} THEN",
            "WHEN t.largest > {LARGEST} THEN",
        ),
        f"{FAULTS}::test_sums_that_no_ledger_holds",
        also={
            f"{FAULTS}::test_every_fault_of_a_document_is_told_in_the_fixed_order": (
                "its overflow is one of the sum"
            ),
        },
    ),
    mutant(
        "a document's first fault is told, not all of them",
        (
            VERDICTS,
            "ARRAY(SELECT split_part(f, ':', 1) FROM unnest(v.faults) f) AS codes",
            "ARRAY(SELECT split_part(f, ':', 1) FROM unnest(v.faults) f LIMIT 1) AS codes",
        ),
        f"{FAULTS}::test_every_fault_of_a_document_is_told_in_the_fixed_order",
        also={
            f"{FAULTS}::test_sums_that_no_ledger_holds": (
                "an amount that is no number is apart, too, and that is told first"
            ),
        },
    ),
    mutant(
        "rounding is as large as it likes",
        (VERDICTS, "ELSE a.lines END", "ELSE 1000000 END"),
        f"{RESTS}::test_at_most_a_unit_a_line_is_rounding[112-UNBALANCED]",
    ),
    mutant(
        "where a rest of rounding went is not said",
        (VERDICTS, "CASE WHEN v.takes THEN 'rounding '", "CASE WHEN false THEN 'rounding '"),
        f"{RESTS}::test_a_rest_goes_to_the_largest_line_and_says_so",
    ),
    mutant(
        "an attempt selects anew if the one before has posted nothing",
        (
            HANDLER,
            "if context.checkpoint is None:",
            'if context.checkpoint is None or context.checkpoint["done"] == 0:',
        ),
        f"{FAULTS}::test_what_changed_since_it_was_selected_is_not_posted",
    ),
    mutant(
        "what is busy in one pass is given up",
        (HANDLER, "if course.busy == 0 or course.pass_no == MOST_PASSES:", "if True:"),
        f"{RACES}::test_what_stays_busy_is_told_in_the_end",
        also={
            f"{RACES}::test_what_somebody_holds_is_busy_and_tried_again": (
                "what is held for a moment is given up as well"
            ),
        },
    ),
    mutant(
        "an atomic posting publishes what was checked, whatever it is now",
        (
            ATOMIC,
            "if await tx.connection.scalar(ANY_CHANGED, ours):",
            "if not await tx.connection.scalar(ANY_CHANGED, ours) and staging.refused:",
        ),
        f"{WHOLE}::test_what_changes_before_the_publication_refuses_it",
    ),
    mutant(
        "an atomic posting goes by the rules and roles that it was checked by",
        (ATOMIC, "return bool(staging.grounds) and (", "return staging.refused and ("),
        f"{WHOLE}::test_a_role_or_a_rule_changed_meanwhile_holds[role]",
    ),
    mutant(
        "a document is posted before the day that takes it off the ledger",
        (VERDICTS, "'REVERSED_LATER: ' || t.taken_back,", ""),
        "protocol/test_posting_again.py::test_it_is_not_posted_before_the_day_that_takes_it_back",
    ),
    mutant(
        "each chunk digests the lines of the whole ledger",
        (
            "alembic/versions/0145_append_entries.py",
            "WHERE g.entry_id = (s.entry).entry_id OFFSET 0) d ON true",
            "WHERE g.entry_id = (s.entry).entry_id) d ON true",
        ),
        LOOKUPS,
    ),
    mutant(
        "the order of a selection's ids makes it another job",
        (
            "alembic/versions/0153_whole_fingerprint.py",
            "jsonb_agg(DISTINCT e ORDER BY e), '[]')\n                                  FROM",
            "jsonb_agg(e), '[]')\n                                  FROM",
        ),
        f"{RACES}::test_the_same_selection_fifty_times_is_one_job",
    ),
    mutant(
        "a list goes when its job goes into the archive",
        (
            "worker/records/list_retention.py",
            "AND (SELECT true FROM chot.archived_jobs a WHERE a.id = l.job_id) IS NULL",
            "",
        ),
        "protocol/test_posting_retention.py::"
        "test_a_list_goes_once_the_archive_has_forgotten_its_job",
    ),
)
