"""Locks of a kind: what breaks a rule is refused at the start, by field, value and rule."""

from datetime import date, timedelta
from typing import Annotated, Any, Literal

import pytest
from pydantic import Field

from shared.errors import ConfigRefused
from shared.kinds import Kind, Lock, Payload
from shared.kinds.locks import locks_json, mirrored, refuse_unsound_locks


class Close(Payload):
    """All that a lock may and may not take."""

    period: Annotated[str, Field(pattern=r"^\d{4}-\d\d$")]
    number: int
    day: date | None = None
    store: str | None = None
    side: Literal["left", "right"]
    stores: list[str]
    amount: float = 0.0
    flag: bool
    note: str | None


def kind(*locks: Lock) -> Kind:
    """A kind with these locks."""
    return Kind(name="stock.close", payload=Close, timeout=timedelta(minutes=1), locks=locks)


SOUND = [
    Lock(root="books/{company}"),
    Lock(root="{company}/{brand}/{payload.period}", mode="shared"),
    Lock(root="n/{payload.number}", part="{payload.side}-{payload.number}"),
    Lock(root="stock/{brand}", part="{payload.stores}"),
    Lock(root="stock/{brand}", part="{payload.store}", mode="shared"),
    Lock(root="b", period_from="{payload.period}", period_to="{payload.day}"),
    Lock(root="b", period_from="2026-08", period_to="2026-08-15"),
]


@pytest.mark.parametrize("lock", SOUND)
def test_a_sound_lock_is_taken_and_mirrored(lock: Lock) -> None:
    """As JSON, a member for each field."""
    refuse_unsound_locks("here", kind(lock))
    assert mirrored(kind(lock)) == [
        {
            "root": lock.root,
            "part": lock.part,
            "mode": lock.mode,
            "period_from": lock.period_from,
            "period_to": lock.period_to,
        }
    ]


def test_a_kind_without_locks_is_mirrored_as_null() -> None:
    """Which is what SQL asks for first."""
    assert mirrored(kind()) is None


UNSOUND: list[tuple[dict[str, Any], str]] = [
    ({"root": ""}, "root='' is no text"),
    ({"root": "b", "mode": "exclusiv"}, "mode='exclusiv' is neither"),
    ({"root": "b/{"}, "brace that belongs to no placeholder"),
    ({"root": "b/{period}"}, "there are {company}, {brand} and {payload.FIELD}"),
    ({"root": "b/{payload.gone}"}, "'gone', the payload has no such field"),
    ({"root": "b/{payload.store}"}, "needs 'store' to be required"),
    ({"root": "b/{payload.note}"}, "needs 'note', which may be null"),
    ({"root": "b/{payload.stores}"}, "takes the list 'stores'"),
    ({"root": "b/{payload.flag}"}, "takes 'flag', which is no str or int"),
    ({"root": "b", "part": "s-{payload.stores}"}, "takes the list 'stores'"),
    ({"root": "b", "part": "{payload.amount}"}, "takes 'amount', which is no str"),
    ({"root": "b", "period_from": "August"}, "is neither a period"),
    ({"root": "b", "period_to": "{company}"}, "takes {company} for a period"),
    ({"root": "b", "period_to": "{payload.number}"}, "takes 'number', which is no str or date"),
    ({"root": "b", "period_from": "2026-09", "period_to": "2026-08"}, "it would be of no period"),
    ({"root": "b" * 201}, "longer than 200"),
]


@pytest.mark.parametrize(("fields", "rule"), UNSOUND)
def test_a_lock_that_breaks_a_rule_is_refused(fields: dict[str, Any], rule: str) -> None:
    """With the source, the kind and which of its locks it is."""
    with pytest.raises(ConfigRefused) as refused:
        refuse_unsound_locks("here", kind(Lock(root="sound"), Lock(**fields)))
    assert str(refused.value).startswith("here: kind stock.close, lock 2: ")
    assert rule in str(refused.value)


def test_a_kind_declares_at_most_32_locks() -> None:
    """Five hundred lists of a hundred parts kept a submit busy for minutes."""
    locks = [Lock(root=f"r{n}") for n in range(33)]
    refuse_unsound_locks("here", kind(*locks[:32]))
    with pytest.raises(ConfigRefused, match="33 of them; at most 32"):
        refuse_unsound_locks("here", kind(*locks))


def test_all_and_open_ends_are_shown_as_null() -> None:
    """What SQL keeps as '' and '~' is nobody's business."""
    row = {"root": "b", "part": "", "mode": "shared", "period_from": "", "period_to": "~"}
    shown = locks_json(row)
    assert [shown[name] for name in ("part", "period_from", "period_to")] == [None] * 3
