"""The packages that are given: what an api and a worker import whatever they do."""

COMMON = (
    "asyncpg",
    "aiobotocore.session",
    "pydantic",
    "pydantic_settings",
    "sqlalchemy.ext.asyncio",
    "sqlalchemy.dialects.postgresql.asyncpg",
)
OF_API = (*COMMON, "fastapi", "uvicorn", "uvicorn.protocols.http.auto", "uvicorn.loops.auto")
OF_WORKER = COMMON


def importing(names: tuple[str, ...], then: str) -> str:
    """A program that imports them all, says so, and then does this."""
    lines = [f"import {name}" for name in names]
    return "\n".join([*lines, "import os, sys", "print('imported', flush=True)", then])
