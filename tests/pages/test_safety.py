"""What holds for every page: its headers, its forms, its rights, and what no template may hold."""

import re
import tomllib
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from uuid import UUID

import httpx
import pytest
from fastapi.routing import iter_route_contexts
from sqlalchemy.ext.asyncio import AsyncEngine

from api.app import create_app
from api.headers import PAGE_POLICY
from api.rights import ANYBODY, PAGES, RULES, Rule
from api.settings import ApiSettings
from api.ui.paths import HOME
from api.ui.static_files import static_files, static_place
from shared.access import Role
from tests.factories import scalar
from tests.pages.browsing import log_in, text_of, token_in
from tests.protocol.api.app import serving
from tests.protocol.api.keys import BLUE, RED, make_key

UI = Path(__file__).parents[2] / "api/ui"
TEMPLATES = sorted((UI / "templates").glob("*.html"))
SCRIPTS = sorted((UI / "static").glob("*.js"))
# Role and reach that each page asks for; said here once more, so that a slip in the table shows.
READS = {
    path
    for method, path in PAGES
    if method == "GET" and path not in {"/ui", "/ui/login", "/ui/static/{name}"}
} - {"/ui/dead-letters"}
EVERYWHERE = {f"/ui/{each}/pause" for each in ("queues/{queue}", "kinds/{kind}")} | {
    f"/ui/{each}/resume" for each in ("queues/{queue}", "kinds/{kind}")
}
POSTS = sorted(path for method, path in PAGES if method == "POST")
NOBODY = str(UUID(int=0))


def filled(path: str) -> str:
    """An address of this form; nothing needs to be there."""
    named = {"{queue}": "default", "{kind}": "api.note", "{name}": "base.css"}
    for name, value in named.items():
        path = path.replace(name, value)
    numbered = re.sub(r"\{run_id\}", "1", path)
    return re.sub(r"\{\w+\}", NOBODY, numbered)


def test_every_page_has_a_rule_and_every_rule_a_page(settings: ApiSettings) -> None:
    """A page that nobody gave a rule is closed to everybody: it fails here first."""
    routes = {
        (method, str(route.path))
        for route in iter_route_contexts(create_app(settings).routes)
        for method in route.methods or ()
        if str(route.path).startswith("/ui")
    }
    assert routes == set(PAGES)
    assert set(PAGES).isdisjoint(RULES)
    posts = {path: rule for (method, path), rule in PAGES.items() if method == "POST"}
    assert {path for path, rule in posts.items() if rule is ANYBODY} == {"/ui/login", "/ui/logout"}
    assert {path for path, rule in posts.items() if rule.everywhere} >= EVERYWHERE
    for path in READS:
        assert PAGES["GET", path].role in {Role.READ, Role.OPERATE}, path


def lacks(rule: Rule, role: Role) -> bool:
    return rule.role is not None and role not in {rule.role, Role.ADMIN}


@pytest.mark.parametrize("role", Role)
async def test_every_page_for_every_role(
    visitor: httpx.AsyncClient, owner_engine: AsyncEngine, role: Role
) -> None:
    """Without the role a page says which one is missing, and does nothing."""
    await log_in(visitor, await make_key(owner_engine, role))
    for (method, path), rule in PAGES.items():
        if rule is ANYBODY or path.endswith(("/events", "/live")):
            continue
        answer = await visitor.request(method, filled(path), data={} if method == "POST" else None)
        where = f"{method} {path} as {role}"
        assert answer.status_code < 500, (where, text_of(answer.text))
        assert (f"role “{rule.role}”" in answer.text) == lacks(rule, role), where
        if lacks(rule, role):
            assert answer.status_code == 403, where


