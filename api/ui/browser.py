"""What a reader's browser asks for: language and theme, by address, by cookie, by its own wish."""

from dataclasses import dataclass
from typing import Literal, get_args
from urllib.parse import parse_qsl, urlencode

from starlette.requests import Request
from starlette.responses import Response

from api.ui.session import set_cookie

Language = Literal["en", "vi"]
Theme = Literal["auto", "light", "dark"]
LANGUAGES: tuple[Language, ...] = get_args(Language)
THEMES: tuple[Theme, ...] = get_args(Theme)
LANGUAGE_COOKIE, THEME_COOKIE = "chot_lang", "chot_theme"
A_YEAR = 365 * 24 * 3600


@dataclass(frozen=True, slots=True)
class Browser:
    """How pages are shown to this reader, and what of it is to be remembered."""

    language: Language
    theme: Theme
    chosen: tuple[tuple[str, str], ...]
    path: str
    query: tuple[tuple[str, str], ...]

    def place(self, **changes: str) -> str:
        """The address of this page with some of its query changed."""
        kept = [(name, value) for name, value in self.query if name not in changes]
        return f"{self.path}?{urlencode([*kept, *changes.items()])}"

    @property
    def here(self) -> str:
        """The address of this page, without what has been remembered by now."""
        kept = [each for each in self.query if each[0] not in {"lang", "theme"}]
        return f"{self.path}?{urlencode(kept)}" if kept else self.path

    def remember(self, request: Request, response: Response) -> None:
        """Keep what the address has chosen."""
        for name, value in self.chosen:
            set_cookie(response, request, name, value, max_age=A_YEAR)


def browser_of(request: Request) -> Browser:
    """Read it off a request; what nobody knows is as if it had not been said."""
    query = parse_qsl(request.url.query, keep_blank_values=True)
    asked = dict(query)
    language, theme = asked.get("lang"), asked.get("theme")
    chosen: list[tuple[str, str]] = []
    if language in LANGUAGES:
        chosen.append((LANGUAGE_COOKIE, str(language)))
    else:
        language = request.cookies.get(LANGUAGE_COOKIE)
    if theme in THEMES:
        chosen.append((THEME_COOKIE, str(theme)))
    else:
        theme = request.cookies.get(THEME_COOKIE)
    return Browser(
        language=language if language in LANGUAGES else _preferred(request),
        theme=theme if theme in THEMES else "auto",
        chosen=tuple(chosen),
        path=request.url.path,
        query=tuple(query),
    )


def _preferred(request: Request) -> Language:
    """The first of its languages that is one of ours, by weight; else English."""
    found: list[tuple[float, int, Language]] = []
    said = request.headers.get("accept-language", "")[:500]
    for order, part in enumerate(said.split(",")):
        tag, _, weight = part.strip().partition(";q=")
        language = tag.partition("-")[0].lower()
        if language in LANGUAGES:
            found.append((-_weight(weight), order, language))
    return min(found)[2] if found and min(found)[0] < 0 else "en"


def _weight(said: str) -> float:
    try:
        return float(said) if said else 1.0
    except ValueError:
        return 0.0
