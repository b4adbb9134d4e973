"""A result as tables: whatever a kind brings, nothing is lost and nothing is markup."""

from decimal import Decimal
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from api.ui.pretty import pretty
from api.ui.results import MOST_ROWS, lay_out
from shared.exact_json import load_exact

FILE = "019a8f3e-1a2b-7c3d-8e4f-5a6b7c8d9e0f"


def test_a_posting_is_counts_and_failures() -> None:
    failures = [{"document_id": n, "outcome": "UNBALANCED", "codes": ["A", "B"]} for n in range(30)]
    laid = lay_out(
        {
            "outcome": "completed_with_errors",
            "documents": 100,
            "outcomes": {"POSTED": 70, "UNBALANCED": 30},
            "failures_total": 30,
            "failures": failures,
        }
    )
    assert laid.outcome == "completed_with_errors"
    assert [(name, cell.text) for name, cell in laid.facts] == [
        ("documents", "100"),
        ("failures_total", "30"),
    ]
    ((name, counts),) = laid.counts
    assert (name, [(key, cell.text) for key, cell in counts]) == (
        "outcomes",
        [("POSTED", "70"), ("UNBALANCED", "30")],
    )
    (rows,) = laid.tables
    assert (rows.name, len(rows.rows), rows.more) == ("failures", MOST_ROWS, 10)
    assert [cell.text for cell in rows.rows[0]] == ["0", "UNBALANCED", "A, B"]


def test_a_cost_run_and_a_file_are_links() -> None:
    laid = lay_out({"run_id": "42", "url": f"/v1/files/{FILE}", "other": "/v1/jobs/x"})
    assert [cell.href for _, cell in laid.facts] == ["/ui/runs/42", f"/ui/files/{FILE}", None]


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.text()
    | st.decimals(allow_nan=False, allow_infinity=False, places=4),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(JSON)
def test_every_value_is_laid_out_and_written_as_it_is(value: object) -> None:
    """Numbers keep their digits; what JSON it is can be read again."""
    lay_out(value)
    lay_out({"a": value, "outcome": value})
    written = pretty(value)
    assert _plain(load_exact(written)) == _plain(value)


def _plain(value: object) -> object:
    """What a reader has to find again: integers that a browser would round are texts."""
    if isinstance(value, dict):
        return {name: _plain(member) for name, member in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, int | Decimal) and not isinstance(value, bool):
        return Decimal(value)
    if isinstance(value, str):
        try:
            return Decimal(value) if value.strip("-").isdigit() and value.isascii() else value
        except ArithmeticError:
            return value
    return value


def test_a_result_that_is_nested_deep_is_cut() -> None:
    """Indents of a small result may be longer than any page; a whole one has no ellipsis."""
    deep: Any = list(range(30_000))
    for _ in range(30):
        deep = [deep]
    assert len(pretty(deep)) == 300_000 + 2
    assert pretty(deep).endswith("\n…")
    assert pretty(["a" * 10], longest=10) == '[\n  "aaaaa\n…'
    assert pretty([1]) == "[\n  1\n]"