@pytest.mark.parametrize("scope", [RED, BLUE])
async def test_a_brands_operator_stops_no_queue(
    visitor: httpx.AsyncClient, owner_engine: AsyncEngine, engine: AsyncEngine, scope: Any
) -> None:
    """Half a queue cannot be paused: not offered, and refused with a form that is in order."""
    await log_in(visitor, await make_key(owner_engine, Role.READ, Role.OPERATE, scope=scope))
    page = await visitor.get(HOME)
    assert "/ui/queues/default/pause" not in page.text
    form = {"csrf": token_in(page.text)}
    for path in sorted(EVERYWHERE):
        assert (await visitor.post(filled(path), data=form)).status_code == 403, path
    assert await stopped(engine) == 0


async def stopped(engine: AsyncEngine) -> int:
    """How many queues and kinds are paused."""
    return int(
        await scalar(
            engine,
            """SELECT (SELECT count(*) FROM chot.queues WHERE paused)
                    + (SELECT count(*) FROM chot.kinds WHERE paused)""",
        )
    )


@pytest.mark.parametrize("path", [each for each in POSTS if each != "/ui/login"])
async def test_no_form_is_believed_but_ours(
    visitor: httpx.AsyncClient, owner_engine: AsyncEngine, engine: AsyncEngine, path: str
) -> None:
    """Without a token, with another session's, from another site: refused, and nothing is done."""
    other = await make_key(owner_engine, Role.ADMIN, principal="other")
    await log_in(visitor, other)
    foreign = token_in((await visitor.get(HOME)).text)
    visitor.cookies.clear()
    await log_in(visitor, await make_key(owner_engine, Role.ADMIN))
    good = token_in((await visitor.get(HOME)).text)
    acts = await scalar(engine, "SELECT count(*) FROM chot.audit")
    elsewhere = {"Origin": "https://evil.example"}
    tries: list[tuple[dict[str, str], dict[str, str]]] = [
        ({"x": "y"}, {}),
        ({"csrf": ""}, {}),
        ({"csrf": "0" * 64}, {}),
        ({"csrf": good[:-1]}, {}),
        ({"csrf": foreign}, {}),
        ({"csrf": good}, elsewhere),
        ({"csrf": good}, {"Sec-Fetch-Site": "cross-site"}),
        ({"csrf": good}, {"Sec-Fetch-Site": "same-site"}),
        ({"csrf": good}, {"Sec-Fetch-Site": "none"}),
    ]
    for data, headers in tries:
        answer = await visitor.post(filled(path), data=data, headers=headers)
        assert answer.status_code == 403, (data, headers, text_of(answer.text))
        assert "Nothing was done" in answer.text
    # A token in the address would be in logs and histories: it does not count.
    answer = await visitor.post(f"{filled(path)}?csrf={good}", data={"x": "y"})
    assert answer.status_code == 403
    for kind in ("application/json", "text/plain", "multipart/form-data; boundary=x"):
        answer = await visitor.post(
            filled(path), content=f"csrf={good}", headers={"Content-Type": kind}
        )
        assert answer.status_code == 415, kind
    assert await scalar(engine, "SELECT count(*) FROM chot.audit") == acts
    assert await stopped(engine) == 0


async def test_a_good_form_is_done_once_and_audited(
    visitor: httpx.AsyncClient, owner_engine: AsyncEngine, engine: AsyncEngine
) -> None:
    """Pause and resume by the overview: as the API does it, in the account's name."""
    await log_in(visitor, await make_key(owner_engine, Role.OPERATE, Role.READ, principal="night"))
    page = await visitor.get(HOME)
    form = {"csrf": token_in(page.text)}
    assert "/ui/queues/default/pause" in page.text
    done = await visitor.post("/ui/queues/default/pause", data=form)
    assert (done.status_code, done.headers["location"]) == (303, HOME)
    page = await visitor.get(HOME)
    assert "Queue default is paused." in page.text
    assert "Queue default is paused; pending in it: 0." in text_of(page.text)
    assert "Queue default is paused. " not in text_of((await visitor.get(HOME)).text)
    assert await stopped(engine) == 1
    assert (await visitor.post("/ui/queues/default/resume", data=form)).status_code == 303
    for act in ("pause", "resume"):
        assert (await visitor.post(f"/ui/kinds/api.note/{act}", data=form)).status_code == 303
    assert await stopped(engine) == 0
    rows = await scalar(
        engine,
        """SELECT array_agg(action || ' ' || target || ' ' || principal ORDER BY at, id)
             FROM chot.audit WHERE action LIKE '%.pause' OR action LIKE '%.resume'""",
    )
    assert rows == [
        "queue.pause default night",
        "queue.resume default night",
        "kind.pause api.note night",
        "kind.resume api.note night",
    ]
    missing = await visitor.post("/ui/queues/nowhere/pause", data=form)
    assert missing.status_code == 404


