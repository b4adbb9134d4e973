"""docs/examples.md: a command and its answer for every route, in an order that can be followed.

The page is made by running it: each command, as it is printed, against real processes and the
sample company. `CHOT_TEST_WRITE_EXAMPLES=1 python -m pytest tests/journeys/test_examples.py` writes
it anew.
"""

import json
import re
import shlex
from collections.abc import Mapping
from typing import Any

import httpx

from dev.stack_cli import SAMPLE_MOVEMENTS
from tests.factories import eventually
from tests.journeys.cost_examples import COST_STEPS
from tests.journeys.document_examples import DOCUMENT_STEPS
from tests.journeys.example_step import AUTH, TYPED, Step
from tests.journeys.file_examples import FILE_STEPS
from tests.journeys.group_examples import GROUP_STEPS
from tests.journeys.ledger_examples import LEDGER_STEPS
from tests.journeys.migration_examples import MIGRATION_STEPS
from tests.journeys.period_examples import PERIOD_STEPS

MOVEMENTS = 2_000
HEAD = f"""# Examples: every route

A command and its answer for each route, in an order that can be followed on the sample company of `chot dev`, with the two variables that it prints. All of them were run to make this page, and
are run again by `tests/journeys/test_examples.py`: what is not true any more fails there. They were run on the sample company with {MOVEMENTS:,} movements instead of the {SAMPLE_MOVEMENTS:,} of `chot dev`: numbers of
items and movements, amounts and checksums are other ones for you, as are ids, instants, versions and host names. Long answers are cut at `…`.
`/docs` of a running api describes every member, [http.md](http.md) what clients may rely on. Each command but those of health sends `-H "Authorization: Bearer $CHOT_TOKEN"`.
"""
SHOWN_HEADERS = ("location", "retry-after", "idempotency-replayed", "content-type")
FILE_HEADERS = ("content-length", "content-disposition", "etag")  # of files only


JANUARY = (
    '{"kind": "costing.run", "company": "SAMPLE", "brand": "LUA", "payload": {"period": "2026-01"}}'
)
SUBMIT = f"""curl "$CHOT_API_URL/v1/jobs" {TYPED} \\
     -H 'Idempotency-Key: "january of LUA"' \\
     -d '{JANUARY}'"""
BATCH = f"""curl "$CHOT_API_URL/v1/jobs:batch" {TYPED} \\
     -H 'Idempotency-Key: "night of the 31st"' \\
     -d '{{"jobs": [
           {{"kind": "costing.run", "company": "SAMPLE", "brand": "NHA", "payload": {{"period": "2026-01"}},
            "run_at": "2199-01-01T02:00:00+07:00"}},
           {{"kind": "costing.run", "company": "SAMPLE", "brand": "NHA", "payload": {{"period": "2026-01"}}}},
           {{"kind": "costing.run", "company": "SAMPLE", "brand": "SUN", "payload": {{"period": "2026-01"}}}}]}}'"""
