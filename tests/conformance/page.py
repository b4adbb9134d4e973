"""docs/idempotency.md, from the catalogue and the tests that carry its ids."""

from collections import defaultdict

from tests.conformance.catalogue import CASES, ROOT, marked_tests

PAGE = ROOT / "docs" / "idempotency.md"
HEAD = """# Idempotency-Key, case by case

Written by `python -m tests.conformance`; a test holds page and tests together. What a client has to know is in
[http.md](http.md#idempotency-key); this page is for whoever compares us with the IETF's draft
(`draft-ietf-httpapi-idempotency-key-header`) or with another API. K is a valid key, B a body. Each case runs against real api processes
on a real PostgreSQL, the races over two of them, the crashes with SIGKILL or a connection that is cut: `pytest tests/conformance`.

**How.** One READ COMMITTED transaction a request: look the key up → try its advisory lock → look again → insert the job, or meet its
active twin → stage its message → store status, headers and body bytes → COMMIT. There is no committed "in progress", so a crash leaves nothing to
clean up. The digest that a repeat is compared by is the SHA-256 of the parsed JSON as it was sent; a record keeps the version of that digest, and is compared in
it, so that a release may change the form. Rights are judged before the key is looked up, today's rules after: who lost a right gets no stored answer, an honest
retry after a deploy does.

| | asked | what we do | shown by |
|---|---|---|---|
"""


def page() -> str:
    """The whole page."""
    tests = defaultdict(list)
    for case, test in marked_tests():
        tests[case].append(f"`{test}`")
    lines = [
        f"| {case.id} | {case.asked} | {case.done} | {'<br>'.join(tests[case.id])} |"
        for case in CASES
    ]
    return HEAD + "\n".join(lines) + "\n"
