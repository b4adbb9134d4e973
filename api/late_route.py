"""Routes that the framework analyses at their first request, not when they are declared."""

from collections.abc import Callable, Iterable
from typing import Any

from fastapi.routing import APIRoute
from starlette.routing import Route


class LateRoute(APIRoute):
    """An APIRoute that knows what it matches, and learns the rest when somebody asks for it.

    What a request needs is asked for by the first one (1 to 3 ms), what /openapi.json needs by its
    reader. Nothing of it depends on a deployment: what is wrong with a route is wrong everywhere,
    and a test asks each of them.
    """

    def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        methods: Iterable[str] | None = options.get("methods")
        self._late = options
        Route.__init__(
            self,
            path,
            endpoint,
            methods=list(methods or ["GET"]),
            name=options.get("name"),
            include_in_schema=options.get("include_in_schema", True),
        )
        self.methods = {method.upper() for method in methods or ["GET"]}  # without HEAD
        del self.app

    def __getattr__(self, name: str) -> Any:
        """Called for what is not there yet."""
        options = self.__dict__.pop("_late", None)
        if options is None:
            raise AttributeError(name)
        super().__init__(self.path, self.endpoint, **options)
        return getattr(self, name)
