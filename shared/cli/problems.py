"""Problem documents (RFC 9457) as something a person can act on: field, value, rule, what next."""

import json
from typing import Any

from shared.cli.words import approval_required, in_commands

WHAT_NEXT = {
    401: "Set CHOT_TOKEN to a key of this api; its operators make them (`chot keys create`).",
    403: "The key is known, but lacks the right; whoever makes the keys here can make one with it.",
    413: "Send less: put the data into a table or file and its name into the payload.",
    429: "Wait, then try again; `chot list --state pending` shows what waits already.",
    500: "This is a bug in the api; its log has the details under the same time.",
    503: "The api runs, but its database is out of reach; `--retry-for` waits longer.",
}


# Of a type of problem, where its status says too little.
NEXT_OF_TYPE = {
    "job-not-found": "`chot list` shows the jobs that this key may see.",
    "queue-not-found": "`chot queues` shows the queues there are.",
    "group-not-found": "`chot group open` answers the id of a group; this key may not see it.",
    "period-not-found": "`chot periods --company …` shows the periods there are.",
    "cost-run-not-found": "`chot cost-runs list --company …` shows the runs there are.",
    "cost-run-gone": "`chot costs` shows what holds now, `chot cost-runs list` the runs.",
    "kind-not-found": "`chot kinds` shows the kinds there are.",
    "alert-rule-not-found": "`chot alerts list` shows the rules there are.",
    "not-found": "Is CHOT_API_URL the address of a Chốt api of this version, without /v1?",
    "approval-required": "",  # says it itself
}
JSON_TYPES = {
    bool: "true or false",
    int: "a number",
    float: "a number",
    list: "a list",
    dict: "an object",
}


def sentence_of(status: int, problem: dict[str, Any]) -> str:
    """Say what was refused and why, a line a field, and what to do next where that is known."""
    title = str(problem.get("title") or f"HTTP {status}")
    fields = [_field_line(item) for item in _field_errors(problem)]
    kind = str(problem.get("type") or "").rpartition("/")[2]
    detail = in_commands(str(problem.get("detail") or ""))
    if kind == "approval-required":
        detail = approval_required(problem)
    if detail and not fields:  # with fields it would say the first one twice
        title = f"{title}: {detail}"
    lines = [title, *fields]
    following = NEXT_OF_TYPE.get(kind, WHAT_NEXT.get(status))
    if following:
        lines.append(following)
    return "\n".join(lines)


def _field_errors(problem: dict[str, Any]) -> list[dict[str, Any]]:
    listed = problem.get("errors")
    if isinstance(listed, list):
        return [item for item in listed if isinstance(item, dict)]
    return [problem] if "field" in problem else []


def _field_line(item: dict[str, Any]) -> str:
    field = item.get("field") or item.get("pointer") or "body"
    rule = item.get("rule") or item.get("message") or item.get("detail") or ""
    return f"{field}{_shown(item.get('value'), str(rule))}: {rule}".rstrip(": ")


def _shown(value: Any, rule: str) -> str:
    """The value as it was sent. Where a text was wanted it was none: its own type is the fault."""
    if value is None:
        return ""
    if rule.startswith("must be a string"):
        return f" = {value}{_type_words(str(value))}"
    return f" = {value!r}"


def _type_words(said: str) -> str:
    if said.startswith(("[", "{")):  # maybe shortened
        return f" ({JSON_TYPES[list if said.startswith('[') else dict]})"
    try:
        name = JSON_TYPES.get(type(json.loads(said)))
    except ValueError:
        return ""
    return f" ({name})" if name else ""
