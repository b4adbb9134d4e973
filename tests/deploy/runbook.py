"""docs/runbook.md taken apart: its sections, its commands, its statements."""

import re
import shlex

from tests.services import ROOT

TEXT = (ROOT / "docs" / "runbook.md").read_text()
BLOCK = re.compile(r"^ *```(\w+)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)


def blocks(language: str) -> list[str]:
    """The blocks of one language, in the page's order."""
    return [text for kind, text in BLOCK.findall(TEXT) if kind == language]


def commands(program: str) -> list[list[str]]:
    """Every line of a shell block that runs this program, as words, without the comment."""
    lines = "\n".join(blocks("sh")).replace("\\\n", " ").splitlines()
    words = [shlex.split(line, comments=True) for line in lines]
    return [each[1:] for each in words if each and each[0] == program]


def sections() -> dict[str, str]:
    """Text by heading."""
    parts = re.split(r"^#+ (.+)$", re.sub(BLOCK, "", TEXT), flags=re.MULTILINE)[1:]
    return dict(zip(parts[::2], parts[1::2], strict=True))


def anchor(heading: str) -> str:
    """As the pages that show Markdown make it."""
    return re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")
