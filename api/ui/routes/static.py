"""Static files: what a page looks like, by name and content."""

from fastapi import Request, Response

from api.problems import Problem, ProblemRaised
from api.routers import page_router
from api.ui.static_files import static_files

router = page_router()
FOR_EVER = "public, max-age=31536000, immutable"


@router.get("/ui/static/{name}")
async def static_file(name: str, request: Request) -> Response:
    """One file; kept by the browser where its address names this very content."""
    found = static_files().get(name)
    if found is None:
        raise ProblemRaised(Problem(slug="not-found", detail="there is no such file"))
    named = request.query_params.get("v") == found.mark
    headers = {"Cache-Control": FOR_EVER if named else "no-cache"}
    return Response(found.content, headers=headers, media_type=found.media_type)
