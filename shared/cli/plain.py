"""Text that others wrote, as a terminal may have it: what would steer the terminal is shown.

A job's names, messages and results are anybody's. Written as they are, an escape sequence in one
of them could clear a screen, forge a line or set a title; none has to be able to.
"""

import json
import re
from typing import Any

# C0, DEL and C1; what ends a line or turns its direction; halves of a surrogate pair, which no
# stream of UTF-8 takes.
STEERING = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)
NAMES = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def visible(said: Any) -> str:
    r"""One line of text with each control character as an escape: ESC is \x1b."""
    return STEERING.sub(_escape, str(said))


def visible_lines(said: Any) -> str:
    """As visible(), of text that may have several lines."""
    return "\n".join(map(visible, str(said).split("\n")))


def json_text(document: Any, *, indent: int | None = None) -> str:
    """JSON as people read it; what would steer a terminal stands in it as an escape of JSON."""
    written = json.dumps(document, ensure_ascii=False, indent=indent)
    return "\n".join(STEERING.sub(_escape_json, line) for line in written.split("\n"))


def _escape(found: re.Match[str]) -> str:
    character = found[0]
    number = ord(character)
    return NAMES.get(character) or (f"\\x{number:02x}" if number < 0x100 else f"\\u{number:04x}")


def _escape_json(found: re.Match[str]) -> str:
    return f"\\u{ord(found[0]):04x}"
