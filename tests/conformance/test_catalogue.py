"""The table of cases is whole: each has a test, each marked test a case, and the page both."""

from tests.conformance.catalogue import CASES, ROOT, marked_tests
from tests.conformance.page import PAGE, page

IN_ALL = 43


def test_every_case_has_a_test_and_every_mark_a_case() -> None:
    """C01 to C43, none twice, none unknown."""
    assert [case.id for case in CASES] == [f"C{number:02}" for number in range(1, IN_ALL + 1)]
    assert {case for case, _ in marked_tests()} == {case.id for case in CASES}


def test_the_page_is_that_of_the_tests() -> None:
    """Whoever marks, renames or removes a test runs `python -m tests.conformance`."""
    assert PAGE.read_text() == page()
    assert f"({PAGE.name})" in (ROOT / "docs" / "README.md").read_text()
