"""A handler module without handlers of its own: it lets names fail to resolve while a file is there.

Imported by a worker under test, it stands before the resolver that every library asks.
"""

import os
import socket
from pathlib import Path
from typing import Any

from worker.handlers import Handler

SWITCH = "TESTS_NO_NAMES_WHILE"
_resolve = socket.getaddrinfo


def _resolve_or_not(host: Any, *rest: Any, **named: Any) -> Any:
    if host == "localhost" and Path(os.environ[SWITCH]).exists():
        raise socket.gaierror(socket.EAI_AGAIN, "told to know no names")
    return _resolve(host, *rest, **named)


socket.getaddrinfo = _resolve_or_not
HANDLERS: tuple[Handler, ...] = ()
