"""Families: the three worlds, each with its properties, its protections and its bounds."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from shared.model.actions import ACTIONS, ActionSpec
from shared.model.explore import Explorer
from shared.model.groups import actions as of_groups
from shared.model.groups import bounds as group_bounds
from shared.model.groups.model import GroupModel
from shared.model.groups.properties import PROPERTIES as GROUP_PROPERTIES
from shared.model.groups.protections import PROTECTIONS as GROUP_PROTECTIONS
from shared.model.locks import actions as of_locks
from shared.model.locks import bounds as lock_bounds
from shared.model.locks.model import LockModel
from shared.model.locks.properties import PROPERTIES as LOCK_PROPERTIES
from shared.model.locks.protections import PROTECTIONS as LOCK_PROTECTIONS
from shared.model.model import Model
from shared.model.properties import PROPERTIES
from shared.model.protections import COURTESIES, PROTECTIONS, Protection, without
from shared.model.state import Bounds
from shared.model.sweep import Sweep
from shared.model.world import Search, World

QUIET = Bounds(crashes=0, pauses=0, duplicates=0, losses=0, doubts=0)
# Where a counterexample is looked for, the quietest world first. Leases run out in all of them.
WORLDS: tuple[Bounds, ...] = (
    replace(QUIET, cancels=1, fails=1, releases=2),
    replace(QUIET, doubts=1),
    replace(QUIET, crashes=1, losses=1),
    replace(QUIET, pauses=1),
    replace(QUIET, fails=1, redrives=1),
    replace(QUIET, jobs=2, twins=True),
    Bounds(),
)
EVERYTHING = Bounds(copies=1, cancels=1, fails=1, releases=1)
FULL = Bounds(jobs=2, copies=1, cancels=1, fails=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """One kind of world. `worlds` are where counterexamples are looked for, quietest first.

    `test` and `full` are what is explored: within seconds, and within minutes.
    """

    name: str
    about: str
    actions: Mapping[str, ActionSpec]
    properties: Mapping[str, str]
    protections: Mapping[str, Protection]
    courtesies: Mapping[str, str]
    worlds: Sequence[Any]
    test: Sequence[Any]
    full: Sequence[Any]
    build: Callable[[Any, tuple[str, ...]], World[Any]]
    search: Callable[[Any, bool], Search]

    def knows(self, names: Sequence[str]) -> bool:
        """Whether all of these protections are of this world."""
        return set(names) <= {*self.protections, *self.courtesies}


JOBS = Family(
    name="jobs",
    about="jobs, leases, fences, messages and workers",
    actions=ACTIONS,
    properties=PROPERTIES,
    protections=PROTECTIONS,
    courtesies=COURTESIES,
    worlds=WORLDS,
    test=(EVERYTHING,),
    full=(FULL,),
    build=lambda bounds, removed: Model(bounds, without(*removed)),
    search=lambda world, reduce: Explorer(world, reduce=reduce),
)
LOCKS = Family(
    name="locks",
    about="jobs with business locks: holders, waiters, reservations, wake-ups",
    actions=of_locks.ACTIONS,
    properties=LOCK_PROPERTIES,
    protections=LOCK_PROTECTIONS,
    courtesies={},
    worlds=lock_bounds.WORLDS,
    test=lock_bounds.TEST,
    full=lock_bounds.FULL,
    build=LockModel,
    search=lambda world, reduce: Sweep(world, reduce=reduce),
)
GROUPS = Family(
    name="groups",
    about="a group: its children, its counter, its join",
    actions=of_groups.ACTIONS,
    properties=GROUP_PROPERTIES,
    protections=GROUP_PROTECTIONS,
    courtesies={},
    worlds=group_bounds.WORLDS,
    test=group_bounds.TEST,
    full=group_bounds.FULL,
    build=GroupModel,
    search=lambda world, reduce: Sweep(world, reduce=reduce),
)
FAMILIES: dict[str, Family] = {family.name: family for family in (JOBS, LOCKS, GROUPS)}


def family_of(names: Sequence[str]) -> Family:
    """The first world that knows all of these protections. ValueError when there is none."""
    for family in FAMILIES.values():
        if family.knows(names):
            return family
    raise ValueError(f"no such protection: {', '.join(names)}")
