"""Error frames: where an error came from, in the few places that an operator can use."""

import sysconfig
import traceback
from pathlib import Path

MOST_FRAMES = 4
# What every handler is called from; it says nothing about an error.
CALLERS = str(Path(__file__).with_name("attempt.py"))
LIBRARIES = frozenset({"site-packages", "dist-packages"})
STANDARD = Path(sysconfig.get_paths()["stdlib"])


def frames_of(error: BaseException) -> list[str]:
    """At most four `file.py:line function`, the outermost first.

    Always there: the handler's own first frame and the innermost one. Between them those that
    are in no library, the innermost ones: of an error of the database the last twenty frames are
    SQLAlchemy's and the driver's. A library's file has its folder before it, any other is bare.
    """
    frames = traceback.extract_tb(error.__traceback__)
    while frames and frames[0].filename == CALLERS:
        frames.pop(0)
    if not frames:
        return []
    own = [0, *(n for n, f in enumerate(frames) if n and not _is_librarys(f.filename))]
    last = len(frames) - 1
    kept = {0, last, *own[-(MOST_FRAMES - 2) :]}
    return [_named(frames[n], bare=n in own) for n in sorted(kept)]


def _is_librarys(filename: str) -> bool:
    path = Path(filename)
    return not LIBRARIES.isdisjoint(path.parts) or path.is_relative_to(STANDARD)


def _named(frame: traceback.FrameSummary, *, bare: bool) -> str:
    parts = Path(frame.filename).parts[-1 if bare else -2 :]
    return f"{'/'.join(parts)}:{frame.lineno} {frame.name}"
