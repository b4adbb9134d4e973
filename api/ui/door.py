"""The pages' part of the gate: whose session a request has, and what stands open to anybody."""

from starlette.requests import Request

from api.authentication import Caller
from api.ui.paths import LOGIN, LOGOUT, STATIC
from api.ui.session import SESSION, Sessions


async def find_reader(request: Request) -> tuple[Caller | None, bool]:
    """Who looks at a page; and whether nobody may as well.

    Raises what the database raises. What a page looks like is no secret and asks for nothing.
    """
    path = request.scope["path"]
    if path.startswith(STATIC):
        return None, True
    sessions: Sessions = request.app.state.sessions
    session = await sessions.of(request)
    request.scope[SESSION] = session
    return None if session is None else session.caller, path in {LOGIN, LOGOUT}
