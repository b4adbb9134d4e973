"""A kind that nobody may load: it would hold for minutes what is kept for seconds."""

from datetime import timedelta

from shared.kinds import Kind, Payload

KINDS = (
    Kind(
        name="probe.slow_ask",
        payload=Payload,
        timeout=timedelta(seconds=61),
        queue="interactive",
    ),
)
