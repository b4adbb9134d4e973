"""The tasks that come with the books: pools of cost, movements of documents, another chart."""

from collections.abc import Sequence
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from shared.kinds import Payload
from shared.migrations import TaskSpec

DAY = r"^[12][0-9]{3}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])$"
ACCOUNT = r"^[0-9A-Za-z.]{1,20}$"
Day = Annotated[str, Field(pattern=DAY, examples=["2026-01-01"])]
Account = Annotated[str, Field(pattern=ACCOUNT)]
Pool = Annotated[str, Field(min_length=1, max_length=40)]


class AssignPoolsParams(Payload):
    """Which pool each store lies in from `valid_from` on.

    `by` makes pools of one kind: a store each, or one for its brand, or one for the company;
    `pools` names them store by store (others stay). `shared`: a named pool is of the company, not
    of a brand.
    """

    valid_from: Day
    by: Literal["store", "brand", "company"] | None = None
    pools: Annotated[dict[str, Pool], Field(min_length=1, max_length=10_000)] | None = None
    shared: bool = False

    @model_validator(mode="after")
    def _is_one_of_both(self) -> Self:
        if (self.by is None) == (self.pools is None):
            raise ValueError("give either by or pools")
        if self.shared and self.pools is None:
            raise ValueError("shared is of pools that are named")
        return self


class BackfillMovementsParams(Payload):
    """Posted documents of these days (of posting) whose goods are to be stock movements."""

    date_from: Day
    date_to: Day


class RemapAccountsParams(Payload):
    """From which account to which, and from when.

    New accounts that the chart has not are taken from `template`, or are a copy of the old one.
    `reclassify` makes drafts of manual documents, on `as_of`, that move the balances; with `close`
    the old accounts take nothing after that day.
    """

    accounts: Annotated[dict[Account, Account], Field(min_length=1, max_length=1_000)]
    as_of: Day
    template: Literal["TT200", "TT99"] | None = None
    reclassify: bool = True
    close: bool = True

    @model_validator(mode="after")
    def _leads_somewhere(self) -> Self:
        both = sorted(set(self.accounts) & set(self.accounts.values()))
        if both:
            raise ValueError(f"accounts: {', '.join(both)} are old and new; remap in two runs")
        return self


ASSIGN_POOLS = TaskSpec(
    name="pools.assign",
    description="Put the company's stores into pools of cost, from a day on.",
    params=AssignPoolsParams,
)
BACKFILL_MOVEMENTS = TaskSpec(
    name="movements.backfill",
    description="Write the stock movements that documents of some days stand for.",
    params=BackfillMovementsParams,
)
REMAP_ACCOUNTS = TaskSpec(
    name="accounts.remap",
    description="Go from one chart of accounts to another: roles, drafts, balances.",
    params=RemapAccountsParams,
)

TASKS: Sequence[TaskSpec] = (ASSIGN_POOLS, BACKFILL_MOVEMENTS, REMAP_ACCOUNTS)
