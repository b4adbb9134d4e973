"""Where the api is and by which key: checked once, before a request is made of them.

A key that no header can carry would else look like an api that does not answer. Neither message
repeats the key.
"""

import httpx

HIGHEST_PORT = 65_535


def checked_url(url: str) -> str:
    """The address without a slash at its end; ValueError where no api can be.

    Errors name the address, so none with an @ is taken: what stands before it is a password.
    """
    if "@" in str(url):
        raise ValueError("must hold no user and password (no @): a key goes into the token")
    try:
        parsed = httpx.URL(url)
    except (httpx.InvalidURL, TypeError) as error:
        raise ValueError(f"is no address: {error}") from None
    if parsed.scheme not in {"http", "https"} or not parsed.host:
        raise ValueError("must start with http:// or https:// and name a host")
    if parsed.port is not None and not 0 < parsed.port <= HIGHEST_PORT:
        # A socket takes its lower 16 bits: the key would go to another program.
        raise ValueError(f"has port {parsed.port}; 1 to {HIGHEST_PORT} are ports")
    if parsed.query or parsed.fragment or " " in url:
        raise ValueError("must hold no blank, ? or #: routes are added at its end")
    return url.rstrip("/")


def checked_token(token: str) -> str:
    """The key as it is; ValueError for one that is empty, or that no header can carry."""
    if not token:
        raise ValueError("is empty")
    if not (token.isascii() and token.isprintable()) or " " in token:
        raise ValueError(
            "is no key: a key is printable ASCII without blanks and line breaks (was a file read "
            "with its line end, or a quote copied with it?)"
        )
    return token