UNKNOWN_PERIOD = '{"kind": "costing.run", "company": "SAMPLE", "payload": {"period": "2031-01"}}'
STEPS: tuple[Step, ...] = (
    Step(
        route="GET /healthz",
        says="The process serves. For a load balancer's liveness; it asks nobody.",
        command='curl "$CHOT_API_URL/healthz"',
    ),
    Step(
        route="GET /readyz",
        says="A job can be taken now.",
        command='curl "$CHOT_API_URL/readyz"',
    ),
    Step(
        route="POST /v1/jobs",
        says="Submit a job: 202, and where to look.",
        command=SUBMIT,
        captures={"JOB": ["id"]},
    ),
    Step(
        route="POST /v1/jobs",
        says="The same request again, because an answer was lost: the same bytes, and one job.",
        command=SUBMIT,
    ),
    Step(
        route="GET /v1/jobs/{job_id}",
        says="Wait for its end, up to 20 seconds; ask again while there is a `Retry-After`.",
        command=f'curl "$CHOT_API_URL/v1/jobs/$JOB?wait=20" {AUTH}',
        until=("JOB", "state", "succeeded"),
        lines=75,
    ),
    Step(
        route="GET /v1/jobs/{job_id}/events",
        says="Follow it instead (`curl -N`); of a job that has ended there is one event, its end.",
        command=f'curl -N "$CHOT_API_URL/v1/jobs/$JOB/events" {AUTH}',
        lines=5,
    ),
    Step(
        route="GET /v1/jobs",
        says="Look for jobs: states, kind, company, brand, account, time of submission.",
        command=(
            'curl "$CHOT_API_URL/v1/jobs?state=succeeded,dead&kind=costing.run&brand=LUA'
            f'&created_from=2026-01-01T00:00:00%2B07:00&limit=1" {AUTH}'
        ),
        lines=22,
    ),
    Step(
        route="POST /v1/jobs:batch",
        says="Many at once: a new job, the same work again, and a brand that is none.",
        command=BATCH,
        captures={"LATER": ["jobs", 0, "job", "id"]},
        lines=75,
    ),
    Step(
        route="GET /v1/jobs/{job_id}/why",
        says="Why does it not run?",
        command=f'curl "$CHOT_API_URL/v1/jobs/$LATER/why" {AUTH}',
    ),
    Step(
        route="POST /v1/jobs/{job_id}/cancel",
        says="Cancel it: after this answer no effect of it commits.",
        command=f'curl -X POST "$CHOT_API_URL/v1/jobs/$LATER/cancel" {AUTH}',
        lines=12,
    ),
    Step(
        route="POST /v1/jobs",
        says="A job that will die: there is no such period.",
        command=f"curl \"$CHOT_API_URL/v1/jobs\" {TYPED} \\\n     -d '{UNKNOWN_PERIOD}'",
        captures={"DEAD": ["id"]},
    ),
    Step(
        route="GET /v1/jobs/{job_id}",
        says="Wait until it has died.",
        command=f'curl "$CHOT_API_URL/v1/jobs/$DEAD?wait=20" {AUTH}',
        until=("DEAD", "cleanup_pending", False),
        lines=8,
    ),
    Step(
        route="GET /v1/dead-letters",
        says="What has died, with the error that buried it.",
        command=f'curl "$CHOT_API_URL/v1/dead-letters?kind=costing.run" {AUTH}',
    ),
    Step(
        route="GET /v1/dead-letters/causes",
        says="The same, counted by what they died of: a redrive takes a `cause`, too.",
        command=f'curl "$CHOT_API_URL/v1/dead-letters/causes" {AUTH}',
    ),
    Step(
        route="POST /v1/queues/{queue}/pause",
        says="Stop claims of a queue, say while somebody repairs what the jobs need.",
        command=f'curl -X POST "$CHOT_API_URL/v1/queues/costing/pause" {AUTH}',
    ),
    Step(
        route="POST /v1/approvals",
        says="Approve a redrive that another account will ask for (where `CHOT_APPROVALS` wants it).",
        command=(
            f'curl "$CHOT_API_URL/v1/approvals" {TYPED} \\\n'
            '     -d "{\\"action\\": \\"job.redrive\\", \\"target\\": \\"$DEAD\\", '
            '\\"reason\\": \\"the period is opened\\"}"'
        ),
    ),
    Step(
        route="POST /v1/jobs/{job_id}/redrive",
        says=(
            "Put the dead job back to pending, with a fresh budget and its history. What its "
            "attempts left is removed first; until then the answer is 409 with `Retry-After`, and "
            "`--retry` asks again."
        ),
        command=(
            'curl -f --retry 12 --retry-all-errors -X POST "$CHOT_API_URL/v1/jobs/$DEAD/redrive" '
            f"\\\n     {AUTH}"
        ),
    ),
    Step(
        route="POST /v1/dead-letters/redrive",
        says="All dead jobs of a kind; by now there is none.",
        command=(
            f'curl "$CHOT_API_URL/v1/dead-letters/redrive" {TYPED} \\\n'
            '     -d \'{"kind": "costing.run"}\''
        ),
    ),
    Step(
        route="GET /v1/queues",
        says="How much waits, and for how long.",
        command=f'curl "$CHOT_API_URL/v1/queues" {AUTH}',
    ),
    Step(
        route="POST /v1/queues/{queue}/resume",
        says="Let its jobs be claimed again.",
        command=f'curl -X POST "$CHOT_API_URL/v1/queues/costing/resume" {AUTH}',
    ),
    Step(
        route="PUT /v1/queues/{queue}/weights",
        says="Let a brand send three messages of each round where the others send one.",
        command=(
            f'curl -X PUT "$CHOT_API_URL/v1/queues/costing/weights" {TYPED} \\\n'
            '     -d \'{"weights": [{"company": "SAMPLE", "brand": "LUA", "weight": 3}]}\''
        ),
    ),
    Step(
        route="POST /v1/kinds/{kind}/pause",
        says="Stop claims of one kind, whatever its queue.",
        command=f'curl -X POST "$CHOT_API_URL/v1/kinds/costing.run/pause" {AUTH}',
    ),
    Step(
        route="GET /v1/kinds",
        says="Which kinds there are, and how much of each runs.",
        command=f'curl "$CHOT_API_URL/v1/kinds" {AUTH}',
    ),
    Step(
        route="POST /v1/kinds/{kind}/resume",
        says="Let its jobs be claimed again.",
        command=f'curl -X POST "$CHOT_API_URL/v1/kinds/costing.run/resume" {AUTH}',
    ),
    Step(
        route="POST /v1/books/freeze",
        says="Nothing that writes this brand's books is to start.",
        command=(
            f'curl "$CHOT_API_URL/v1/books/freeze" {TYPED} \\\n'
            '     -d \'{"company": "SAMPLE", "brand": "LUA", "reason": "closing January"}\''
        ),
    ),
    Step(
        route="GET /v1/freezes",
        says="Whose books are frozen, by whom, and why.",
        command=f'curl "$CHOT_API_URL/v1/freezes" {AUTH}',
    ),
    Step(
        route="POST /v1/books/thaw",
        says="Let those jobs be claimed again.",
        command=(
            f'curl "$CHOT_API_URL/v1/books/thaw" {TYPED} \\\n'
            '     -d \'{"company": "SAMPLE", "brand": "LUA"}\''
        ),
    ),
    Step(
        route="PUT /v1/limits",
        says="At most two costings of this brand at once.",
        command=(
            f'curl -X PUT "$CHOT_API_URL/v1/limits" {TYPED} \\\n'
            '     -d \'{"kind": "costing.run", "company": "SAMPLE", "brand": "LUA",'
            ' "max_running": 2}\''
        ),
    ),
    Step(
        route="GET /v1/limits",
        says="How much may run at once, and does.",
        command=f'curl "$CHOT_API_URL/v1/limits" {AUTH}',
    ),
    Step(
        route="DELETE /v1/limits",
        says="As many as there is room for again.",
        command=(
            "curl -X DELETE "
            f'"$CHOT_API_URL/v1/limits?kind=costing.run&company=SAMPLE&brand=LUA" {AUTH}'
        ),
    ),
    Step(
        route="PUT /v1/costing-methods",
        says="From the new fiscal year on this item is costed first in, first out.",
        command=(
            f'curl -X PUT "$CHOT_API_URL/v1/costing-methods" {TYPED} \\\n'
            '     -d \'{"company": "SAMPLE", "item": "LUA0001", "method": "fifo",'
            ' "valid_from": "2027-01-01"}\''
        ),
    ),
    Step(
        route="GET /v1/costing-methods",
        says="How it is costed, and who decided it.",
        command=f'curl "$CHOT_API_URL/v1/costing-methods?company=SAMPLE&item=LUA0001" {AUTH}',
    ),
    *COST_STEPS,
    *FILE_STEPS,
    *GROUP_STEPS,
    *PERIOD_STEPS,
    *DOCUMENT_STEPS,
    *LEDGER_STEPS,
    *MIGRATION_STEPS,
    Step(
        route="GET /v1/workers",
        says="Who works, on what.",
        command=f'curl "$CHOT_API_URL/v1/workers" {AUTH}',
        lines=12,
    ),
    Step(
        route="GET /v1/alerts",
        says="What calls the one on call now, and by which way he is told.",
        command=f'curl "$CHOT_API_URL/v1/alerts?resolved=true" {AUTH}',
        lines=12,
    ),
    Step(
        route="POST /v1/alerts/silence",
        says="Nobody is told of it for some hours; it is judged and shown meanwhile.",
        command=(
            f'curl "$CHOT_API_URL/v1/alerts/silence" {TYPED} \\\n'
            """  -d '{"rule": "dead_jobs", "hours": 4, "reason": "redriven tomorrow"}'"""
        ),
    ),
    Step(
        route="GET /v1/audit",
        says="Who did what, when, and from where.",
        command=f'curl "$CHOT_API_URL/v1/audit?action=queue.pause" {AUTH}',
    ),
    Step(
        route="GET /metrics",
        says="For Prometheus.",
        command=f'curl "$CHOT_API_URL/metrics" {AUTH}',
        lines=2,
    ),
    Step(
        route="GET /openapi.json",
        says="The description of all this, for tools.",
        command=f'curl "$CHOT_API_URL/openapi.json" {AUTH}',
        lines=6,
    ),
    Step(
        route="GET /docs",
        says="The same for people.",
        command=f'curl "$CHOT_API_URL/docs" {AUTH}',
        lines=2,
    ),
)


