"""Charts as SVG, drawn on the server: no script, no inline style, readable aloud.

Colours are classes (`s-running`, `s-dead`, …) of api/ui/static/base.css, so that both themes fit.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

WIDTH, HEIGHT = 600, 140
TOP, BOTTOM = 12, 18
ROUNDED = (1, 2, 5)


@dataclass(frozen=True, slots=True)
class Series:
    """Values at equal distances, the oldest first; None: not known. `css` is its class."""

    name: str
    css: str
    values: Sequence[float | None]


def bars(
    title: str, description: str, series: Sequence[Series], labels: Sequence[tuple[int, str]] = ()
) -> Markup:
    """Stacked bars; `labels` are (index, text) below them."""
    count = max((len(each.values) for each in series), default=0)
    sums = [sum(each.values[n] or 0 for each in series) for n in range(count)]
    top = rounded_up(max(sums, default=0))
    step = WIDTH / max(1, count)
    parts: list[Markup] = []
    floor = [0.0] * count
    for each in series:
        for n, value in enumerate(each.values):
            if value:
                height = _height(value, top)
                y = HEIGHT - BOTTOM - _height(floor[n], top) - height
                parts.append(
                    Markup('<rect class="{}" x="{}" y="{}" width="{}" height="{}"/>').format(
                        each.css, _short(n * step), _short(y), _short(step * 0.86), _short(height)
                    )
                )
                floor[n] += value
    return _chart(title, description, top, parts, _labels(labels, count))


def lines(
    title: str, description: str, series: Sequence[Series], labels: Sequence[tuple[int, str]] = ()
) -> Markup:
    """A line for each series, broken where nothing is known."""
    count = max((len(each.values) for each in series), default=0)
    known = [value for each in series for value in each.values if value is not None]
    top = rounded_up(max(known, default=0))
    step = WIDTH / max(1, count - 1)
    parts = []
    for each in series:
        path, pen = [], "M"
        for n, value in enumerate(each.values):
            if value is None:
                pen = "M"
                continue
            y = HEIGHT - BOTTOM - _height(value, top)
            path.append(f"{pen}{_short(n * step)} {_short(y)}")
            pen = "L"
        parts.append(
            Markup('<path class="line {}" fill="none" d="{}"/>').format(each.css, "".join(path))
        )
    return _chart(title, description, top, parts, _labels(labels, count))


def progress(done: float, total: float | None, label: str) -> Markup:
    """A bar of progress with its words for readers; without a total it only says what is done."""
    share = min(1.0, done / total) if total else 0.0
    return Markup(
        '<svg class="progress" viewBox="0 0 100 6" preserveAspectRatio="none" role="img" '
        'aria-label="{}"><rect class="track" width="100" height="6" rx="3"/>'
        '<rect class="done" width="{}" height="6" rx="3"/></svg>'
    ).format(label, _short(share * 100))


def rounded_up(value: float) -> int:
    """The next of 1, 2, 5, 10, 20, 50, … at or above; 1 for nothing."""
    size = 1
    while True:
        for each in ROUNDED:
            if value <= each * size:
                return each * size
        size *= 10


def _height(value: float, top: float) -> float:
    return (HEIGHT - TOP - BOTTOM) * value / top


def _short(value: float) -> str:
    return f"{value:.1f}".rstrip("0").rstrip(".")


def _labels(labels: Sequence[tuple[int, str]], count: int) -> list[Markup]:
    step = WIDTH / max(1, count)
    return [
        Markup('<text class="axis" x="{}" y="{}">{}</text>').format(
            _short(n * step), HEIGHT - 4, said
        )
        for n, said in labels
    ]


def _chart(
    title: str, description: str, top: int, parts: Sequence[Markup], labels: Sequence[Markup]
) -> Markup:
    middle = _short(HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) / 2)
    base = HEIGHT - BOTTOM
    return Markup(
        '<svg class="chart" viewBox="0 0 {w} {h}" role="img" aria-label="{title}">'
        "<title>{title}</title><desc>{description}</desc>"
        '<path class="grid" d="M0 {base}H{w}M0 {middle}H{w}M0 {top_y}H{w}"/>{parts}'
        '<text class="axis" x="2" y="{top_y_text}">{top}</text>{labels}</svg>'
    ).format(
        w=WIDTH,
        h=HEIGHT,
        title=title,
        description=description,
        base=base,
        middle=middle,
        top_y=TOP,
        top_y_text=TOP - 3,
        top=f"{top:,}",
        parts=Markup().join(parts),
        labels=Markup().join(labels),
    )
