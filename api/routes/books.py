"""Books: freeze those of a company or of one brand, so that no job that writes them starts."""

from typing import Annotated, Any

from fastapi import Request, Response
from pydantic import BaseModel, ConfigDict, Field

from api.bodies import show_instant
from api.company_wide import refuse_others, unknown_company
from api.dependencies import Ready, Who
from api.description import OF_A_BODY, problems
from api.parsing import described_body, read_model
from api.problems import Problem, ProblemRaised, field_problem
from api.resources import Resources
from api.responses import json_response
from api.routers import keyed_router
from shared.jobs.freeze import Books, freeze_books, list_freezes, running_on_books, thaw_books

router = keyed_router(prefix="/v1", tags=["books"])
BOOKS = {"company": "SAMPLE", "brand": "LUA"}
Code = Annotated[str, Field(min_length=1, max_length=40)]
OF_BOOKS = (*OF_A_BODY, "unknown-company", "unknown-brand")


class BooksBody(BaseModel):
    """Whose books: of one brand, or of the whole company."""

    model_config = ConfigDict(extra="forbid", strict=True)

    company: Code
    brand: Code | None = Field(None, description="null: the whole company, with all its brands")

    @property
    def books(self) -> Books:
        """What freeze and thaw take."""
        return Books(company=self.company, brand=self.brand)


class FreezeBody(BooksBody):
    """The books to freeze, and why."""

    reason: str | None = Field(
        None, min_length=1, max_length=500, description="for /why and the audit"
    )


class FreezeAnswer(BaseModel):
    """The books as they are now; `running` jobs go on, `staged` messages were written."""

    company: str
    brand: str | None
    frozen: bool
    running: int
    staged: int


class FreezeView(BaseModel):
    """A freeze that stands."""

    company: str
    brand: str | None
    reason: str | None
    principal: str
    frozen_at: str


class FreezeList(BaseModel):
    """Every freeze of books that the caller's jobs write."""

    freezes: list[FreezeView]


@router.get(
    "/freezes", response_class=Response, responses=problems() | {200: {"model": FreezeList}}
)
async def freezes(resources: Ready, who: Who) -> Response:
    """Show whose books are frozen, by whom and why."""
    async with resources.reading() as conn:
        rows = await list_freezes(conn, scope=who.scope)
    shown = [dict(row) | {"frozen_at": show_instant(row["frozen_at"])} for row in rows]
    return json_response({"freezes": shown})


@router.post(
    "/books/freeze",
    response_class=Response,
    responses=problems(*OF_BOOKS) | {200: {"model": FreezeAnswer}},
    openapi_extra=described_body(FreezeBody, BOOKS | {"reason": "closing January"}),
)
async def freeze(request: Request, resources: Ready, who: Who) -> Response:
    """Stop claims of every job that writes these books; those that run go on. May be repeated.

    A frozen brand stops the company's jobs without a brand, too: they write its books as well.
    """
    body = await read_model(request, FreezeBody)
    refuse_others(request, who, body.company, "it stops jobs without a brand, too")
    found = await resources.finish(_freeze(resources, body), name="freeze")
    return json_response(_answer(body.books, found, frozen=True))


@router.post(
    "/books/thaw",
    response_class=Response,
    responses=problems(*OF_BOOKS) | {200: {"model": FreezeAnswer}},
    openapi_extra=described_body(BooksBody, BOOKS),
)
async def thaw(request: Request, resources: Ready, who: Who) -> Response:
    """Let jobs that write these very books be claimed again; due ones get a message.

    What another freeze covers stays stopped.
    """
    body = await read_model(request, BooksBody)
    refuse_others(request, who, body.company, "it stops jobs without a brand, too")
    found = await resources.finish(_thaw(resources, body.books), name="thaw")
    return json_response(_answer(body.books, found, frozen=False))


async def _freeze(resources: Resources, body: FreezeBody) -> tuple[int, int] | None:
    async with resources.transaction() as conn:
        if not await freeze_books(conn, body.books, reason=body.reason):
            return None
    async with resources.reading() as conn:
        return 0, await running_on_books(conn, body.books)


async def _thaw(resources: Resources, books: Books) -> tuple[int, int] | None:
    async with resources.transaction() as conn:
        staged = await thaw_books(conn, books)
        running = await running_on_books(conn, books)
    resources.relay.wake()
    return None if staged is None else (staged, running)


def _answer(books: Books, found: tuple[int, int] | None, *, frozen: bool) -> dict[str, Any]:
    if found is None:
        raise ProblemRaised(_unknown(books))
    staged, running = found
    return books.binds() | {"frozen": frozen, "running": running, "staged": staged}


def _unknown(books: Books) -> Problem:
    if books.brand is None:
        return unknown_company(books.company)
    rule = f"must be the code of a brand of company {books.company}"
    return field_problem("unknown-brand", "brand", rule, books.brand)
