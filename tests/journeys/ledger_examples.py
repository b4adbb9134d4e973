"""Examples of the ledger, for docs/examples.md: a chart, a purchase that is posted, its reports."""

from tests.journeys.example_step import AUTH, TYPED, Step

JANUARY = "company=SAMPLE&period=2026-01"
RULE = """'{"company": "SAMPLE", "type": "cash_in", "valid_from": "2027-01-01",
          "memo": "paid into the bank", "lines": [
           {"per": "document", "side": "debit", "role": "bank", "own_account": true, "amount": "gross"},
           {"per": "line", "side": "credit", "role": "receivable", "own_account": true, "amount": "net"},
           {"per": "document", "side": "credit", "role": "vat_out", "amount": "vat"}]}'"""
POST = (
    '{"kind": "posting.post", "company": "SAMPLE",'
    ' "payload": {"types": ["purchase"], "date_from": "2026-01-01", "date_to": "2026-01-31"}}'
)
EXPORT = (
    '{"company": "SAMPLE", "report": "general_ledger", "account": "156",'
    ' "format": "csv", "period": "2026-01"}'
)


def _get(path: str) -> str:
    return f'curl "$CHOT_API_URL/v1/ledger/{path}" {AUTH}'


LEDGER_STEPS: tuple[Step, ...] = (
    Step(
        route="POST /v1/ledger/chart",
        says="The company adopts the accounts of a template. Adopting it again adds what is missing.",
        command=(
            f'curl "$CHOT_API_URL/v1/ledger/chart" {TYPED} \\\n'
            '     -d \'{"company": "SAMPLE", "template": "TT200"}\''
        ),
    ),
    Step(
        route="GET /v1/ledger/accounts",
        says="Its accounts of goods.",
        command=_get("accounts?company=SAMPLE&below=156"),
        lines=32,
    ),
    Step(
        route="PUT /v1/ledger/accounts",
        says="One of its own.",
        command=(
            f'curl -X PUT "$CHOT_API_URL/v1/ledger/accounts" {TYPED} \\\n'
            '     -d \'{"company": "SAMPLE", "code": "64181", "name": "Online advertising",'
            ' "kind": "expense"}\''
        ),
    ),
    Step(
        route="PUT /v1/ledger/roles",
        says="What is used up or short goes there from now on.",
        command=(
            f'curl -X PUT "$CHOT_API_URL/v1/ledger/roles" {TYPED} \\\n'
            '     -d \'{"company": "SAMPLE", "role": "usage", "account": "64181"}\''
        ),
    ),
    Step(
        route="GET /v1/ledger/roles",
        says="Which account plays which role.",
        command=_get("roles?company=SAMPLE"),
        lines=24,
    ),
    Step(
        route="POST /v1/ledger/rules",
        says="From the next year on money comes in at the bank.",
        command=f'curl "$CHOT_API_URL/v1/ledger/rules" {TYPED} \\\n     -d {RULE}',
    ),
    Step(
        route="GET /v1/ledger/rules",
        says="Every version of a rule; the shared one stands behind the company's own.",
        command=_get("rules?company=SAMPLE&type=cash_in"),
        lines=40,
    ),
    Step(
        route="POST /v1/jobs",
        says="Post the purchases of January.",
        command=f"curl \"$CHOT_API_URL/v1/jobs\" {TYPED} \\\n     -d '{POST}'",
        captures={"POSTED": ["id"]},
        lines=8,
    ),
    Step(
        route="GET /v1/ledger/entries",
        says="What they have put into the ledger.",
        command=_get("entries?company=SAMPLE&account=1561"),
        captures={"ENTRY": ["entries", 0, "id"]},
        until=("POSTED", "state", "succeeded"),
    ),
    Step(
        route="GET /v1/jobs/{job_id}/outcomes",
        says="What became of each of the documents that the job was to post.",
        command=f'curl "$CHOT_API_URL/v1/jobs/$POSTED/outcomes" {AUTH}',
    ),
    Step(
        route="GET /v1/ledger/entries/{entry_id}",
        says="An entry with its lines.",
        command=_get("entries/$ENTRY"),
    ),
    Step(
        route="GET /v1/ledger/entries/{entry_id}/chain",
        says="Each number of its series is proven anew from the rows.",
        command=_get("entries/$ENTRY/chain?first=1"),
    ),
    Step(
        route="GET /v1/ledger/trial-balance",
        says="Trial balance of a period (bảng cân đối số phát sinh).",
        command=_get(f"trial-balance?{JANUARY}"),
    ),
    Step(
        route="GET /v1/ledger/general-ledger",
        says="General ledger (sổ cái) of an account, with those below it.",
        command=_get(f"general-ledger?{JANUARY}&account=156"),
        lines=40,
    ),
    Step(
        route="GET /v1/ledger/journal",
        says="Journal (nhật ký chung).",
        command=_get(f"journal?{JANUARY}&limit=2"),
        lines=50,
    ),
    Step(
        route="GET /v1/ledger/control",
        says="Goods in the ledger against what costing says of them, and what explains the difference.",
        command=_get("control?company=SAMPLE&period=2026-01&limit=1"),
        lines=60,
    ),
    Step(
        route="POST /v1/ledger/exports",
        says="A report as a file: a job writes it, its result has the file's url.",
        command=f"curl \"$CHOT_API_URL/v1/ledger/exports\" {TYPED} \\\n     -d '{EXPORT}'",
        lines=8,
    ),
)
