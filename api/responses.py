"""JSON answers with exact numbers."""

from typing import Any

from starlette.responses import Response

from shared.json_text import to_json


def json_response(body: Any, *, status: int = 200) -> Response:
    """An application/json answer; Decimals keep their digits."""
    return Response(to_json(body).encode(), status, media_type="application/json")
