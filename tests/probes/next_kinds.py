"""The probe kinds as the next version of the code has them: a newer payload, and one kind more."""

from dataclasses import replace
from datetime import timedelta

from shared.kinds import Kind
from tests.probes.kinds import FAST, Write
from tests.probes.kinds import KINDS as KINDS_BEFORE


class WriteNext(Write):
    """What the version before refuses: a member that it does not know."""

    colour: str = ""


KINDS = (
    *(
        replace(each, payload=WriteNext, version=2) if each.name == "probe.write" else each
        for each in KINDS_BEFORE
    ),
    Kind(
        name="probe.fresh",
        payload=Write,
        timeout=timedelta(seconds=120),
        retry=FAST,
        fingerprint_fields=("number",),
    ),
)
