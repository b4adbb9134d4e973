"""How instants, durations, numbers and money are written, in both languages.

Times are those of the books' companies: Viet Nam has had one hour, without summer time, since 1975.
"""

from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal

from markupsafe import Markup

from api.ui.browser import Language

LOCAL = timezone(timedelta(hours=7), "ICT")
SEPARATORS = {"en": (",", "."), "vi": (".", ",")}
MINUTE, HOUR, DAY = 60, 3600, 86_400
UNITS = {
    "en": {"s": "s", "min": "min", "h": "h", "d": "d"},
    "vi": {"s": "giây", "min": "phút", "h": "giờ", "d": "ngày"},
}
# As hard-coded as the language: `2 min ago` is no sentence that can be put together from parts.
JUST_NOW = {"en": "just now", "vi": "vừa xong"}
AGO = {"en": "{0} ago", "vi": "{0} trước"}


def number(value: float | Decimal | None, language: Language, digits: int = 0) -> str:
    """A number with its thousands apart; `–` for None."""
    if value is None:
        return "–"
    thousands, point = SEPARATORS[language]
    written = f"{value:,.{digits}f}"
    return written.translate({ord(","): thousands, ord("."): point})


def money(value: int | None, language: Language) -> str:
    """Đồng, which have no part."""
    return "–" if value is None else f"{number(value, language)} ₫"


def duration(seconds: float | None, language: Language) -> str:
    """Seconds in the two largest units that matter: `850 ms`, `12 s`, `3 min 5 s`, `2 d 4 h`."""
    if seconds is None:
        return "–"
    units = UNITS[language]
    seconds = max(0.0, seconds)
    if seconds < 1:
        return f"{round(seconds * 1000)} ms"
    if seconds < 10:
        return f"{number(seconds, language, 1)} {units['s']}"
    whole = round(seconds)
    for size, name, small, small_name in (
        (DAY, "d", HOUR, "h"),
        (HOUR, "h", MINUTE, "min"),
        (MINUTE, "min", 1, "s"),
    ):
        if whole >= size:
            rest = whole % size // small
            said = f"{number(whole // size, language)} {units[name]}"
            return f"{said} {rest} {units[small_name]}" if rest else said
    return f"{whole} {units['s']}"


def instant(value: datetime | str | None, language: Language, *, seconds: bool = True) -> Markup:
    """A `<time>` in company-local words; the exact instant is its attribute and its title."""
    if value is None:
        return Markup("–")
    moment = datetime.fromisoformat(value) if isinstance(value, str) else value
    local = moment.astimezone(LOCAL)
    form = {"en": "%Y-%m-%d %H:%M", "vi": "%d/%m/%Y %H:%M"}[language] + (":%S" if seconds else "")
    iso = moment.astimezone(UTC).isoformat().replace("+00:00", "Z")
    return Markup('<time datetime="{0}" title="{1}">{2}</time>').format(
        iso, f"{iso} · {local.isoformat(timespec='seconds')}", local.strftime(form)
    )


def ago(value: datetime | None, language: Language) -> Markup:
    """How long ago an instant was, as a `<time>` whose title is the instant."""
    if value is None:
        return Markup("–")
    passed = (datetime.now(UTC) - value).total_seconds()
    iso = value.astimezone(UTC).isoformat().replace("+00:00", "Z")
    said = JUST_NOW[language] if passed < 2 else AGO[language].format(duration(passed, language))
    return Markup('<time datetime="{0}" title="{0}">{1}</time>').format(iso, said)
