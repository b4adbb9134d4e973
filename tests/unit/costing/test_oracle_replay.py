"""Moving average, FIFO and specific identification against an independent replay: equal integers."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.costing_oracle.companies import Company, Taste, companies
from tests.costing_oracle.judge import judged
from worker.costing.movements import Method
from worker.costing.results import Negative, Policy

REPLAYED = (Method.MOVING, Method.FIFO, Method.SPECIFIC)
PROVISIONAL = Policy(negative=Negative.PROVISIONAL)
# A count of what is owed, and goods that go back before they came, are stories of their own.
SHORT = ("receipt", "receipt", "issue", "issue", "transfer", "consume", "sales_return")


def one_item(method: Method) -> Taste:
    """A story of one item in some pools."""
    return Taste(method=method)


def many_items(method: Method) -> Taste:
    """Items that are made of each other."""
    return Taste(method=method, items=3, stores=3, length=20)


def short(method: Method) -> Taste:
    """Goods go out before they came."""
    return Taste(method=method, kinds=SHORT, short=True, owed=True, length=14)


@pytest.mark.parametrize("method", REPLAYED)
def test_every_line_is_what_the_rules_say(method: Method) -> None:
    @given(companies(one_item(method)))
    def check(company: Company) -> None:
        judged(company)

    check()


@pytest.mark.parametrize("method", REPLAYED)
def test_what_is_made_of_other_goods_takes_their_cost_at_that_moment(method: Method) -> None:
    @settings(max_examples=60)  # long stories: so many take a few seconds
    @given(companies(many_items(method)))
    def check(company: Company) -> None:
        judged(company)

    check()


@pytest.mark.parametrize("method", REPLAYED)
def test_what_goes_short_is_settled_by_who_covers_it(method: Method) -> None:
    @given(companies(short(method)))
    def check(company: Company) -> None:
        judged(company, PROVISIONAL)

    check()


@pytest.mark.parametrize("method", REPLAYED)
def test_nothing_that_is_worth_much_is_worth_something_else(method: Method) -> None:
    @given(companies(Taste(method=method, huge=True, length=8)))
    def check(company: Company) -> None:
        judged(company)

    check()


@pytest.mark.long
@pytest.mark.parametrize("method", REPLAYED)
@pytest.mark.parametrize("taste", [one_item, many_items, short])
def test_thousands_of_stories_end_as_the_rules_say(method: Method, taste: object) -> None:
    assert callable(taste)
    policy = PROVISIONAL if taste is short else Policy()

    @settings(max_examples=3000, deadline=None)
    @given(companies(taste(method)), st.just(policy))
    def check(company: Company, policy: Policy) -> None:
        judged(company, policy)

    check()
