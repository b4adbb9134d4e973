"""A business lock as a person says it. Pure, and light to import: the command line says it, too."""


def locked(root: str, part: str | None, since: str | None, until: str | None) -> str:
    """What is locked: `books/SAMPLE, part 7, from 2026-08 on`; None is all, and an open end."""
    what = f"{root}, part {part}" if part else root
    if since and until:
        return f"{what} of {since}" if since == until else f"{what} from {since} to {until}"
    if since:
        return f"{what} from {since} on"
    return f"{what} up to {until}" if until else what
