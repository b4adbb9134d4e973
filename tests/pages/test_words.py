"""Words: each in both languages, with the same values, and none that nobody has written."""

import ast
import re
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from string import Formatter
from typing import get_args

import httpx
import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from api.ui import showing
from api.ui.browser import Language
from api.ui.error_vietnamese import SENTENCES
from api.ui.paths import HOME
from api.ui.words import all_words, translate
from shared.access import Role
from shared.alerts import load_rules
from shared.audit import Action
from shared.ledger.rules import DocumentType
from tests.pages.browsing import log_in
from tests.protocol.api.keys import make_key

# Of books.role_defaults those that shared/costs/legs.py and its sisters write.
COST_ROLES = (
    "stock",
    "cost_of_sales",
    "variance",
    "rounding",
    "true_up",
    "usage",
    "gain",
    "production",
)
UI = Path(__file__).parents[2] / "api/ui"
USED = re.compile(r"""\bt\(\s*["']([a-z_]+(?:\.[a-z0-9_-]+)+)["']\s*[,)]""")


def values_of(words: str) -> set[str]:
    return {name for _, name, _, _ in Formatter().parse(words) if name}


def test_both_languages_say_the_same_with_the_same_values() -> None:
    """A value that one side forgets would be missing for half of the readers."""
    for key, (english, vietnamese) in all_words().items():
        assert english.strip(), key
        assert vietnamese.strip(), key
        assert values_of(english) == values_of(vietnamese), key
        assert re.fullmatch(r"[a-z_]+(\.[a-zA-Z0-9_-]+)+", key), key


def test_every_key_that_is_used_is_there() -> None:
    """In templates as t("…"), in code as a text that looks like one of our keys."""
    known = set(all_words())
    for path in sorted((UI / "templates").glob("*.html")):
        missing = set(USED.findall(path.read_text())) - known
        assert missing == set(), path.name
    pages = {key.partition(".")[0] for key in known}
    others = {action.value for action in Action}  # the same form, another vocabulary
    for path in sorted(UI.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Constant) or not isinstance(node.value, str):
                continue
            page, _, rest = node.value.partition(".")
            if page in pages and re.fullmatch(r"[a-z_]+", rest) and not rest.endswith("_"):
                file = rest in {"html", "css", "js"}
                assert file or node.value in known | others, (path.name, node.value)


def test_every_type_of_a_document_and_role_of_a_cost_has_words() -> None:
    """A posting's page names them by these keys; a type without words would be an error of ours."""
    known = all_words().keys()
    assert {f"runs.type.{each}" for each in get_args(DocumentType)} <= known
    assert {f"runs.role.{role}" for role in COST_ROLES} <= known
    # What a ledger opens with are balances; goods alone are "tồn".
    assert translate("vi", "runs.balance.opening") == "Số dư đầu kỳ"
    assert translate("vi", "runs.balance.closing") == "Số dư cuối kỳ"


def test_every_rule_of_an_alert_has_words() -> None:
    """The overview says in the reader's language what fires."""
    assert {f"alert.{rule.name}" for rule in load_rules()} <= set(all_words())


@pytest.mark.parametrize(
    ("said", "lang"),
    [
        ("", "en"),
        ("vi", "vi"),
        ("vi-VN,vi;q=0.9,en;q=0.8", "vi"),
        ("en-US,en;q=0.9,vi;q=0.8", "en"),
        ("fr,vi;q=0.5,en;q=0.4", "vi"),
        ("en;q=0,vi;q=0.1", "vi"),
        ("vi;q=zero", "en"),
        ("," * 5000, "en"),
    ],
)
async def test_the_language_is_the_browsers_until_somebody_chooses(
    visitor: httpx.AsyncClient, said: str, lang: str
) -> None:
    """Accept-Language, then ?lang=, which is kept; what we do not speak changes nothing."""
    header = {"Accept-Language": said}
    page = await visitor.get("/ui/login", headers=header)
    assert f'<html lang="{lang}"' in page.text
    other = "vi" if lang == "en" else "en"
    await visitor.get(f"/ui/login?lang={other}", headers=header)
    for query in ("", "?lang=xx", "?lang=", f"?lang={other}"):
        page = await visitor.get(f"/ui/login{query}", headers=header)
        assert f'<html lang="{other}"' in page.text, query


