"""What a member of a job's result is called: in words for our own kinds, else as it is."""

from functools import partial
from typing import Any

from api.ui.browser import Language
from api.ui.words import all_words, translate

# Prefixes of the kinds whose results this repository writes.
OURS = ("costing.", "posting.", "ledger.", "migration.", "period.")


def label(kind: str, language: Language, name: str) -> str:
    """The words for it; a kind of somebody else's means what it likes by a name."""
    key = f"result.{name}"
    return translate(language, key) if kind.startswith(OURS) and key in all_words() else name


def ending(kind: str, language: Language, outcome: str) -> str:
    """How a job ended, of the result's `outcome`."""
    return label(kind, language, f"is.{outcome}").removeprefix("is.")


def labels(kind: str, language: Language) -> dict[str, Any]:
    """What the template of a result calls."""
    return {
        "label": partial(label, kind, language),
        "ending": partial(ending, kind, language),
        "called": lambda names: [label(kind, language, name) for name in names],
    }
