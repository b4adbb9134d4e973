"""Charts as SVG, drawn on the server: no script, no inline style, readable aloud.

Colours are classes (`s-running`, `s-dead`, …) of api/ui/static/base.css, so that both themes fit.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

WIDTH, HEIGHT = 600, 120
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
    """Stacked bars; `labels` are (index, text), told apart evenly below them."""
    count = max((len(each.values) for each in series), default=0)
    sums = [sum(each.values[n] or 0 for each in series) for n in range(count)]
    top = rounded_up(max(sums, default=0))
    step = WIDTH / max(1, count)
    parts: list[Markup] = []
    floor = [0.0] * count
    for each in series:
        # All bars of a series are one path: a day of them is redrawn live.
        path = []
        for n, value in enumerate(each.values):
            if value:
                height = HEIGHT * value / top
                y = HEIGHT - HEIGHT * floor[n] / top - height
                wide = _short(step * 0.86)
                path.append(f"M{_short(n * step)} {_short(y)}h{wide}v{_short(height)}h-{wide}z")
                floor[n] += value
        parts.append(Markup('<path class="bar {}" d="{}"/>').format(each.css, "".join(path)))
    return _figure(title, description, top=top, parts=parts, series=series, labels=labels)


def lines(
    title: str, description: str, series: Sequence[Series], labels: Sequence[tuple[int, str]] = ()
) -> Markup:
    """A line for each series, broken where nothing is known; a lone value is a short dash."""
    count = max((len(each.values) for each in series), default=0)
    known = [value for each in series for value in each.values if value is not None]
    top = rounded_up(max(known, default=0))
    step = WIDTH / max(1, count)
    parts = []
    for each in series:
        path, pen = [], "M"
        for n, value in enumerate(each.values):
            if value is None:
                pen = "M"
                continue
            y = _short(HEIGHT - (HEIGHT - 2) * value / top - 1)
            # Each value holds for its whole step, as it was counted.
            path.append(f"{pen}{_short(n * step)} {y}H{_short((n + 1) * step)}")
            pen = "L"
        parts.append(
            Markup('<path class="line {}" fill="none" d="{}"/>').format(each.css, "".join(path))
        )
    return _figure(title, description, top=top, parts=parts, series=series, labels=labels)


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


def _short(value: float) -> str:
    return f"{value:.1f}".rstrip("0").rstrip(".")


def _figure(
    title: str,
    description: str,
    *,
    top: int,
    parts: Sequence[Markup],
    series: Sequence[Series],
    labels: Sequence[tuple[int, str]],
) -> Markup:
    """The drawing stretches to its box; words stand outside of it, so that they never shrink."""
    keys = Markup().join(
        Markup('<li><span class="key {}"></span>{}</li>').format(each.css, each.name)
        for each in series
    )
    times = Markup().join(Markup("<span>{}</span>").format(said) for _, said in sorted(labels))
    return Markup(
        '<figure class="figure"><figcaption><b>{title}</b><ul class="keys">{keys}</ul></figcaption>'
        '<div class="plot"><span class="top-value" aria-hidden="true">{top}</span>'
        '<svg class="chart" viewBox="0 0 {w} {h}" preserveAspectRatio="none" role="img" '
        'aria-label="{title}"><title>{title}</title><desc>{description}</desc>'
        '<path class="grid" d="M0 {h}H{w}M0 {middle}H{w}M0 0H{w}"/>{parts}</svg></div>'
        '<div class="times" aria-hidden="true">{times}</div></figure>'
    ).format(
        title=title,
        keys=keys,
        top=f"{top:,}",
        w=WIDTH,
        h=HEIGHT,
        middle=HEIGHT // 2,
        description=description,
        parts=Markup().join(parts),
        times=times,
    )
