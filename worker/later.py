"""Libraries that are imported by their first use, and looked for at the start all the same."""

from importlib.util import find_spec


def refuse_without(library: str) -> None:
    """ModuleNotFoundError unless the library is installed: a worker without it does not start.

    Importing it is left to whoever needs it: many of a fleet's workers never do, and all would
    wait for it before their first beat.
    """
    if find_spec(library) is None:
        raise ModuleNotFoundError(f"No module named {library!r}", name=library)
