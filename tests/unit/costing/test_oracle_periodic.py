"""The periodic average against an independent solution in rationals."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.costing_oracle.companies import Company, Taste, companies
from tests.costing_oracle.judge import judged
from worker.costing.results import Negative, Policy, ResiduePolicy

ONE = Taste()
DIPPING = Taste(any_day=True, stores=5, length=20)
MANY = Taste(items=3, stores=3, length=20)
CYCLES = Taste(kinds=("receipt", "issue", "transfer", "transfer", "transfer"), stores=6, length=25)

SHORT = Taste(
    kinds=("receipt", "issue", "issue", "transfer", "consume", "landed_cost"),
    short=True,
    owed=True,
    length=12,
)
PROVISIONAL = Policy(negative=Negative.PROVISIONAL)

policies = st.builds(Policy, residue=st.sampled_from(ResiduePolicy))


@given(companies(ONE), policies)
def test_a_company_is_costed_as_the_rules_say(company: Company, policy: Policy) -> None:
    judged(company, policy)


@given(companies(DIPPING))
def test_the_days_within_a_period_change_no_price(company: Company) -> None:
    judged(company)


@given(companies(CYCLES))
def test_goods_that_go_round_have_the_exact_price(company: Company) -> None:
    judged(company)


@given(companies(MANY))
def test_what_is_made_of_other_goods_is_worth_what_they_cost(company: Company) -> None:
    judged(company)


@given(companies(SHORT))
def test_what_goes_short_is_settled_by_what_comes_in_the_next_period(company: Company) -> None:
    judged(company, PROVISIONAL)


@given(companies(Taste(huge=True, length=8)))
def test_nothing_that_is_worth_much_is_worth_something_else(company: Company) -> None:
    judged(company)


@pytest.mark.long
@pytest.mark.parametrize("taste", [ONE, DIPPING, CYCLES, MANY, SHORT])
def test_thousands_of_companies_are_costed_as_the_rules_say(taste: Taste) -> None:
    @settings(max_examples=4000, deadline=None)
    @given(companies(taste), policies)
    def check(company: Company, policy: Policy) -> None:
        judged(company, PROVISIONAL if taste.short else policy)

    check()