async def test_every_answer_of_a_page_has_the_policy(
    visitor: httpx.AsyncClient, owner_engine: AsyncEngine, settings: ApiSettings
) -> None:
    """Pages, redirects, errors and files: one strict policy, no sniffing, no frames, no cache."""
    assert "unsafe" not in PAGE_POLICY
    assert PAGE_POLICY.startswith("default-src 'none'; script-src 'self'; style-src 'self'")
    answers = [await visitor.get(path) for path in ("/ui", HOME, "/ui/login", "/ui/x?lang=vi")]
    answers.append(await visitor.post("/ui/login", content=b"x" * 100_000))
    await log_in(visitor, await make_key(owner_engine, Role.ADMIN))
    for method, path in PAGES:
        if not path.endswith(("/events", "/live")):
            answers.append(await visitor.request(method, filled(path)))
    answers += [await visitor.get("/ui/nowhere"), await visitor.delete(HOME)]
    closed = settings.model_copy(update={"api_open": False, "token": None})
    async with serving(closed, ready=False) as starting:
        answers.append(await starting.get("/ui/login"))
    for answer in answers:
        where = f"{answer.request.method} {answer.request.url.path}: {answer.status_code}"
        assert answer.headers["content-security-policy"] == PAGE_POLICY, where
        assert answer.headers["x-content-type-options"] == "nosniff", where
        assert answer.headers["cross-origin-opener-policy"] == "same-origin", where
        assert answer.headers["referrer-policy"] == "same-origin", where
        if "/static/" not in where:
            assert answer.headers["cache-control"] == "no-store", where
    api = await visitor.get("/v1/jobs")
    assert api.headers["content-security-policy"] == "default-src 'none'; frame-ancestors 'none'"


