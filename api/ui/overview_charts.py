"""The overview's two charts: how many jobs waited, ran and were dead, and how many ended."""

from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial

from markupsafe import Markup

from api.ui.browser import Language
from api.ui.charts import Series, bars, lines
from api.ui.showing import LOCAL, number
from api.ui.words import translate
from shared.jobs.minutes import ENDS, LEVELS, History

LABELS = 4


def levels_chart(history: History, language: Language) -> Markup:
    """Lines of what was counted minute by minute."""
    t = partial(translate, language)
    series = [Series(t(f"state.{name}"), f"s-{name}", history.levels[name]) for name in LEVELS]
    return lines(t("overview.levels"), _told(series, language), series, _labels(history))


def ended_chart(history: History, language: Language) -> Markup:
    """Bars of what ended in each step."""
    t = partial(translate, language)
    series = [Series(t(f"state.{name}"), f"s-{name}", history.ended[name]) for name in ENDS]
    title = t("overview.ended_minute" if history.step == 60 else "overview.ended_quarter")
    return bars(title, _told(series, language), series, _labels(history))


def _told(series: Sequence[Series], language: Language) -> str:
    """The chart for whoever hears it: of each series its last and its highest value."""
    said = []
    for each in series:
        known = [value for value in each.values if value is not None]
        last = number(known[-1], language) if known else "–"
        most = number(max(known), language) if known else "–"
        said.append(
            translate(language, "overview.chart_told", name=each.name, last=last, most=most)
        )
    return " ".join(said)


def _labels(history: History) -> list[tuple[int, str]]:
    """Times at equal distances, the first and the last included."""
    steps = len(next(iter(history.ended.values())))
    found = []
    for n in range(LABELS + 1):
        place = steps * n // LABELS
        moment = datetime.fromtimestamp(history.began + place * history.step, UTC)
        found.append((place, moment.astimezone(LOCAL).strftime("%H:%M")))
    return found