async def make_page(url: str, token: str) -> str:
    """Run every step; the page as it is to be printed."""
    variables = {"CHOT_API_URL": url, "CHOT_TOKEN": token}
    parts = [HEAD]
    async with httpx.AsyncClient(timeout=60) as client:
        for step in STEPS:
            if step.until is not None:
                await _until(client, variables, *step.until)
            answer = await _run(client, step.command, variables)
            assert answer.is_success, (step.route, answer.text)
            for name, path in step.captures.items():
                found: Any = answer.json()
                for part in path:
                    found = found[part]
                variables[name] = str(found)
            parts.append(_section(step, answer))
    return "\n".join(parts)


async def _until(
    client: httpx.AsyncClient, variables: Mapping[str, str], name: str, member: str, value: object
) -> None:
    address = f"{variables['CHOT_API_URL']}/v1/jobs/{variables[name]}"
    headers = {"Authorization": f"Bearer {variables['CHOT_TOKEN']}"}

    async def holds() -> bool:
        job = (await client.get(address, headers=headers)).json()
        return bool(job[member] == value and job["state"] not in {"pending", "running"})

    await eventually(holds, seconds=60)


async def _run(
    client: httpx.AsyncClient, command: str, variables: Mapping[str, str]
) -> httpx.Response:
    """The command as curl would run it."""
    words = [_expanded(word, variables) for word in _words(command)]
    assert words.pop(0) == "curl"
    method, headers, url, body = "", {}, "", None
    while words:
        word = words.pop(0)
        if word == "-X":
            method = words.pop(0)
        elif word == "-H":
            name, _, value = words.pop(0).partition(": ")
            headers[name] = value
        elif word == "-d":
            body = words.pop(0)
        elif word == "-I":
            method = "HEAD"
        elif word == "--retry":
            words.pop(0)
        elif word not in {"-N", "-f", "--retry-all-errors"}:
            url = word
    method = method or ("GET" if body is None else "POST")
    return await client.request(method, url, headers=headers, content=body)


