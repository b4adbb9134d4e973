"""What the api says in words of HTTP, for somebody who has this command line before him.

The api's own words stay as they are: whoever reads them there has no `chot`.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any


def _brand(brand: str | None) -> str:
    return "" if brand is None else f" --brand {brand}"


VERBS = {"rejects": "show", "resume": "resume"}
COMMANDS: Sequence[tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]]] = (
    (re.compile(r"POST /v1/queues/([^/\s]+)/resume\b"), r"`chot resume \1`"),
    (re.compile(r"POST /v1/kinds/([^/\s]+)/resume\b"), r"`chot resume --kind \1`"),
    (
        re.compile(r"(books of (?:brand (\S+) of )?company (\S+) .*)POST /v1/books/thaw\b"),
        lambda found: f"{found[1]}`chot thaw {found[3]}{_brand(found[2])}`",
    ),
    (re.compile(r"POST /v1/books/thaw\b"), "`chot thaw`"),
    (re.compile(r"POST /v1/groups/([^/\s]+)/(seal|redrive)\b"), r"`chot group \2 \1`"),
    (
        re.compile(r"(?:GET|POST) /v1/migrations/([^/\s]+)/(rejects|resume)\b"),
        lambda found: f"`chot migrations {VERBS[found[2]]} {found[1]}`",
    ),
    (re.compile(r"POST /v1/jobs/([^/\s]+)/redrive\b"), r"`chot redrive \1`"),
    (re.compile(r"GET /v1/jobs/([0-9A-Za-z-]+)"), r"`chot status \1`"),
    (re.compile(r"GET /v1/ledger/(control|accounts|roles|rules)\b"), r"`chot ledger \1`"),
    (re.compile(r"^POST /v1/jobs with priority"), "a submit with priority"),
    (re.compile(r"^(GET|POST|PUT|DELETE) /v1/\S+ asks for"), "this asks for"),
)
# Why an approval did not count, by the problem's own code.
NOT_COUNTED = {
    "unknown": "no approval of this act on this target has that id",
    "used": "that approval has been used, and one is good for one act",
    "expired": "that approval has expired",
    "own": "that approval is your own account's; it must be another account's",
}


def in_commands(sentence: str) -> str:
    """The sentence with commands in the place of requests."""
    for pattern, command in COMMANDS:
        sentence = pattern.sub(command, sentence)
    return sentence


def approval_advice(action: str, target: str) -> str:
    """How another account's approval is had and used."""
    if action == "posting.unpost":
        return (
            "another account with role operate runs the same `chot unpost …` with --approve, then "
            "`chot unpost … --approval …` with the id that it prints"
        )
    what = target
    if action.startswith("period."):
        company, _, period = target.rpartition("/")
        why = " --reason …" if action == "period.reopen" else ""
        what = f"{period} --company {company}{why}"
    verb = action.replace("job.", "").replace(".", " ")
    return (
        f"another account with role operate runs `chot approve {action} {target}`, then "
        f"`chot {verb} {what} --approval …` with the id that it prints"
    )


def approval_required(problem: Mapping[str, Any]) -> str:
    """A problem of that type, in the words of this command line."""
    advice = approval_advice(str(problem.get("action")), str(problem.get("target")))
    why = NOT_COUNTED.get(str(problem.get("reason")))
    return f"{why}: {advice}" if why else advice
