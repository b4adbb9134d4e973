"""Rendering: a template and what it may ask for, as one HTML answer."""

from collections.abc import Mapping
from functools import cache, partial
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import HTMLResponse

from api.gate import facts_of
from api.rights import page_rule
from api.ui import showing
from api.ui.browser import Browser, Language, browser_of
from api.ui.charts import bars, lines, progress
from api.ui.error_vietnamese import error_sentence
from api.ui.flash import forget_flash, take_flash
from api.ui.forms import FIELD, SEED, new_seed, seed_of, token_for
from api.ui.icons import icon
from api.ui.pretty import pretty
from api.ui.sentence import on_page
from api.ui.session import FORM_COOKIE, session_of, set_cookie
from api.ui.static_files import static_place
from api.ui.words import all_words, translate
from shared.unexpected import unexpected_type, unnamed

TEMPLATES = Path(__file__).parent / "templates"
# Word of the menu → address; what this reader may not open, or is not there, is not offered.
MENU: Mapping[str, str] = {
    "menu.overview": "/ui/",
    "menu.jobs": "/ui/jobs",
    "menu.dead": "/ui/dead-letters",
    "menu.runs": "/ui/runs",
    "menu.simulator": "/ui/simulator",
}


@cache
def environment() -> Environment:
    """The templates: every value escaped, and an unknown name an error instead of nothing."""
    made = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    made.globals |= {
        "static": static_place,
        "icon": icon,
        "unexpected_type": unexpected_type,
        "unnamed": unnamed,
        "pretty": pretty,
    }
    return made


def helpers(browser: Browser) -> dict[str, Any]:
    """What every template and fragment may call, in this reader's language."""
    language = browser.language
    return {
        "lang": language,
        "t": partial(translate, language),
        "number": partial(_in, showing.number, language),
        "money": partial(_in, showing.money, language),
        "coded": partial(_coded, language),
        "timed": partial(_in, on_page, language, own=""),
        "meaning": error_sentence if language == "vi" else _own_words,
        "duration": partial(_in, showing.duration, language),
        "instant": partial(_in, showing.instant, language),
        "ago": partial(_in, showing.ago, language),
        "bars": bars,
        "lines": lines,
        "progress": progress,
    }


def _in(show: Any, language: str, value: Any, *more: Any, **options: Any) -> Any:
    return show(value, language, *more, **options)


def _coded(language: Language, code: str | None) -> str | None:
    """What a code of a document or an item means; None for one without words."""
    keys = (f"runs.{place}.{code}" for place in ("ended", "error"))
    return next((translate(language, key) for key in keys if key in all_words()), None)


def _own_words(_error: Any) -> None:
    """Errors are written in English: there is nothing to add."""


def render(request: Request, template: str, status: int = 200, **values: Any) -> HTMLResponse:
    """The page of a template, with the reader's language, theme, rights and message.

    Templates get `values` and: t, number, money, duration, instant, ago, bars, lines, progress,
    icon, static, csrf, may, me, browser, menu, flash, here.
    """
    browser, flash = browser_of(request), take_flash(request)
    caller = facts_of(request).caller
    known = {
        "browser": browser,
        "here": request.url.path,
        "status": status,
        "me": caller,
        "may": partial(may, request),
        "menu": [(key, place) for key, place in MENU.items() if may(request, "GET", place)],
        "can_log_out": (session := session_of(request)) is not None and session.cookie is not None,
        "csrf": partial(csrf_field, request),
        "flash": flash,
        **helpers(browser),
    }
    html = environment().get_template(template).render(known | values)
    response = HTMLResponse(html, status)
    browser.remember(request, response)
    if flash is not None:
        forget_flash(request, response)
    if SEED in request.scope:
        seed = request.scope[SEED]
        set_cookie(response, request, FORM_COOKIE, seed, strict=True)
    return response


def fragment(browser: Browser, template: str, **values: Any) -> str:
    """A part of a page as HTML, for live updates: the same template that the page includes."""
    return environment().get_template(template).render(helpers(browser) | values)


def may(request: Request, method: str, path: str) -> bool:
    """Whether this reader may use a route of the pages, named as it is routed."""
    rule, caller = page_rule(method, path), facts_of(request).caller
    return rule is not None and caller is not None and rule.allows(caller)


def csrf_field(request: Request) -> Markup:
    """The hidden field that every form of ours has."""
    token = token_for(seed_of(request) or new_seed(request))
    return Markup('<input type="hidden" name="{}" value="{}">').format(FIELD, token)