async def test_errors_are_pages_here_and_problems_elsewhere(
    visitor: httpx.AsyncClient, owner_engine: AsyncEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """404, 405, 500 in the same look and both languages; nothing of the inside shows."""
    await log_in(visitor, await make_key(owner_engine, Role.ADMIN))
    cases = [("GET", "/ui/nowhere", 404), ("DELETE", HOME, 405), ("GET", "/ui/jobs/x", 404)]
    for method, path, status in cases:
        for lang, said in (("en", "To the overview"), ("vi", "Về trang tổng quan")):
            answer = await visitor.request(method, f"{path}?lang={lang}")
            assert answer.status_code == status, path
            assert answer.headers["content-type"].startswith("text/html")
            assert said in answer.text
            assert answer.headers["x-request-id"] in answer.text
    assert (await visitor.delete(HOME)).headers["allow"] == "GET"

    async def boom(*_: Any) -> None:
        raise RuntimeError("a secret of the inside")

    monkeypatch.setattr("api.ui.overview.OverviewReader.read", boom)
    answer = await visitor.get(f"{HOME}?lang=en")
    assert answer.status_code == 500
    assert "Something is wrong on our side" in answer.text
    assert "secret of the inside" not in answer.text
    api = await visitor.get("/v1/nowhere")
    assert api.headers["content-type"] == "application/problem+json"


async def test_what_cannot_be_counted_now_hides_nothing_else(
    visitor: httpx.AsyncClient, owner_engine: AsyncEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Five million jobs are too many to count in two seconds: just then the page is needed."""

    async def late(_: Any) -> None:
        raise TimeoutError("told to be late")

    monkeypatch.setattr("api.counting.Counting.counted", late)
    await log_in(visitor, await make_key(owner_engine, Role.READ))
    page = await visitor.get(HOME)
    assert page.status_code == 200
    assert "could not be counted in time" in page.text
    assert 'id="queue-default"' in page.text


async def test_static_files_are_kept_by_their_content(visitor: httpx.AsyncClient) -> None:
    """For ever under their mark, not at all under another; nothing outside the folder."""
    assert {"base.css", "base.js", "icon.svg"} <= set(static_files())
    for name in static_files():
        found = await visitor.get(static_place(name))
        assert found.status_code == 200
        assert found.headers["cache-control"] == "public, max-age=31536000, immutable"
        assert found.content == (UI / "static" / name).read_bytes()
        other = await visitor.get(f"/ui/static/{name}?v=old")
        assert other.headers["cache-control"] == "no-cache"
    for name in ("nothing.css", "..%2Fpages.py", "%2e%2e/pages.py", "base.css%00"):
        assert (await visitor.get(f"/ui/static/{name}")).status_code in {303, 404}, name


def test_every_file_of_the_pages_is_part_of_the_package() -> None:
    """A wheel without a template would serve errors: each kind of file is named in pyproject."""
    project = tomllib.loads((UI.parents[1] / "pyproject.toml").read_text())
    named = project["tool"]["setuptools"]["package-data"]["api.ui"]
    packed = {path for pattern in named for path in UI.glob(pattern)}
    files = {path for path in UI.rglob("*") if path.is_file() and "__pycache__" not in path.parts}
    assert {path for path in files if path.suffix != ".py"} == packed
    folders = {path.parent for path in files if path.suffix == ".py"}
    assert all((folder / "__init__.py").exists() for folder in folders)


class Strict(HTMLParser):
    """Finds what the policy would not run: inline scripts and styles, handlers, foreign files."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Look at one tag."""
        named = dict(attrs)
        # A block of data is no script, to the policy neither.
        if tag == "script" and "src" not in named and named.get("type") != "application/json":
            self.found.append("inline script")
        if tag in {"style", "iframe", "object", "embed", "base"}:
            self.found.append(tag)
        for name, value in attrs:
            if name == "style" or name.startswith("on"):
                self.found.append(f"{tag} {name}")
            if name in {"src", "href", "action", "formaction"} and re.match(
                r"\s*(javascript:|data:|https?:|//)", value or "", re.IGNORECASE
            ):
                self.found.append(f"{tag} {name}={value}")
        if tag == "form" and (named.get("method") or "get").lower() == "post":
            self.found += [] if "csrf" in self.rawdata else ["form without csrf()"]


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.name)
def test_no_template_holds_what_the_policy_refuses(path: Path) -> None:
    """And every form that is sent brings back its token; nothing is marked as safe HTML."""
    strict = Strict()
    strict.feed(path.read_text())
    assert strict.found == []
    assert not re.search(r"\|\s*safe\b|autoescape|Markup", path.read_text())


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.name)
def test_no_script_makes_code_of_text(path: Path) -> None:
    """What comes by stream is HTML of our templates; nothing else becomes HTML, nothing code."""
    text = path.read_text()
    assert not re.search(r"\beval\(|new Function|document\.write|insertAdjacentHTML", text)
    assert not re.search(r"https?://(?!www\.w3\.org/)", text)
    assert not re.search(r"\.setAttribute\(\s*[\"']style[\"']|\.style\.cssText", text)
    assert "localStorage" not in text
    assert list(_inner_html(text)) == [] or path.name == "base.js"


def _inner_html(text: str) -> Iterator[str]:
    return (found[0] for found in re.finditer(r"\.(inner|outer)HTML\s*=", text))
