"""Which methods an address takes, all of them: what the Allow of a 405 has to say."""

from functools import cache
from re import Pattern

from starlette.routing import compile_path

from api.rights import PAGES, RULES


def allowed_methods(path: str) -> str:
    """As the header has it, `GET, POST`; the framework itself names those of one route only."""
    routes = (*RULES, *PAGES)
    return ", ".join(sorted({method for method, routed in routes if _form(routed).match(path)}))


@cache
def _form(routed: str) -> Pattern[str]:
    return compile_path(routed)[0]