async def test_the_theme_is_kept_and_nothing_else_of_the_address_is_lost(
    visitor: httpx.AsyncClient, owner_engine: AsyncEngine
) -> None:
    """The links keep the page as it is, its filters included, and are safe to show."""
    await log_in(visitor, await make_key(owner_engine, Role.READ))
    page = await visitor.get(f"{HOME}?span=day&x=%22%3E%3Cb%3E")
    assert 'data-theme="auto"' in page.text
    assert '"><b>' not in page.text
    assert "span=day&amp;x=%22%3E%3Cb%3E&amp;theme=dark" in page.text
    await visitor.get(f"{HOME}?theme=dark")
    assert 'data-theme="dark"' in (await visitor.get(HOME)).text
    assert 'data-theme="dark"' in (await visitor.get(f"{HOME}?theme=pink")).text


def test_numbers_and_money_are_written_as_each_language_does() -> None:
    """Thousands apart, the point where it belongs, đồng behind."""
    assert showing.number(1234567.5, "en", 1) == "1,234,567.5"
    assert showing.number(1234567.5, "vi", 1) == "1.234.567,5"
    assert showing.number(Decimal(-12000), "vi") == "-12.000"
    assert showing.money(1_500_000, "vi") == "1.500.000 ₫"
    assert showing.number(None, "en") == showing.money(None, "en") == "–"


@pytest.mark.parametrize(
    ("seconds", "english", "vietnamese"),
    [
        (None, "–", "–"),
        (0.25, "250 ms", "250 ms"),
        (3.25, "3.2 s", "3,2 giây"),
        (42.4, "42 s", "42 giây"),
        (59.7, "1 min", "1 phút"),
        (185, "3 min 5 s", "3 phút 5 giây"),
        (3600, "1 h", "1 giờ"),
        (93_784, "1 d 2 h", "1 ngày 2 giờ"),
        (-5, "0 ms", "0 ms"),
    ],
)
def test_durations_are_their_two_largest_parts(
    seconds: float | None, english: str, vietnamese: str
) -> None:
    """Readable at 23:00."""
    assert showing.duration(seconds, "en") == english
    assert showing.duration(seconds, "vi") == vietnamese


@pytest.mark.parametrize("language", ["en", "vi"])
def test_instants_are_local_and_exact(language: Language) -> None:
    """The last minute of a UTC day is the next morning in Viet Nam; the title is exact."""
    moment = datetime(2026, 12, 31, 23, 59, 1, tzinfo=UTC)
    said = str(showing.instant(moment, language))
    assert 'datetime="2026-12-31T23:59:01Z"' in said
    assert ("2027-01-01 06:59:01" if language == "en" else "01/01/2027 06:59:01") in said
    assert showing.instant(moment.isoformat(), language) == said
    recent = datetime.now(UTC) - timedelta(minutes=5)
    assert ("5 min ago" if language == "en" else "5 phút trước") in str(
        showing.ago(recent, language)
    )


def test_values_in_words_are_no_markup() -> None:
    """The words are text; the template escapes them, values included."""
    assert translate("en", "error.role", role="<b>") != ""
    assert "<b>" in translate("en", "error.role", role="<b>")


def test_posting_has_one_word_in_vietnamese() -> None:
    """The menu, the pages and the errors call it "ghi sổ"; "hạch toán" would be a second word."""
    said = [vietnamese for _, vietnamese in all_words().values()]
    said += [sentence for sentences in SENTENCES.values() for sentence in sentences]
    assert [each for each in said if "hạch toán" in each.lower()] == []
    assert any("ghi sổ" in each for each in said)
