"""Icons: inline SVG of our own, drawn with the colour of the text around them."""

from collections.abc import Mapping

from markupsafe import Markup

# On a field of 16 × 16, strokes of the text's colour.
PATHS: Mapping[str, str] = {
    "latch": "M3 8h7M3 4v8M10 5h3v6h-3z",
    "ok": "M3 8.5l3.2 3L13 4.5",
    "warn": "M8 2.5l6 11H2zM8 6.5v3M8 11.5v.5",
    "bad": "M4 4l8 8M12 4l-8 8",
    "pause": "M5.5 3.5v9M10.5 3.5v9",
    "play": "M5 3l8 5-8 5z",
    "step": "M4 3l6 5-6 5zM12 3v10",
    "link": "M6 3h7v7M13 3L5 11",
    "clock": "M8 2.5a5.5 5.5 0 1 0 .01 0M8 5v3.5l2.5 1.5",
    "worker": "M3 4h10v6H3zM6 13h4M8 10v3",
    "queue": "M3 4h10M3 8h10M3 12h6",
    "skull": "M4 7a4 4 0 1 1 8 0v3h-2v2.5H6V10H4zM6.5 7v.5M9.5 7v.5",
    "freeze": "M8 2v12M3 5l10 6M13 5L3 11",
    "auto": "M8 2.5a5.5 5.5 0 1 0 .01 0zM8 2.5v11",
    "sun": "M8 5.5a2.5 2.5 0 1 0 .01 0M8 1.5v1M8 13.5v1M1.5 8h1M13.5 8h1M3.5 3.5l.7.7"
    "M11.8 11.8l.7.7M12.5 3.5l-.7.7M4.2 11.8l-.7.7",
    "moon": "M12.5 10A5.5 5.5 0 0 1 6 3.5a5 5 0 1 0 6.5 6.5z",
    "download": "M8 2.5v7M5 7l3 3 3-3M3 13h10",
    "redo": "M12.5 6A5 5 0 1 0 13 9.5M13 3v3.5H9.5",
    "outbox": "M3 9v4h10V9M8 10V2.5M5 5l3-2.5L11 5",
}


def icon(name: str) -> Markup:
    """The icon, hidden from readers that hear the page: words stand beside it. KeyError if none."""
    return Markup(
        '<svg class="icon" viewBox="0 0 16 16" width="16" height="16" fill="none" '
        'stroke="currentColor" stroke-width="1.6" stroke-linecap="round" stroke-linejoin="round" '
        'aria-hidden="true" focusable="false"><path d="{}"/></svg>'
    ).format(PATHS[name])
