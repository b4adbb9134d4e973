"""The jobs of a month end: one brand has most of them, and had them first; all from one seed."""

import itertools
import random
from collections.abc import Iterator
from dataclasses import dataclass

from shared.groups.group import Policy
from shared.jobs.enqueue import Submit

COMPANY = "ACME"
BIG = "RED"
SMALL = ("BLUE", "GOLD", "JADE")
BRANDS = (BIG, *SMALL)
# By an operator: no more of the brand's jobs may run at once.
PLACES = {"GOLD": 6}
SHARE_OF_BIG = 0.7
PERIODS = ("2026-08", "2026-09", "2026-10")
# Of a brand's jobs; what is left are reports.
MIX = {
    "month.post": 0.45,
    "month.count": 0.10,
    "month.transfer": 0.08,
    "month.feed": 0.10,
    "month.cost": 0.01,
}
MEMBERS = 25


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What one month end is: so many jobs, three workers, somebody killed every so often."""

    seed: int = 1
    jobs: int = 20_000
    workers: int = 3
    slots: int = 6
    seconds: float = 0.03
    lease: float = 4.0
    kill_every: float = 20.0
    most_kills: int = 1_000
    samples_every: float = 0.4
    deadline: float = 3_600.0


@dataclass(frozen=True, slots=True)
class Family:
    """A group of a brand, its members and its join."""

    brand: str
    policy: Policy
    join: Submit
    members: tuple[Submit, ...]


@dataclass(frozen=True, slots=True)
class Month:
    """Who comes first with most of it, who comes then, the groups, and the closes."""

    first: list[Submit]
    then: list[Submit]
    families: list[Family]
    closes: list[Submit]


def planned(plan: Plan) -> Month:
    """The same plan is the same month."""
    dice, numbers = random.Random(plan.seed), itertools.count(1)
    families = [_family(plan, dice, numbers, n) for n in range(max(4, plan.jobs // 400))]
    closes = [_job(plan, dice, next(numbers), "month.close", None) for _ in PERIODS]
    grouped = sum(len(each.members) + 1 for each in families) + len(closes)
    big = int(SHARE_OF_BIG * plan.jobs)
    first = [_job(plan, dice, next(numbers), _kind(dice), BIG) for _ in range(big)]
    rest = plan.jobs - big - grouped
    then = [_job(plan, dice, next(numbers), _kind(dice), SMALL[n % 3]) for n in range(rest)]
    return Month(first, then, families, closes)


def _kind(dice: random.Random) -> str:
    names = [*MIX, "month.report"]
    weights = [*MIX.values(), 1 - sum(MIX.values())]
    return dice.choices(names, weights)[0]


def _job(
    plan: Plan, dice: random.Random, number: int, kind: str, brand: str | None, **more: object
) -> Submit:
    payload = {
        "number": number,
        "period": dice.choice(PERIODS),
        "store": f"{brand}-{dice.randrange(8)}",
        "seconds": round(dice.uniform(0, 2 * plan.seconds), 4),
        "poison": kind == "month.report" and dice.random() < 0.01,
    }
    return Submit(kind=kind, company=COMPANY, brand=brand, payload=payload | more)


def _family(plan: Plan, dice: random.Random, numbers: Iterator[int], place: int) -> Family:
    brand = BRANDS[place % len(BRANDS)]
    poisoned = place % 4 == 3
    members = tuple(
        _job(plan, dice, next(numbers), "month.item", brand, poison=poisoned and n == 0)
        for n in range(MEMBERS)
    )
    policy = (Policy.JOIN, Policy.FINISH, Policy.FAIL_FAST)[place % 3]
    return Family(brand, policy, _job(plan, dice, next(numbers), "month.sum", brand), members)
