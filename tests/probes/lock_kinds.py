"""Probe kinds with business locks, of whatever root, part and periods the payload says."""

from datetime import timedelta

from shared.kinds import Kind, Lock
from tests.probes.kinds import FAST, Scoped, Write


class Locked(Write):
    """Write effects under a lock."""

    root: str
    part: str | None = None
    start: str | None = None
    end: str | None = None


class LockedTwice(Locked):
    """Write effects under two locks."""

    other: str


class LockedParts(Scoped):
    """A payload to merge, whose list of parts is locked."""

    root: str
    parts: list[str] = []  # noqa: RUF012 - pydantic copies it


ROOT, PART = "{payload.root}", "{payload.part}"
FROM, TO = "{payload.start}", "{payload.end}"
OF_PARTS = (Lock(root="{company}/{payload.root}", part="{payload.parts}"),)
_SHARED = Lock(root=ROOT, part=PART, mode="shared", period_from=FROM, period_to=TO)
_EXCLUSIVE = Lock(root=ROOT, part=PART, period_from=FROM, period_to=TO)


def _kind(name: str, payload: type[Write], *locks: Lock) -> Kind:
    return Kind(
        name=name,
        payload=payload,
        timeout=timedelta(seconds=120),
        retry=FAST,
        fingerprint_fields=("number",),
        locks=locks,
    )


KINDS = (
    _kind("locked.write", Locked, _EXCLUSIVE),
    _kind("locked.read", Locked, _SHARED),
    _kind("locked.both", LockedTwice, _EXCLUSIVE, Lock(root="{payload.other}", mode="shared")),
    _kind("locked.two", LockedTwice, _EXCLUSIVE, Lock(root="{payload.other}")),
    Kind(
        name="locked.merge",
        payload=LockedParts,
        timeout=timedelta(seconds=60),
        fingerprint_fields=("number",),
        on_duplicate="merge",
        locks=OF_PARTS,
    ),
    Kind(
        name="locked.follow",
        payload=LockedParts,
        timeout=timedelta(seconds=60),
        fingerprint_fields=("number",),
        on_duplicate="follow_up",
        locks=OF_PARTS,
    ),
)
