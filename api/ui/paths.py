"""Which addresses are pages, and where one may be sent after a login."""

from urllib.parse import urlsplit

HOME = "/ui/"
QUEUES, WORKERS, KINDS = "/ui/queues", "/ui/workers", "/ui/kinds"
LOGIN = "/ui/login"
LOGOUT = "/ui/logout"
STATIC = "/ui/static/"
LONGEST_PLACE = 2000


def is_page(path: str) -> bool:
    """Whether an address belongs to the pages: their errors are pages, their cookies count."""
    return path == "/ui" or path.startswith(HOME)


def safe_place(wanted: str | None) -> str:
    r"""Where a reader may be sent: an address below /ui/ of this very host, or the overview.

    Browsers read `\\` as `/`, drop tabs and line breaks, and take `//host` for another host.
    """
    if not wanted or len(wanted) > LONGEST_PLACE or not wanted.startswith(HOME):
        return HOME
    if "\\" in wanted or not wanted.isascii() or not wanted.isprintable():
        return HOME
    try:
        parts = urlsplit(wanted)
    except ValueError:
        return HOME
    path = parts.path.lower().replace("%2e", ".")  # as browsers read it
    if parts.scheme or parts.netloc or "//" in path or "/.." in path:
        return HOME
    return HOME if parts.path in {LOGIN, LOGOUT} or parts.path.startswith(STATIC) else wanted
