"""Bugs in imports: what a cell is taken for, which lines are lost or doubled, whose file it is."""

from tests.mutants.mutant import mutant

CELLS, CSV = "worker/imports/cells.py", "worker/imports/csv_records.py"
READING, UNPACKING = "worker/imports/reading.py", "worker/imports/unpacking.py"
COLUMNS, XLSX = "worker/imports/columns.py", "worker/imports/xlsx_records.py"
MERGE, TASK = "worker/records/import_verdicts.py", "worker/migrations/importing.py"
DOCUMENTS, ITEMS = "worker/records/import_documents.py", "worker/records/import_items.py"
BRINGING, WRITERS = "worker/records/bringing.py", "alembic/versions/0180_movement_writers.py"
UPLOADS, SHARED = "api/uploads.py", "shared/uploads.py"
OF_CELLS = "unit/worker/imports/test_cells.py"
OF_FILES = "unit/worker/imports/test_files.py"
TESTS, KILLS = "protocol/test_imports.py", "protocol/test_import_kills.py"
MEETS, WORDS = "protocol/test_import_meets.py", "unit/worker/imports/test_own_words.py"
HTTP = "protocol/api/test_uploads.py"

MUTANTS = (
    mutant(
        "a number that could be two is taken for one",
        (
            CELLS,
            "if len(part) == 3 and 0 < len(whole) <= 3",
            "if len(part) == 9 and 0 < len(whole)",
        ),
        f"{OF_CELLS}::test_a_number_that_could_be_two_is_refused_with_what_settles_it",
    ),
    mutant(
        "Excel's leap day of 1900 is forgotten",
        (CELLS, "date(1899, 12, 31 if serial < NO_SUCH_DAY else 30)", "date(1899, 12, 30)"),
        f"{OF_CELLS}::test_days_are_read_as_they_are_written_here_and_in_spreadsheets",
    ),
    mutant(
        "the time of day is dropped in silence",
        (CELLS, "    if not MIDNIGHT.fullmatch(", "    if False and not MIDNIGHT.fullmatch("),
        f"{OF_CELLS}::test_what_is_no_day_is_refused",
    ),
    mutant(
        "words stay as they were typed",
        (CELLS, 'text = unicodedata.normalize("NFC", text)', "text = str(text)"),
        f"{OF_CELLS}::test_a_word_is_the_same_whatever_it_was_typed_on",
    ),
    mutant(
        "a spreadsheet's number is remembered for the text that looks like it",
        (COLUMNS, "plain = type(cell) is str\n", "plain = True\n"),
        f"{OF_FILES}::test_a_number_of_a_sheet_is_not_the_text_that_looks_like_it",
    ),
    mutant(
        "a quote that is never closed swallows what follows",
        (
            CSV,
            "            lines.give_back()\n            continue\n        except _TooLong:",
            "            continue\n        except _TooLong:",
        ),
        f"{OF_FILES}::test_a_quote_that_is_never_closed_costs_its_own_line",
    ),
    mutant(
        "what a packed file unpacks to is not counted",
        (UNPACKING, "        self.left -= count\n", "        self.left -= 0\n"),
        f"{OF_FILES}::test_what_unpacks_beyond_all_measure_is_refused",
    ),
    mutant(
        "a formula that was never calculated is an empty cell",
        (XLSX, '"n" | "str" if not value and self._formula', '"n" | "str" if False'),
        f"{OF_FILES}::test_another_writers_workbook_is_read_alike",
    ),
    mutant(
        "a document is staged without its bad lines",
        (READING, "    if flaw is not None:\n", "    if flaw is not None and count < 0:\n"),
        f"{OF_FILES}::test_the_lines_of_a_document_stand_and_fall_together",
    ),
    mutant(
        "a portion ends in the middle of a document",
        (
            READING,
            "    if begins and reading.lines >= most and reading.stray is None:\n",
            "    if reading.lines >= most:\n",
        ),
        f"{OF_FILES}::test_an_attempt_goes_on_where_the_last_one_ended",
    ),
    mutant(
        "an attempt reads from the beginning again",
        (TASK, 'after=state["line"])', "after=0)"),
        f"{KILLS}::test_a_kill_while_the_file_is_read",
    ),
    mutant(
        "what arrives from S3 is taken for what was sent",
        (TASK, "if digest.digest() != upload.sha256:", "if not digest.digest():"),
        f"{KILLS}::test_a_file_that_is_another_than_was_sent_is_never_merged",
    ),
    mutant(
        "any company's file is imported",
        (
            TASK,
            "(upload.company, upload.brand) != (run.company, run.brand)",
            "(upload.brand,) != (run.brand,)",
        ),
        f"{TESTS}::test_a_file_that_is_not_the_companys_is_unknown[OTHER]",
    ),
    mutant(
        "a line that is in the books is written again",
        (
            MERGE,
            "WHEN x.found IS NOT NULL THEN 'FOUND:doc_line'",
            "WHEN false THEN 'FOUND:doc_line'",
        ),
        f"{TESTS}::test_the_same_file_again_changes_nothing",
    ),
    mutant(
        "an import does not look again for what an ERP was writing",
        (BRINGING, "    if found is not None:\n", '    if found is not None and since == "":\n'),
        f"{MEETS}::test_what_an_erp_is_writing_at_this_moment_is_not_written_twice",
    ),
    mutant(
        "what a job has brought is written again",
        (WRITERS, "WHERE f.there IS NOT NULL ORDER BY", "WHERE f.there < 0 ORDER BY"),
        f"{MEETS}::test_what_a_job_has_brought_nobody_writes_again",
    ),
    mutant(
        "an opening is not looked for at its place",
        (MERGE, "coalesce(n.id, e.id, k.id) AS found", "coalesce(n.id, k.id) AS found"),
        f"{MEETS}::test_an_opening_is_one_whichever_file_it_comes_by_first[openings]",
    ),
    mutant(
        "the second layer of a place is what lies there already",
        (MERGE, "AND f.doc_line = m.doc_line\n", "AND f.doc_line < 0\n"),
        f"{MEETS}::test_a_place_may_be_opened_by_several_lines_of_one_file",
    ),
    mutant(
        "a refused value is told as it was understood",
        (
            READING,
            "return None if value is None else said.get(",
            "return None if value is None else {}.get(",
        ),
        f"{WORDS}::test_a_refused_line_is_told_as_the_file_has_it",
    ),
    mutant(
        "a line that says something else than the books is left alone",
        (MERGE, "CASE WHEN {differs} THEN ARRAY(", "CASE WHEN false THEN ARRAY("),
        f"{TESTS}::test_a_line_that_says_something_else_than_the_books_is_refused",
    ),
    mutant(
        "movements get their ids in any order",
        (
            MERGE,
            "WHERE {where} ORDER BY r.line) l)",
            "WHERE {where} ORDER BY r.line DESC) l)",
        ),
        f"{TESTS}::test_a_file_of_movements_is_in_the_books_and_nothing_is_left_staged",
    ),
    mutant(
        "a quantity that does not fit its item is cut",
        (
            MERGE,
            "CASE WHEN mod(n.parts, n.den) = 0 THEN div(n.parts, n.den) END",
            "div(n.parts, n.den)",
        ),
        f"{TESTS}::test_quantities_and_values_are_the_documents",
    ),
    mutant(
        "an import of a brand writes to any store",
        (MERGE, "WHEN x.to_brand <> CAST(:brand AS text) THEN", "WHEN false THEN"),
        f"{TESTS}::test_an_import_of_a_brand_writes_no_other_brands_stores",
    ),
    mutant(
        "an item's base unit follows the file",
        (ITEMS, "WHEN r.base_uom <> e.base_uom THEN", "WHEN false THEN"),
        f"{TESTS}::test_items_are_added_and_their_names_follow",
    ),
    mutant(
        "a document that begins twice in a file is put twice",
        (
            DOCUMENTS,
            '        if row["first_line"] is not None:\n',
            '        if row["first_line"] == 0:\n',
        ),
        f"{TESTS}::test_a_document_whose_lines_stand_apart_is_left_out_whole",
    ),
    mutant(
        "a file sent again is another one",
        (
            SHARED,
            "WHERE t.state = 'ready' AND t.company = :company",
            "WHERE false AND :company = ''",
        ),
        f"{HTTP}::test_the_same_file_sent_again_is_the_one_that_is_there",
    ),
    mutant(
        "an expired file is handed out until it is removed",
        (
            SHARED,
            "       AND j.expires_at > clock_timestamp() AND {IN_SCOPE}",
            "       AND {IN_SCOPE}",
        ),
        f"{HTTP}::test_expired_files_are_removed_with_their_bytes",
    ),
    mutant(
        "a file that grows on the way has no limit",
        (UPLOADS, "            if self.size > self.most:\n", "            if self.size < 0:\n"),
        f"{HTTP}::test_empty_encoded_and_too_large_bodies_are_refused",
    ),
)
