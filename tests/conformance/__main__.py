"""`python -m tests.conformance`: write docs/idempotency.md."""

from tests.conformance.page import PAGE, page

PAGE.write_text(page())
