"""Which books, which days: what every route of the ledger asks for, and what is wrong with it."""

from dataclasses import replace
from datetime import date
from typing import Annotated, Any, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator
from sqlalchemy.ext.asyncio import AsyncConnection

from api.cost_pages import Code, Period, refuse_unknown_place
from api.cursors import read_cursor, refused_cursor, write_cursor
from api.problems import ProblemRaised, field_problem
from api.queries import refuse_nul
from shared.access import Scope
from shared.ledger.chart import ChartRefused
from shared.ledger.reports import After, Span, days_of

# What would be another request by today's chart, and what no request could be.
CONFLICTS = frozenset({"ACCOUNT_KIND", "ACCOUNT_NOT_POSTABLE", "RULE_OLDER"})
AccountCode = Annotated[
    str, Field(pattern=r"^[0-9A-Za-z.]{1,20}$", examples=["1561"]), BeforeValidator(refuse_nul)
]
Day = Annotated[date | None, Field(examples=["2026-01-31"])]


class SpanQuery(BaseModel):
    """Days of a company's books: a period, or from one day to another, both included."""

    model_config = ConfigDict(extra="forbid")

    company: Code = Field(examples=["SAMPLE"])
    period: Period | None = None
    date_from: Day = None
    date_to: Day = None

    @model_validator(mode="after")
    def _one_of_two(self) -> Self:
        self.refuse_unclear(self.period, self.date_from, self.date_to)
        return self

    @staticmethod
    def refuse_unclear(period: str | None, since: date | None, until: date | None) -> None:
        """ValueError unless it is a period, or two days in their order."""
        if (period is None) == (since is None and until is None):
            raise ValueError("give period, or date_from and date_to")
        if period is None and (since is None or until is None):
            raise ValueError("give both date_from and date_to")
        if since is not None and until is not None and since > until:
            raise ValueError("date_from must not be after date_to")


async def span_of(conn: AsyncConnection, scope: Scope, query: SpanQuery) -> Span:
    """The days asked for, of the brands that the scope sees; ProblemRaised for unknown books."""
    await refuse_unknown_place(conn, scope, query.company, query.period)
    if query.period is not None:
        days = await days_of(conn, query.company, query.period)
        assert days is not None, "the period is known"
    else:
        assert query.date_from is not None, "the model has seen to it"
        assert query.date_to is not None, "the model has seen to it"
        days = (query.date_from, query.date_to)
    return Span(company=query.company, since=days[0], until=days[1], brands=scope.brands)


def span_members(span: Span) -> dict[str, str]:
    """How an answer names its books and days."""
    return {
        "company": span.company,
        "date_from": span.since.isoformat(),
        "date_to": span.until.isoformat(),
    }


def write_after(row: Any, *more: str) -> str:
    """A cursor behind this line."""
    return write_cursor(
        row["posting_date"].isoformat(), str(row["entry_id"]), str(row["line_no"]), *more
    )


def read_after(cursor: str | None, *, more: int = 0) -> tuple[After, list[int]]:
    """The line of such a cursor, and further whole numbers; ProblemRaised for any other text."""
    if cursor is None:
        return After(), []
    day, entry_id, line_no, *rest = read_cursor(cursor, keys=3 + more)
    try:
        after = After(day=date.fromisoformat(day), entry_id=int(entry_id), line_no=int(line_no))
        numbers = [int(each) for each in rest]
    except ValueError:
        raise refused_cursor(cursor) from None
    if not (0 <= after.entry_id < 10**18 and 0 <= after.line_no < 10**9):
        raise refused_cursor(cursor)
    return after, numbers


def refused(problem: ChartRefused) -> ProblemRaised:
    """The problem of what a chart does not take: 409 by today's chart, 422 by any."""
    if problem.code not in CONFLICTS:
        return ProblemRaised(field_problem("invalid-request", problem.field, str(problem)))
    told = field_problem("chart-refused", problem.field, str(problem))
    more = {"code": problem.code, "field": problem.field}
    return ProblemRaised(replace(told, more=more))
