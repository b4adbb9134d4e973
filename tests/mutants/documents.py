"""Bugs in documents: what a put makes of them, who sees them, what their goods become."""

from tests.mutants.mutant import mutant

HEADS = "alembic/versions/0150_document_heads.py"
LINES = "alembic/versions/0151_document_lines.py"
PUT = "alembic/versions/0152_put_documents.py"
READ, BATCH = "shared/documents/read.py", "api/document_batch.py"
GOODS = "worker/records/document_movements.py"
TESTS, HTTP = "protocol/test_put_documents.py", "protocol/api/test_documents.py"
MOVED = "protocol/test_document_movements.py"

MUTANTS = (
    mutant(
        "a voided document's number is taken for a replay",
        (PUT, "WHEN d.status = 'void' THEN", "WHEN false THEN"),
        f"{TESTS}::test_a_voided_number_is_never_given_again",
    ),
    mutant(
        "a document's number is kept in the form it was sent in",
        (HEADS, "normalize(j.doc_no, NFC), j.doc_date_day", "j.doc_no, j.doc_date_day"),
        f"{TESTS}::test_numbers_are_the_same_composed_and_decomposed",
    ),
    mutant(
        "what refers to a bad document of its call is made",
        (PUT, "bad := bad || more;", "bad := bad;"),
        f"{TESTS}::test_what_refers_to_a_bad_document_is_refused_with_it",
    ),
    mutant(
        "a quantity that does not fit its unit is cut",
        (LINES, '"s.qty_rest <> 0"', '"false"'),
        f"{TESTS}::test_a_broken_rule_of_a_line_is_told",
    ),
    mutant(
        "lines that come to more than the books hold are no fault",
        (
            PUT,
            "CASE WHEN greatest(w.whole, w.vat) >",
            "CASE WHEN false AND greatest(w.whole, w.vat) >",
        ),
        f"{TESTS}::test_the_largest_number_is_kept_to_the_last_digit",
    ),
    mutant(
        "a number of another brand's document is told to be unchanged",
        (
            PUT,
            "WHEN brands IS NOT NULL AND (d.brand = ANY (brands)) IS NOT TRUE THEN",
            "WHEN false THEN",
        ),
        f"{TESTS}::test_an_account_of_a_brand_names_that_brand_only",
        also={
            f"{HTTP}::test_another_brands_document_is_like_none_at_all": (
                "it puts the number of another brand's document over HTTP as well"
            ),
        },
    ),
    mutant(
        "a number twice in a call is a replay, whatever it says",
        (PUT, "WHEN j.content_hash <> f.content_hash THEN", "WHEN false THEN"),
        f"{TESTS}::test_a_number_twice_in_a_call_counts_once",
    ),
    mutant(
        "another brand's document is shown",
        (READ, 'OR d.brand = ANY (CAST(:scope_brands AS text[])))"""', 'OR true)"""'),
        f"{HTTP}::test_another_brands_document_is_like_none_at_all",
    ),
    mutant(
        "a stored answer is told to whoever has lost its brand",
        (BATCH, "if await is_any_hidden(conn, ids, brands):", "if not ids:"),
        f"{HTTP}::test_a_stored_answer_is_of_the_rights_of_today",
    ),
    mutant(
        "goods of a document move each time",
        (GOODS, "WHERE f.there IS NULL AND", "WHERE true AND"),
        f"{MOVED}::test_every_kind_of_document_moves_its_goods",
        also={
            f"{MOVED}::test_a_receipt_is_worth_what_the_ledger_has_booked": (
                "it adds up what all receipts are worth, and each is there twice"
            ),
        },
    ),
    mutant(
        "a receipt is worth its line, whatever the ledger has booked",
        (GOODS, "THEN b.booked - z.stated ELSE 0 END AS rest", "THEN 0 ELSE 0 END AS rest"),
        f"{MOVED}::test_a_receipt_is_worth_what_the_ledger_has_booked",
    ),
)
