"""Tell companies by chance, cost them, and print a digest of what was told and of what it cost.

`python -m tests.costing_oracle.told`: two lines, the same in every process that ever runs it.
"""

import hashlib
import sys

from hypothesis import HealthCheck, given, settings

from tests.costing_oracle.as_read import layout_of, unit_of
from tests.costing_oracle.chance import draw_alike
from tests.costing_oracle.companies import Company, Taste, companies
from worker.costing.chunk import cost_chunk
from worker.costing.engine import cost_items
from worker.costing.movements import Method
from worker.costing.results import Policy
from worker.costing.units import Layout, Node, group

STORIES = 8


def tell() -> tuple[str, str]:
    """Digests of the stories and of their costs, in the order in which they come."""
    stories, costs = hashlib.sha256(), hashlib.sha256()
    for method in Method:
        for company in told(Taste(method=method, items=3, stores=4, length=16)):
            layout, unit = layout_of([company]), unit_of(0, company)
            stories.update(repr(company).encode())
            costs.update(repr(cost_items(company.stocks, company.pool_of, Policy())).encode())
            costs.update(repr(cost_chunk([unit], layout, Policy())).encode())
            costs.update(repr(of_several_brands(company)).encode())
    return stories.hexdigest(), costs.hexdigest()


def told(taste: Taste) -> list[Company]:
    """The same stories each time."""
    found: list[Company] = []

    @settings(
        max_examples=STORIES,
        derandomize=True,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(companies(taste))
    def listen(company: Company) -> None:
        found.append(company)

    listen()
    return found


def of_several_brands(company: Company) -> object:
    """The units of a company in which each store is a brand, and two pools are shared."""
    (unit, layout) = unit_of(0, company), layout_of([company])
    brands = {store: f"brand {store}" for store in layout.pool_of}
    pools = {
        store: f"/shared {n % 2}" if n else f"brand {store}/own"
        for n, store in enumerate(layout.pool_of)
    }
    nodes = [
        Node(
            brand=brand,
            item=stock.item,
            method=stock.method,
            state=stock.states[0],
            movements=[row for row in stock.movements if brands[row[4]] == brand],
            references=stock.references,
        )
        for stock in unit.stocks
        for brand in brands.values()
    ]
    return group(nodes, Layout(brands, pools), unit.sources, whole_company=True)


if __name__ == "__main__":
    draw_alike()
    sys.stdout.write("\n".join(tell()))
