"""What `costing.run` takes for a period: refused at the door, not hours later by the worker."""

import pytest
from pydantic import ValidationError

from shared.kinds.costing import CostingRunPayload


@pytest.mark.parametrize("period", ["1999-12", "2026-01", "2100-10"])
def test_a_period_is_a_month_of_the_calendar(period: str) -> None:
    assert CostingRunPayload(period=period).period == period


@pytest.mark.parametrize(
    "period",
    ["0000-01", "0999-12", "9999-12", "2026-00", "2026-13", "2026-1", "２０２６-01", "2026-01\n"],
)
def test_what_is_no_month_is_refused(period: str) -> None:
    with pytest.raises(ValidationError):
        CostingRunPayload(period=period)