def _words(command: str) -> list[str]:
    """As a shell splits it; `$` in single quotes is kept from expansion."""
    kept = re.sub(r"'[^']*'", lambda quoted: quoted.group().replace("$", "\0"), command)
    return shlex.split(kept.replace("\\\n", " "))


def _expanded(word: str, variables: Mapping[str, str]) -> str:
    said = re.sub(r"\$([A-Z_]+)", lambda name: variables[name.group(1)], word)
    return said.replace("\0", "$")


def _section(step: Step, answer: httpx.Response) -> str:
    shell = f"{step.command}\n"
    for name, path in step.captures.items():
        where = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
        shell += f"{name}=…   # {where.lstrip('.')} of the answer\n"
    return (
        f"## `{step.route}`\n\n{step.says}\n\n```sh\n{shell}```\n```\n{_shown(step, answer)}```\n"
    )


def _shown(step: Step, answer: httpx.Response) -> str:
    lines = [f"HTTP {answer.status_code}"]
    names = (*SHOWN_HEADERS, *(FILE_HEADERS if FILE_HEADERS[1] in answer.headers else ()))
    lines += [f"{name.title()}: {answer.headers[name]}" for name in names if name in answer.headers]
    if "json" in answer.headers["content-type"]:
        body = json.dumps(answer.json(), ensure_ascii=False, indent=2)
    else:
        body = answer.text
    told = body.strip().splitlines()
    if len(told) > step.lines:
        told = [*told[: step.lines], "…"]
    return (
        "\n".join([*lines, "", *(line if len(line) <= 160 else f"{line[:159]}…" for line in told)])
        + "\n"
    )


VOLATILE = (
    (re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"), "ID"),
    (re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)"), "INSTANT"),
    (re.compile(r'("(worker_id|host|source|code_version|version|key_id|pid)": ).*'), r"\1VALUE"),
    (re.compile(r'("(oldest_due_seconds|rate|seconds\w*|\w+_seconds)": )[\d.]+'), r"\1NUMBER"),
    (re.compile(r"(?m)^(Retry-After: |retry: |id: ).*"), r"\1VALUE"),
    (re.compile(r"\d+\.\d+ s|in \d+ days"), "SPAN"),
    (re.compile(r"\w+\.py:\d+"), "PLACE"),
    (re.compile(r"/v1/cost-runs/\d+"), "/v1/cost-runs/NUMBER"),
    (re.compile(r"-run\d+-"), "-runN-"),
    (re.compile(r'("snapshot": ").*"'), r"\1SNAPSHOT\""),
    (re.compile(r'("(id|run_id)": )"?\d+"?'), r"\1NUMBER"),
    (re.compile(r'("hash": ")[0-9a-f]*'), r"\1HASH"),
    (re.compile(r'("(entry_id|document_id)": )\d+'), r"\1NUMBER"),
    (re.compile(r"/v1/ledger/entries/\d+"), "/v1/ledger/entries/NUMBER"),
    (re.compile(r'("(free_slots|working|window_\w+|ahead\w*|staged|running)": )\d+'), r"\1NUMBER"),
)


def without_what_varies(page: str) -> str:
    """The page with ids, instants and the like replaced, so that two runs are the same."""
    for pattern, instead in VOLATILE:
        page = pattern.sub(instead, page)
    return page
