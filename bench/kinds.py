"""Kinds that the bench submits, declared as any outside team would declare its own."""

from datetime import timedelta

from shared.kinds import Kind, Payload

NOOP = "bench.noop"
EFFECT = "bench.effect"
HOLD = "bench.hold"
OPEN = "bench.open"
STAMP = "bench.stamp"


class Numbered(Payload):
    """A number that makes each job different work."""

    number: int


class Held(Numbered):
    """How long the first attempt goes on; the next one ends at once."""

    seconds: float


class Stamped(Numbered):
    """Where the handler says that it has started: a UDP port of 127.0.0.1."""

    port: int


def _kind(name: str, payload: type[Payload]) -> Kind:
    return Kind(
        name=name, payload=payload, timeout=timedelta(minutes=30), fingerprint_fields=("number",)
    )


KINDS = (
    _kind(NOOP, Numbered),
    _kind(EFFECT, Numbered),
    _kind(HOLD, Held),
    _kind(OPEN, Held),
    _kind(STAMP, Stamped),
)
