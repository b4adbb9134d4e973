"""Bugs of the ledger: what gets in, how it is numbered and chained, what reports say."""

from tests.mutants.mutant import mutant

TABLES = "alembic/versions/0143_ledger.py"
APPEND = "alembic/versions/0145_append_entries.py"
NETS = "alembic/versions/0146_ledger_nets.py"
TESTS, RACES = "protocol/test_ledger.py", "protocol/test_ledger_races.py"
REPORTS, CHAIN = "protocol/test_trial_balance.py", "protocol/api/test_ledger.py"

MUTANTS = (
    mutant(
        "two posters take their series in opposite orders",
        (APPEND, "GROUP BY 1, 2 ORDER BY 1, 2\n", "GROUP BY 1, 2 ORDER BY min(s.place)\n"),
        f"{RACES}::test_series_are_locked_in_one_order",
    ),
    mutant(
        "entries are numbered as they were handed in",
        (APPEND, "OVER (ORDER BY e.posting_date, e.document_id,", "OVER (ORDER BY 1,"),
        f"{TESTS}::test_numbers_follow_days_and_documents",
    ),
    mutant(
        "a fiscal year begins in January, whatever the company says",
        (APPEND, "< c.fiscal_year_start_month", "< 1"),
        f"{TESTS}::test_each_series_and_fiscal_year_counts_from_one",
    ),
    mutant(
        "an entry's hash does not hold its number",
        (
            APPEND,
            "sha256(head || int8send(top + i) || contents[i])",
            "sha256(head || contents[i])",
        ),
        f"{TESTS}::test_the_chain_is_what_its_formula_says",
        also={
            f"{CHAIN}::test_a_chain_shows_what_was_changed": "it makes each hash anew by the formula"
        },
    ),
    mutant(
        "a line joins the entry of another transaction",
        (
            TABLES,
            "FOREIGN KEY (entry_id, xid)\n                REFERENCES books.gl_entries (id, xid)",
            "FOREIGN KEY (entry_id)\n                REFERENCES books.gl_entries (id)",
        ),
        f"{TESTS}::test_no_line_comes_after_its_entry",
    ),
    mutant(
        "an entry's debits need not be its credits",
        (NETS, "WHEN l.debit <> l.credit THEN", "WHEN false THEN"),
        f"{TESTS}::test_an_entry_that_is_none_is_refused[UNBALANCED]",
    ),
    mutant(
        "what takes an entry back need not have its lines",
        (NETS, "HAVING sum(g.debit) <> sum(g.credit)", "HAVING false"),
        f"{TESTS}::test_a_version_of_a_document_is_posted_once",
    ),
    mutant(
        "a fence that is lost before the commit posts all the same",
        (
            NETS,
            "AND j.fence = w.fence AND j.state = 'running')\n             LIMIT 1",
            ")\n LIMIT 1",
        ),
        f"{TESTS}::test_a_fence_lost_in_the_middle_is_met_at_commit",
    ),
    mutant(
        "a number is given and nobody has it",
        (
            NETS,
            "OR given <> NEW.last_no - OLD.last_no OR linked <> given OR given = 0 THEN",
            "OR linked <> given THEN",
        ),
        f"{TESTS}::test_there_is_one_way_in",
    ),
    mutant(
        "an entry need not follow the one before",
        (NETS, " OR linked <> given OR given = 0 THEN", " OR given = 0 THEN"),
        f"{TESTS}::test_a_number_that_is_given_is_used",
    ),
    mutant(
        "the owner may change a line of the ledger",
        (
            NETS,
            '("gl_lines", "UPDATE OR DELETE OR TRUNCATE")',
            '("gl_lines", "DELETE OR TRUNCATE")',
        ),
        f"{TESTS}::test_the_ledger_is_only_ever_added_to",
    ),
    mutant(
        "what a posted document says may be changed",
        (NETS, "WHEN (OLD.status <> 'draft')", "WHEN (OLD.status = 'void')"),
        f"{TESTS}::test_what_a_posted_document_says_stays",
    ),
    mutant(
        "a chain is believed and not made anew",
        (
            "shared/ledger/entries.py",
            "    if row.computed != row.hash:\n",
            "    if row.computed is None:\n",
        ),
        f"{CHAIN}::test_a_chain_shows_what_was_changed",
    ),
    mutant(
        "a trial balance leaves out its last day",
        (
            "shared/ledger/reports.py",
            "WHERE l.company = :company AND l.posting_date <= :until AND {OF_BRANDS}\n         GROUP",
            "WHERE l.company = :company AND l.posting_date < :until AND {OF_BRANDS}\n         GROUP",
        ),
        f"{REPORTS}::test_what_one_period_closes_with_the_next_one_opens_with",
    ),
    mutant(
        "a journal shows a brand the lines of another",
        (
            "shared/ledger/reports.py",
            "       AND {OF_BRANDS}\n       AND (e.posting_date, e.id) >=",
            "       AND (CAST(:brands AS text[]) IS NULL OR true)\n       AND (e.posting_date, e.id) >=",
        ),
        f"{REPORTS}::test_some_brands_have_sums_of_their_own",
    ),
    mutant(
        "the pages of a report are of as many moments",
        (
            "worker/handlers/ledger_exports.py",
            "        await begin_moment(conn)\n",
            "",
        ),
        "protocol/test_ledger_exports.py::test_a_file_is_of_one_moment",
    ),
    mutant(
        "a posting rule need not balance",
        ("shared/ledger/rules.py", "    if beyond or not lines:\n", "    if not lines:\n"),
        "protocol/api/test_ledger_chart.py::test_a_rule_that_yields_no_entry_is_refused",
    ),
    mutant(
        "an account becomes one of another kind",
        (
            "shared/ledger/chart.py",
            '    if before["kind"] != account.kind:\n',
            '    if before["code"] != account.code:\n',
        ),
        "protocol/api/test_ledger_chart.py::test_an_account_that_cannot_be_is_refused",
    ),
)
