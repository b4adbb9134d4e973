"""Style, scripts and icons: read once, named by their content, kept by browsers for ever.

An address with another content's mark is answered as well, but not to be kept: in a deployment the
page may be of one version and its files, by the next request, of the other.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

HERE = Path(__file__).parent / "static"
TYPES = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}


@dataclass(frozen=True, slots=True)
class StaticFile:
    """One file as it goes out."""

    content: bytes
    media_type: str
    mark: str


@cache
def static_files() -> Mapping[str, StaticFile]:
    """Every file by its name."""
    return {
        path.name: StaticFile(
            content := path.read_bytes(),
            TYPES[path.suffix],
            hashlib.sha256(content).hexdigest()[:16],
        )
        for path in sorted(HERE.iterdir())
        if path.suffix in TYPES
    }


def static_place(name: str) -> str:
    """The address of a file; KeyError for one that is not there."""
    return f"/ui/static/{name}?v={static_files()[name].mark}"
