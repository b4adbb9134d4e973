"""What the routes of a chart take and answer: accounts, roles, rules."""

from datetime import date
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from api.cost_pages import Code as Asked
from api.cost_pages import Cursor
from api.ledger_place import AccountCode
from api.ledger_views import AccountView, RoleView, RuleView
from api.queries import LIMIT_MAX, Limit, refuse_nul
from shared.ledger.chart import Account, Kind
from shared.ledger.rules import DocumentType, NewRule, RuleLine

Code = Annotated[str, Field(min_length=1, max_length=40)]
Named = Annotated[str, Field(min_length=1, max_length=200), BeforeValidator(refuse_nul)]


class ChartBody(BaseModel):
    """Which template the company adopts."""

    model_config = ConfigDict(extra="forbid", strict=True)

    company: Code
    template: Annotated[str, Field(min_length=1, max_length=40)]


class ChartAnswer(BaseModel):
    """How many accounts the company had not had; the others stay as they are."""

    company: str
    template: str
    added: int


class AccountBody(BaseModel):
    """The account as it is to be, whole; what it is of (`kind`) never changes."""

    model_config = ConfigDict(extra="forbid", strict=True)

    company: Code
    code: AccountCode
    name: Named
    name_vi: Named | None = None
    kind: Kind
    postable: bool = True
    needs_party: bool = False
    needs_store: bool = False
    needs_item: bool = False
    is_stock: bool = False
    active_from: date | None = None
    active_to: date | None = None

    @model_validator(mode="after")
    def _is_whole(self) -> Self:
        if self.is_stock and not (self.needs_store and self.needs_item):
            raise ValueError("is_stock needs needs_store and needs_item: it is held to both")
        if self.active_from and self.active_to and self.active_from > self.active_to:
            raise ValueError("active_from must not be after active_to")
        return self

    @property
    def account(self) -> Account:
        """What the database is asked for."""
        return Account(**{name: value for name, value in self if name != "company"})


class AccountAnswer(AccountView):
    """The account as it is now, and what became of it."""

    company: str
    outcome: Literal["added", "changed", "unchanged"]


class AccountsQuery(BaseModel):
    """Whose accounts; `below` those whose codes begin so."""

    model_config = ConfigDict(extra="forbid")

    company: Asked = Field(examples=["SAMPLE"])
    below: AccountCode | None = None
    cursor: Cursor = None
    limit: Limit = LIMIT_MAX


class AccountPage(BaseModel):
    """Accounts by code; `next_cursor` is null at the end."""

    company: str
    accounts: list[AccountView]
    next_cursor: str | None


class CompanyQuery(BaseModel):
    """Whose."""

    model_config = ConfigDict(extra="forbid")

    company: Asked = Field(examples=["SAMPLE"])


class RulesQuery(CompanyQuery):
    """Whose rules, of which type."""

    type: DocumentType | None = None


class RoleBody(BaseModel):
    """Which account plays the role from now on."""

    model_config = ConfigDict(extra="forbid", strict=True)

    company: Code
    role: Annotated[str, Field(min_length=1, max_length=40)]
    account: AccountCode


class RoleAnswer(BaseModel):
    """The account that plays the role, and the one that did before."""

    company: str
    role: str
    account: str
    former: str
    changed: bool


class Roles(BaseModel):
    """Every role with its account."""

    company: str
    roles: list[RoleView]


class Rules(BaseModel):
    """Rules by type, newest version first; the company's own before those that all share."""

    company: str
    rules: list[RuleView]


class LineBody(BaseModel):
    """What a line of the entry is made of; a stated one has those of its document."""

    model_config = ConfigDict(extra="forbid", strict=True)

    per: Literal["document", "line"]
    amount: Literal["gross", "net", "vat", "stated"]
    side: Literal["debit", "credit"] | None = None
    role: Annotated[str, Field(min_length=1, max_length=40)] | None = None
    own_account: bool = False
    store: Literal["store", "to_store"] = "store"

    @model_validator(mode="after")
    def _is_of_one_sort(self) -> Self:
        stated = self.amount == "stated"
        if stated != (self.side is None):
            raise ValueError("a stated line has no side of its own, any other has one")
        if stated and self.per != "line":
            raise ValueError("a stated line is per line")
        if not stated and self.role is None:
            raise ValueError("a line that is not stated needs a role")
        return self


class RuleBody(BaseModel):
    """The next version of a type's rule, from a day on."""

    model_config = ConfigDict(extra="forbid", strict=True)

    company: Code
    type: DocumentType
    valid_from: date
    series: Annotated[str, Field(pattern=r"^[0-9A-Z-]{1,20}$")] = "NKC"
    rest: Literal["largest_line", "account"] = Field(
        "largest_line", description="where the difference between lines and stated totals goes"
    )
    memo: Named | None = None
    lines: list[LineBody] = Field(min_length=1, max_length=50)

    @property
    def rule(self) -> NewRule:
        """What the database is asked for."""
        return NewRule(
            company=self.company,
            doc_type=self.type,
            valid_from=self.valid_from,
            series=self.series,
            rest=self.rest,
            memo=self.memo,
            lines=[RuleLine(**line.model_dump()) for line in self.lines],
        )


class RuleAnswer(BaseModel):
    """The version that the rule has become."""

    company: str
    type: DocumentType
    version: int
    valid_from: str


TEMPLATE = {"company": "SAMPLE", "template": "TT200"}
ACCOUNT: dict[str, Any] = {
    "company": "SAMPLE",
    "code": "64181",
    "name": "Online advertising",
    "name_vi": "Chi phí quảng cáo trực tuyến",
    "kind": "expense",
}
ROLE = {"company": "SAMPLE", "role": "usage", "account": "6418"}
RULE: dict[str, Any] = {
    "company": "SAMPLE",
    "type": "sale",
    "valid_from": "2026-02-01",
    "memo": "revenue of every shop on 5111",
    "lines": [
        {"per": "document", "side": "debit", "role": "receivable", "amount": "gross"},
        {"per": "line", "side": "credit", "role": "revenue", "amount": "net"},
        {"per": "document", "side": "credit", "role": "vat_out", "amount": "vat"},
    ],
}
