"""The sentence of /why on a page: its routes become links, its jobs too, its times local."""

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime

from markupsafe import Markup, escape

from api.ui.browser import Language
from api.ui.showing import instant

UUID = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
# What the api says in words of HTTP, for somebody who has the page before him.
_SAID: Sequence[tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]]] = (
    (re.compile(r"POST /v1/queues/(\S+)/resume lets"), r"resuming queue \1 lets"),
    (re.compile(r"POST /v1/kinds/(\S+)/resume lets"), r"resuming kind \1 lets"),
    (re.compile(r"POST /v1/books/thaw lets"), "thawing them lets"),
    (re.compile(rf"POST /v1/migrations/{UUID}/resume lets"), "resuming it lets"),
    (re.compile(rf"until POST /v1/groups/{UUID}/seal"), "until it is sealed"),
    (re.compile(rf"is in GET /v1/jobs/{UUID}"), "is below"),
    (re.compile(rf"POST /v1/jobs/{UUID}/redrive tries"), "a redrive tries"),
    (re.compile(r"what GET /readyz of the apis says"), "what /readyz of the apis says"),
)
_LINKED = re.compile(
    rf"(?P<group>(?:group|Nhóm|nhóm) )(?P<of_group>{UUID})"
    rf"|(?P<job>{UUID})"
    r"|(?P<at>\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ)"
    r"|(?P<queue_word>\b(?:[Qq]ueue|hàng đợi|Hàng đợi) )(?P<queue>[a-z0-9_-]+)"
)


def on_page(sentence: str, language: Language, own: str) -> Markup:
    """The sentence as HTML; `own` is the job that it is of, which is no link."""
    for pattern, said in _SAID:
        sentence = pattern.sub(said, sentence)
    parts: list[Markup] = []
    at = 0
    for found in _LINKED.finditer(sentence):
        parts += [escape(sentence[at : found.start()]), _link(found.groupdict(), language, own)]
        at = found.end()
    return Markup().join([*parts, escape(sentence[at:])])


def _link(found: Mapping[str, str | None], language: Language, own: str) -> Markup:
    if found["of_group"]:
        return Markup('{}<a href="/ui/jobs?group={}">{}</a>').format(
            found["group"], found["of_group"], short(found["of_group"])
        )
    if found["at"]:
        return instant(datetime.fromisoformat(found["at"]), language)
    if found["queue"]:
        return Markup('{}<a href="/ui/queues?name={}">{}</a>').format(
            found["queue_word"], found["queue"], found["queue"]
        )
    job = found["job"] or ""
    if job == own:
        return escape(short(job))
    return Markup('<a href="/ui/jobs/{}" title="{}">{}</a>').format(job, job, short(job))


def short(job_id: object) -> str:
    """An id as it is read aloud: its end, which is the random part, tells jobs apart."""
    return f"…{str(job_id)[-12:]}"
