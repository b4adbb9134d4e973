"""Problem documents (RFC 9457) as something a person can act on: field, value, rule, what next."""

from typing import Any

WHAT_NEXT = {
    401: "Set CHOT_TOKEN to a key of this api; `chot keys create` makes one.",
    403: "The key is known, but lacks the right; `chot keys list` shows what it may do.",
    404: "`chot list` shows what there is.",
    413: "Send less: put the data into a table or file and its name into the payload.",
    429: "Wait, then try again; `chot list --state pending` shows what waits already.",
    500: "This is a bug in the api; its log has the details under the same time.",
    503: "The api runs, but its database is out of reach; `--retry-for` waits longer.",
}


def sentence_of(status: int, problem: dict[str, Any]) -> str:
    """Say what was refused and why, a line a field, and what to do next where that is known."""
    title = str(problem.get("title") or f"HTTP {status}")
    fields = [_field_line(item) for item in _field_errors(problem)]
    detail = problem.get("detail")
    if detail and not fields:  # with fields it would say the first one twice
        title = f"{title}: {detail}"
    lines = [title, *fields]
    says_it_itself = str(problem.get("type")).endswith("/approval-required")
    if status in WHAT_NEXT and not says_it_itself:
        lines.append(WHAT_NEXT[status])
    return "\n".join(lines)


def _field_errors(problem: dict[str, Any]) -> list[dict[str, Any]]:
    listed = problem.get("errors")
    if isinstance(listed, list):
        return [item for item in listed if isinstance(item, dict)]
    return [problem] if "field" in problem else []


def _field_line(item: dict[str, Any]) -> str:
    field = item.get("field") or item.get("pointer") or "body"
    shown = "" if item.get("value") is None else f" = {item['value']!r}"
    rule = item.get("rule") or item.get("message") or item.get("detail") or ""
    return f"{field}{shown}: {rule}".rstrip(": ")
