"""Ask for a report on the ledger as a file: one job a request, of the brand that it is for."""

from datetime import date
from typing import Literal, Self
from uuid import uuid4

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from api.authentication import Caller
from api.bodies import Code
from api.cost_pages import Period
from api.idempotency import Answer, ask
from api.ledger_place import AccountCode, SpanQuery, span_of
from api.problems import Problem, ProblemRaised, field_problem, validation_problem
from api.resources import Resources
from api.strict_json import parse_object
from api.submission import NOT_YOURS, Request, submit
from shared.jobs.enqueue import Submit
from shared.kinds.ledger import LEDGER_EXPORT
from shared.ledger.reports import Span, accounts_below

ROUTE = "/v1/ledger/exports"


class LedgerExportBody(BaseModel):
    """Which report, of a period or from one day to another, as which file."""

    model_config = ConfigDict(extra="forbid", strict=True)

    company: Code
    report: Literal["trial_balance", "general_ledger", "journal"]
    format: Literal["csv", "xlsx"]
    period: Period | None = None
    date_from: date | None = None
    date_to: date | None = None
    account: AccountCode | None = Field(None, description="of a general ledger, which needs it")
    level: int | None = Field(None, ge=1, le=10, description="of a trial balance")
    brand: Code | None = Field(
        None,
        description="lines of this brand only. null: all of the company; an account with several "
        "brands names one",
    )
    bom: bool = Field(
        default=False, description="CSV begins with a byte order mark: Excel then reads UTF-8"
    )

    @model_validator(mode="after")
    def _fits_the_report(self) -> Self:
        if (self.account is None) == (self.report == "general_ledger"):
            raise ValueError("account goes with general_ledger, which needs it")
        if self.level is not None and self.report != "trial_balance":
            raise ValueError("level goes with trial_balance")
        SpanQuery.refuse_unclear(self.period, self.date_from, self.date_to)
        return self

    @property
    def days(self) -> SpanQuery:
        """The days it is of."""
        return SpanQuery(
            company=self.company,
            period=self.period,
            date_from=self.date_from,
            date_to=self.date_to,
        )


async def export(resources: Resources, raw_body: bytes, key: str | None, who: Caller) -> Answer:
    """Submit the export, under its key once; Malformed, or ProblemRaised with nothing written."""
    raw = parse_object(raw_body)
    asked = None
    if key is not None:
        asked = ask(who.principal, key, method="POST", route=ROUTE, body=raw)
    try:
        body = LedgerExportBody.model_validate_json(raw_body)
    except ValidationError as error:
        problem = validation_problem(error, LedgerExportBody)
        if asked is None:
            raise ProblemRaised(problem) from None
        return await submit(resources, Request(asked=asked, checked=problem))
    brand = _brand(body, who)
    async with resources.reading() as conn:
        span = await span_of(conn, who.scope, body.days)
        checked: Submit | Problem = _job(body, span, brand, who)
        account = body.account
        if account is not None and not await accounts_below(conn, body.company, account):
            rule = f"must be an account of {body.company}: GET /v1/ledger/accounts lists them"
            checked = field_problem("invalid-request", "account", rule, account)
    if asked is None and isinstance(checked, Problem):
        raise ProblemRaised(checked)
    return await submit(resources, Request(asked=asked, checked=checked))


def _job(body: LedgerExportBody, span: Span, brand: str | None, who: Caller) -> Submit:
    payload = {
        "report": body.report,
        "format": body.format,
        "date_from": span.since.isoformat(),
        "date_to": span.until.isoformat(),
        "account": body.account,
        "level": body.level,
        "bom": body.bom and body.format == "csv",
        "asked": str(uuid4()),
    }
    return Submit(
        kind=LEDGER_EXPORT.name,
        company=body.company,
        brand=brand,
        payload={name: value for name, value in payload.items() if value is not None},
        principal=who.principal,
        payload_version=LEDGER_EXPORT.version,
    )


def _brand(body: LedgerExportBody, who: Caller) -> str | None:
    """Whose lines, and by that who may see the job and its file; ProblemRaised beyond the rights.

    Before the key is looked up: who has lost a brand gets no stored answer either.
    """
    scope, brand = who.scope, body.brand
    if scope.brands is None or not scope.covers_company(body.company):
        return brand
    if brand is None and len(scope.brands) > 1:
        rule = "is missing: this account has some brands only"
        raise ProblemRaised(field_problem("invalid-request", "brand", rule))
    if brand is not None and brand not in scope.brands:
        rule = NOT_YOURS["unknown-brand"]
        raise ProblemRaised(field_problem("unknown-brand", "brand", rule, brand))
    return brand or scope.brands[0]
