"""The next release's kinds: the note has a member more, with a default, and a rule is tighter."""

from dataclasses import replace

from pydantic import Field

from tests.protocol.api import kinds


class LaterNote(kinds.Note):
    """A note as the next release knows it."""

    note: str | None = Field(None, max_length=10)
    colour: str = "red"


KINDS = (replace(kinds.KINDS[0], payload=LaterNote), *kinds.KINDS[1:])
