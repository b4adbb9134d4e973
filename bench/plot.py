"""The judged figures as a picture: how far each is from its target, as SVG, by hand."""

from collections.abc import Sequence
from html import escape
from math import log2

from bench.figures import Figure
from bench.suite import RowRun
from bench.words import measured, target

LINE = 22
TOP = 46
LABELS = 300
WIDTH = 360
NUMBERS = 300
FURTHEST = 3.0  # doublings on either side
STYLE = """
    text { font: 12px system-ui, sans-serif; fill: #1f2328 }
    .small { font-size: 11px; fill: #59636e }
    .axis { stroke: #d1d9e0 } .target { stroke: #1f2328 }
    .yes { fill: #2da44e } .no { fill: #cf222e }
    @media (prefers-color-scheme: dark) {
        text { fill: #f0f6fc } .small { fill: #9198a1 }
        .axis { stroke: #3d444d } .target { stroke: #f0f6fc }
    }"""


def beyond(figure: Figure) -> float:
    """Doublings beyond the target (above 0: reached), cut to what the picture shows.

    What is at or below nothing (a takeover that came early) is as far beyond as can be.
    """
    assert figure.target is not None, "only judged figures have a place"
    if figure.at_least:
        share = figure.value / figure.target
    elif figure.value <= 0:
        return FURTHEST
    else:
        share = figure.target / figure.value if figure.target > 0 else 0.0
    if share <= 0:
        return -FURTHEST
    return max(-FURTHEST, min(FURTHEST, log2(share)))


def plot(runs: Sequence[RowRun]) -> str:
    """The whole picture; right of the line is reached."""
    judged = [(run, each) for run in runs for each in run.figures if each.target is not None]
    height = TOP + LINE * len(judged) + 12
    middle = LABELS + WIDTH / 2
    size = f'width="{LABELS + WIDTH + NUMBERS}" height="{height}"'
    said = 'role="img" aria-label="Figures against their targets"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} {said}>',
        f"<style>{STYLE}</style>",
        *_axis(middle, height),
    ]
    for place, (run, figure) in enumerate(judged):
        parts += _bar(run, figure, TOP + LINE * place, middle)
    return "\n".join([*parts, "</svg>"]) + "\n"


def _axis(middle: float, height: int) -> list[str]:
    parts = []
    for doublings in range(-3, 4):
        x = middle + doublings * WIDTH / 2 / FURTHEST
        kind = "target" if doublings == 0 else "axis"
        named = "target" if doublings == 0 else f"{2.0**doublings:g} ×"
        parts.append(f'<line class="{kind}" x1="{x}" y1="{TOP - 8}" x2="{x}" y2="{height - 8}"/>')
        parts.append(
            f'<text class="small" x="{x}" y="{TOP - 14}" text-anchor="middle">{named}</text>'
        )
    return parts


def _bar(run: RowRun, figure: Figure, y: int, middle: float) -> list[str]:
    long = beyond(figure) * WIDTH / 2 / FURTHEST
    left, kind = min(middle, middle + long), "yes" if figure.reached else "no"
    name = escape(f"{run.name}: {figure.name}")
    said = escape(f"{measured(figure)}, target {target(figure)}")
    size = f'width="{max(1.5, abs(long)):.1f}" height="{LINE - 8}"'
    return [
        f'<text x="{LABELS - 8}" y="{y + 13}" text-anchor="end">{name}</text>',
        f'<rect class="{kind}" x="{left:.1f}" y="{y + 3}" {size}/>',
        f'<text class="small" x="{LABELS + WIDTH + 8}" y="{y + 13}">{said}</text>',
    ]
