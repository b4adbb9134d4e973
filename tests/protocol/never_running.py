"""A kind that nobody may load: none of it may ever run."""

from datetime import timedelta

from shared.kinds import Kind, Payload

KINDS = (Kind(name="probe.never", payload=Payload, timeout=timedelta(seconds=1), max_running=0),)
