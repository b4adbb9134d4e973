"""Members of which "absent" means "all": only such as may be absent, and tell no work apart."""

import sys
from datetime import timedelta
from types import ModuleType

import pytest

from shared.errors import ConfigRefused
from shared.kinds import Kind, Payload
from shared.kinds.costing import COSTING_PREVIEW, COSTING_RUN
from shared.kinds.registry import load_kinds


class Count(Payload):
    """What to count."""

    period: str
    stores: list[str] | None = None


@pytest.mark.parametrize("field", ["period", "shops"])
def test_a_member_that_is_required_or_not_there_is_refused(
    monkeypatch: pytest.MonkeyPatch, field: str
) -> None:
    module = ModuleType("counting_kinds")
    kind = Kind(
        name="stock.count",
        payload=Count,
        timeout=timedelta(minutes=1),
        on_duplicate="merge",
        widest_when_absent=("stores", field),
    )
    monkeypatch.setattr(module, "KINDS", (kind,), raising=False)
    monkeypatch.setitem(sys.modules, "counting_kinds", module)
    with pytest.raises(ConfigRefused, match=f"'{field}' is widest when absent"):
        load_kinds("counting_kinds")


def test_a_preview_asks_for_what_a_run_does_and_locks_nothing() -> None:
    assert COSTING_PREVIEW.payload is COSTING_RUN.payload
    assert COSTING_PREVIEW.widest_when_absent == COSTING_RUN.widest_when_absent == ("items",)
    assert not COSTING_PREVIEW.locks
