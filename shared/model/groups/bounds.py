"""Bounds: the worlds of groups that are explored, and where counterexamples are looked for."""

from dataclasses import replace

from shared.model.groups.state import GroupBounds

TWO = GroupBounds()
WORLDS = (
    replace(TWO, appended=1),
    replace(TWO, fails=1, policy="fail_fast"),
    replace(TWO, fails=1, losses=1, policy="join"),
    replace(TWO, crashes=1, buries=1),
    replace(TWO, stops=1),
    replace(TWO, cancels=1, group_cancels=1),
    replace(TWO, appended=1, spawns=1, expiries=1),
    replace(TWO, fails=1, redrives=1, policy="join"),
    replace(TWO, fails=2, redrives=1, child_redrives=1),
)
TEST = (
    replace(TWO, appended=1, crashes=1, buries=1, losses=1, cancels=1),
    replace(TWO, fails=1, group_cancels=1, redrives=1, policy="fail_fast", stops=1),
    replace(TWO, appended=1, spawns=1, sealed=True, crashes=1, expiries=1, policy="join", fails=1),
    replace(TWO, fails=2, redrives=1, child_redrives=1, crashes=1),
    GroupBounds(children=3, appended=2, crashes=1),
)
FULL = (
    GroupBounds(
        children=3, appended=1, crashes=1, buries=1, fails=1, losses=1, cancels=1, stops=1
    ),
    GroupBounds(
        children=3, appended=2, fails=1, group_cancels=1, redrives=1, policy="fail_fast",
        stops=1, expiries=1,
    ),
    GroupBounds(
        children=3, appended=1, spawns=1, sealed=True, crashes=1, expiries=1, stops=1,
        policy="join", redrives=1, fails=1,
    ),
    GroupBounds(
        children=3, appended=2, fails=2, redrives=1, child_redrives=1, crashes=1, cancels=1
    ),
    GroupBounds(children=3, appended=2, workers=3, crashes=1, expiries=1, group_cancels=1),
)  # fmt: skip
