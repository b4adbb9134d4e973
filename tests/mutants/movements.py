"""Bugs of what an ERP writes, and of how chunks of a costing overlap."""

from tests.mutants.mutant import mutant

LATE = "alembic/versions/0110_late_movements.py"
FACTS = "alembic/versions/0113_document_facts.py"
LOOKUPS = "alembic/versions/0114_reference_lookups.py"
CHUNKS = "worker/handlers/costing_chunks.py"
TESTS = "protocol/test_movement_documents.py"

MUTANTS = (
    mutant(
        "goods that arrive from another brand make nothing late there",
        (LATE, "WHERE to_brand <> brand", "WHERE false"),
        "protocol/test_late_movements.py::"
        "test_goods_that_cross_to_another_brand_are_late_where_they_arrive",
    ),
    mutant(
        "each movement into a costed period adds a row of its own",
        (
            LATE,
            "AND l.item = n.item LIMIT 1) IS NULL",
            "AND l.item = n.item LIMIT 1) IS NULL OR true",
        ),
        "protocol/test_late_movements.py::"
        "test_a_movement_into_a_costed_period_makes_its_item_late_once",
    ),
    mutant(
        "a quantity is rounded to what the item's scale holds",
        (FACTS, "<> f.qty_doc * f.num * f.one", "<> round(f.qty_doc * f.num * f.one)"),
        f"{TESTS}::test_a_quantity_that_does_not_fit_is_refused_not_rounded",
    ),
    mutant(
        "a reduction in a foreign currency is rounded away from zero",
        (
            FACTS,
            "floor(f.fc_amount * f.rate * f.one + 0.5)",
            "round(f.fc_amount * f.rate * f.one)",
        ),
        f"{TESTS}::test_a_value_at_the_documents_rate_is_taken",
    ),
    mutant(
        "what a return names is looked up by any index that fits",
        (LOOKUPS, "_replace(BY_ID)", "_replace(AS_IN_0026)"),
        "protocol/test_movement_lookups.py::"
        "test_a_load_that_is_analyzed_half_way_still_looks_up_by_id",
    ),
    mutant(
        "what is under way when a chunk breaks goes on behind the attempt",
        (CHUNKS, "await asyncio.gather(*under_way, return_exceptions=True)", "del under_way"),
        "protocol/test_costing_overlap.py::"
        "test_a_chunk_that_breaks_ends_the_others_and_leaves_what_is_committed",
    ),
)
