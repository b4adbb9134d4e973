"""Examples of documents, for docs/examples.md: a purchase, a sale and its return; one is voided."""

from tests.journeys.example_step import AUTH, TYPED, Step

PUT = f"""curl "$CHOT_API_URL/v1/documents:batch" {TYPED} \\
     -d '{{"company": "SAMPLE", "documents": [
           {{"type": "purchase", "doc_no": "PN-0001", "doc_date": "2026-01-04", "store": "LUA-01", "party": "NCC-01",
            "lines": [{{"item": "LUA0001", "qty": "100", "net": "1000000", "vat": "100000", "vat_rate": "10"}}]}},
           {{"type": "sale", "doc_no": "HD-0001", "doc_date": "2026-01-05", "store": "LUA-01", "party": "KH-001",
            "total": "165000", "vat_total": "15000",
            "lines": [{{"item": "LUA0001", "qty": "10", "net": "150000", "vat": "15000"}}]}},
           {{"type": "sale_return", "doc_no": "TL-0001", "doc_date": "2026-01-06", "store": "LUA-01",
            "ref_doc_no": "HD-9999", "lines": [{{"item": "LUA0001", "qty": "2", "net": "30000.5", "ref_line": 1}}]}}]}}'"""
DOCUMENT_STEPS: tuple[Step, ...] = (
    Step(
        route="POST /v1/documents:batch",
        says="A purchase and a sale; the third breaks three rules, and costs the others nothing.",
        command=PUT,
        captures={"SALE": ["documents", 1, "id"]},
    ),
    Step(
        route="GET /v1/documents",
        says="The drafts of a store, the latest posting date first.",
        command=(
            f'curl "$CHOT_API_URL/v1/documents?company=SAMPLE&store=LUA-01&status=draft" {AUTH}'
        ),
        lines=30,
    ),
    Step(
        route="GET /v1/documents/{document_id}",
        says="The sale with its lines.",
        command=f'curl "$CHOT_API_URL/v1/documents/$SALE" {AUTH}',
    ),
    Step(
        route="POST /v1/documents/{document_id}/void",
        says="It was a mistake: it stays to be seen, and its number is never given again.",
        command=(
            f'curl "$CHOT_API_URL/v1/documents/$SALE/void" {TYPED} \\\n'
            '     -d \'{"reason": "entered twice"}\''
        ),
        lines=24,
    ),
)
