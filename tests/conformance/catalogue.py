"""The cases of Idempotency-Key: what is asked, and what this api does."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One case; `K` is a valid key, `B` a body."""

    id: str
    asked: str
    done: str


def _case(number: str, asked: str, done: str) -> Case:
    return Case(id=number, asked=asked, done=done)


CASES = (
    _case(
        "C01",
        "no header, and a key is required (`CHOT_IDEMPOTENCY_REQUIRED`)",
        "400 `missing-idempotency-key`, nothing written; the OpenAPI document says `required`",
    ),
    _case("C02", 'the header is there and empty, or `""`', "400 `malformed-idempotency-key`"),
    _case(
        "C03",
        "K quoted, for the first time",
        "202, `Location`, `Retry-After`, `status_url`; one job, one message; no `Idempotency-Replayed`",
    ),
    _case(
        "C04",
        "the same again",
        "same status, bytes and `Location`, `Idempotency-Replayed: true`; still one job and message",
    ),
    _case("C05", "K bare after K quoted", "the same key: replay"),
    _case("C06", "two header lines, or a list", "400 `malformed-idempotency-key`"),
    _case(
        "C07",
        "a control character, a letter beyond ASCII, a bad escape",
        "400, also while the database is away: it is not asked",
    ),
    _case(
        "C08",
        "255 characters; 256",
        "accepted and compared to the last; 400 (nothing is cut)",
    ),
    _case("C09", 'parameters: `"k";a=1`', "the key is `k`"),
    _case("C10", "same K, other white space and order of members", "replay"),
    _case(
        "C11",
        "same K, `1.0` for `1`; é decomposed; `null` for an absent member",
        "each is another request: 422 `idempotency-key-reused`",
    ),
    _case("C12", "same K, one value differs", "422, the stored answer stays, no second job"),
    _case(
        "C13",
        "same K on another route that takes keys; with another method",
        "422; 405, as for anybody",
    ),
    _case("C14", "same K, a member is there twice", "400 `malformed-json`, no replay"),
    _case(
        "C15",
        "same K and B from another account or company",
        "independent: its own answer and, in its own company, its own job",
    ),
    _case(
        "C16",
        "same account after it lost the right",
        "403 without the role; outside its brands as if nothing were there (422 `unknown-brand`); no replay",
    ),
    _case(
        "C17",
        "the API key was revoked in between",
        "401, no replay: at once, or within 5 s at a process that has just seen the key; the account's "
        "next key replays",
    ),
    _case(
        "C18",
        "50 identical requests at once over two processes, each repeated as `Retry-After` says",
        "one job; on the way only 202 and 409; in the end 50 times 202 with the same bytes",
    ),
    _case(
        "C19",
        "two at once, same K, other B",
        "one 202, the other 422 (at once or after a 409); one job",
    ),
    _case(
        "C20",
        "the first one is still in its transaction",
        "409 `idempotency-key-in-progress` at once, `Retry-After: 1`, whatever the body; then replay",
    ),
    _case(
        "C21",
        "the first one rolls back: deadlock, lost connection, kill",
        "the second, after its 409, executes as the first",
    ),
    _case(
        "C22",
        "SIGKILL of the api while it submits",
        "before the server has the statement: nothing is left, the retry is a new 202; after: the"
        " server ends it as a whole, the retry replays",
    ),
    _case(
        "C23",
        "SIGKILL after COMMIT, before the answer",
        "the retry replays; another process publishes the message",
    ),
    _case(
        "C24",
        "the connection to PostgreSQL is lost during COMMIT",
        "503; the retry tells the truth (replay or new), one job either way",
    ),
    _case("C25", "the client goes away", "the transaction ends as a whole; the retry replays"),
    _case(
        "C26", "PostgreSQL is away", "503 and `Retry-After`, nothing stored; the same K works later"
    ),
    _case(
        "C27",
        "an error of ours",
        "500, rolled back, not stored (unlike Stripe's v1 API): the same K may succeed later",
    ),
    _case("C28", "429, then the same K", "executes: a refused request has not touched its key"),
    _case("C29", "422, then a corrected body under the same K", "executes: 4xx are not stored"),
    _case(
        "C30",
        "K expired, not yet reaped, same B; several at once",
        "one new job, the record replaced in the same statement",
    ),
    _case("C31", "K expired, other B", "a new job, not 422"),
    _case(
        "C32",
        "the reaper deletes the row under a request that has met it",
        "the request writes a new one: 202, no 500",
    ),
    _case(
        "C33",
        "another key, the same work, which is active",
        "200, the same job, `created: false`; that key replays this answer from then on",
    ),
    _case(
        "C34",
        "K after its job ended, or was purged",
        "the 202 of then; the status is 200, and 404 after a purge",
    ),
    _case("C35", "another key, the same work, which has ended", "a new job"),
    _case(
        "C36",
        "the active twin ends between the INSERT that meets it and the look for it",
        "the submit starts again: the old job or one new, never a 5xx",
    ),
    _case(
        "C37",
        "a retry across a deploy that added a default or tightened a rule",
        "replay: what was sent is compared, not what a model makes of it",
    ),
    _case(
        "C38",
        "too large; another type or charset; gzip",
        "413; 415; the key is not used up",
    ),
    _case("C39", "a stored answer of more than 1 MiB, or beyond ASCII", "byte for byte"),
    _case("C40", "GET, PUT, DELETE, cancel with the header", "ignored, even where it is no key"),
    _case(
        "C41",
        "the status while active, after the end, of another tenant",
        "200 with `Retry-After`; 200 without; 404",
    ),
    _case(
        "C42",
        "errors",
        "`application/problem+json`, absolute `type`, `status` as the HTTP status, no stack trace",
    ),
    _case(
        "C43",
        "U+0000, lone surrogates, 10^400, 10,000 levels",
        "400 `malformed-json`, never 500; numbers of up to 100 digits are exact",
    ),
)


def marked_tests() -> Iterator[tuple[str, str]]:
    """(case, test) for every `@pytest.mark.case(…)`, the test as its path and name."""
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        source = path.read_text()
        if "mark.case(" in source:
            name = path.relative_to(ROOT / "tests").as_posix()
            for function in ast.walk(ast.parse(source)):
                if isinstance(function, ast.AsyncFunctionDef | ast.FunctionDef):
                    for case in _cases_of(function):
                        yield case, f"{name}::{function.name}"


def _cases_of(function: ast.AsyncFunctionDef | ast.FunctionDef) -> Iterator[str]:
    for decorator in function.decorator_list:
        if isinstance(decorator, ast.Call) and ast.unparse(decorator.func) == "pytest.mark.case":
            yield from (ast.literal_eval(each) for each in decorator.args)
