from datetime import timedelta
from typing import Any

import pytest

from shared.cli import show


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (None, ""),
        ("plain", "plain"),
        ({"code": "TIMEOUT", "message": "ran longer than 5 s"}, "TIMEOUT: ran longer than 5 s"),
        ({"code": "CLOSED", "message": "CLOSED: 2026-01 is closed"}, "CLOSED: 2026-01 is closed"),
        ({"type": "KeyError", "message": ""}, "KeyError"),
    ],
)
def test_an_error_is_one_line_with_its_code_once(error: Any, said: str) -> None:
    assert show.reason(error) == said


@pytest.mark.parametrize(
    ("seconds", "said"), [(3.44, "3.4 s"), (725, "12 min 05 s"), (7_380, "2 h 03 min")]
)
def test_a_duration_reads_as_a_person_says_it(seconds: float, said: str) -> None:
    assert show.duration(timedelta(seconds=seconds)) == said


@pytest.mark.parametrize(
    ("progress", "said"),
    [
        (None, ""),
        ({"done": 1200, "total": None, "unit": "rows"}, "1,200 rows"),
        ({"done": 1199, "total": 1200, "unit": "rows"}, "1,199/1,200 rows (99%)"),
    ],
)
def test_progress_is_never_rounded_up_to_done(progress: Any, said: str) -> None:
    """A job that says 100% has nothing left to do."""
    assert show.progress({"progress": progress}) == said
