"""Bugs in what readers get: half a run, half a file, another brand's numbers, a formula that runs."""

from tests.mutants.mutant import mutant

PAGES, FILES, WRITING = "api/routes/cost_results.py", "shared/files.py", "worker/records/files.py"
EXPORTING, CELLS = "worker/handlers/exporting.py", "worker/exports/cells.py"
RUNS, STORED = "protocol/api/test_cost_runs.py", "protocol/api/test_files.py"
EXPORTED = "protocol/test_exporting.py"

MUTANTS = (
    mutant(
        "a page of a run that went while it was read is given out",
        (
            PAGES,
            "limit=query.limit + 1)\n        await require_rows(conn, run)\n",
            "limit=query.limit + 1)\n",
        ),
        f"{RUNS}::test_a_run_that_is_superseded_while_it_is_read_gives_no_part_of_itself",
    ),
    mutant(
        "an account with some brands gets the numbers of all",
        (
            "api/cost_pages.py",
            '    if scope.brands is None or run["brand"] is not None:\n',
            "    if True:\n",
        ),
        f"{RUNS}::test_a_brands_key_sees_its_part_and_no_number_of_the_others",
    ),
    mutant(
        "a price is cut off where it should be rounded",
        (
            "shared/costs/shown.py",
            "(2 * num * 10**digits + den) // (2 * den)",
            "(2 * num * 10**digits) // (2 * den)",
        ),
        f"{RUNS}::test_a_price_is_rounded_half_up_once_from_its_quotient",
    ),
    mutant(
        "a file is had before the job that writes it has ended",
        (FILES, "AND j.state = 'ready'\n", "AND j.id IS NOT NULL\n"),
        f"{STORED}::test_what_is_being_written_and_what_has_expired_is_none",
    ),
    mutant(
        "a file is had by whoever knows its id",
        (
            FILES,
            "j.expires_at > clock_timestamp() AND {IN_SCOPE}",
            "j.expires_at > clock_timestamp() AND ({IN_SCOPE} OR true)",
        ),
        f"{STORED}::test_a_file_is_of_its_brand_or_of_the_whole_company",
    ),
    mutant(
        "the commit of an export does not ask whether the run still speaks",
        (
            EXPORTING,
            "        await require_run(tx.connection, wanted)\n        tx.result",
            "        tx.result",
        ),
        f"{EXPORTED}::test_a_run_that_is_superseded_before_the_last_commit_leaves_no_file",
    ),
    mutant(
        "what a lost attempt has stored of its file is kept for ever",
        (WRITING, "    await discard_files(conn, job.id)\n    binds", "    binds"),
        f"{EXPORTED}::test_an_attempt_that_ends_half_way_is_never_seen_and_the_next_starts_over",
    ),
    mutant(
        "a text of a CSV file begins as a formula does",
        (CELLS, '("=", "+",', '("+",'),
        "unit/worker/test_exports.py::test_no_text_of_a_csv_file_is_a_formula",
    ),
)
