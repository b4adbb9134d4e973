"""Server-sent events, as the HTML standard has them: bytes become lines, lines become events."""

import codecs
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass

# These and no others: a job's own text may hold what str.splitlines takes for an end, too.
LINE_END = re.compile("\r\n|\r|\n")


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One event: its id (that of an earlier one where it has none of its own), name and data."""

    id: str
    name: str
    data: str


async def read_lines(chunks: AsyncIterator[bytes]) -> AsyncIterator[str]:
    """The lines of a stream, wherever its chunks were cut; one that has no end is none."""
    decoder = codecs.getincrementaldecoder("utf-8-sig")("replace")
    rest, after_cr = "", False
    async for chunk in chunks:
        said = decoder.decode(chunk)
        if not said:
            continue
        # The end of a line was told by its first half already.
        said = said.removeprefix("\n") if after_cr else said
        after_cr = said.endswith("\r")
        *lines, rest = LINE_END.split(rest + said)
        for line in lines:
            yield line


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
