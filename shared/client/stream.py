"""Server-sent events, as the HTML standard has them: lines become events."""

from collections.abc import AsyncIterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One event: its id (that of an earlier one where it has none of its own), name and data."""

    id: str
    name: str
    data: str


async def read_messages(lines: AsyncIterator[str], *, last_id: str = "") -> AsyncIterator[Message]:
    """The events of a stream; comments and what has no data are passed over.

    An event that the stream ends within is none.
    """
    name, data = "", list[str]()
    async for line in lines:
        if not line:
            if data:
                yield Message(id=last_id, name=name or "message", data="\n".join(data))
            name, data = "", list[str]()
            continue
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if field == "data":
            data.append(value)
        elif field == "event":
            name = value
        elif field == "id" and "\x00" not in value:
            last_id = value
