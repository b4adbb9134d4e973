"""Every word of the pages, in English and Vietnamese.

Each module of this package has WORDS: key → (English, Vietnamese), its keys beginning with the
page's own name. A test finds a key that is used and not there, and one whose two sides name
different values.
"""

import importlib
import pkgutil
from collections.abc import Mapping
from functools import cache

from api.ui.browser import Language

SIDE = {"en": 0, "vi": 1}


@cache
def all_words() -> Mapping[str, tuple[str, str]]:
    """The words of all pages; ValueError for a key that two modules have."""
    found: dict[str, tuple[str, str]] = {}
    for module in pkgutil.iter_modules(__path__):
        words = importlib.import_module(f"{__name__}.{module.name}").WORDS
        twice = found.keys() & words.keys()
        if twice:
            raise ValueError(f"{', '.join(sorted(twice))}: words of two modules")
        found |= words
    return found


def translate(language: Language, key: str, **values: object) -> str:
    """The words of a key with its named values; KeyError for a key that nobody has written."""
    said = all_words()[key][SIDE[language]]
    return said.format(**values) if values else said
