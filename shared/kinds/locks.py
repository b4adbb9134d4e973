"""Business locks of a kind: what each of its jobs locks, and the rules that a declaration keeps."""

import re
import types
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import date
from typing import TYPE_CHECKING, Any, Literal, Union, get_args, get_origin
from uuid import UUID

from pydantic.fields import FieldInfo

from shared.errors import ConfigRefused

if TYPE_CHECKING:
    from shared.kinds import Kind

LockMode = Literal["shared", "exclusive"]
PLACEHOLDER = re.compile(r"\{([^{}]*)\}")
PERIOD = re.compile(r"\d{4}-(0[1-9]|1[0-2])(-(0[1-9]|[12]\d|3[01]))?")
LONGEST = 200
# Each may be a list of a hundred parts, which a submit resolves while others wait for its rows.
MOST_LOCKS = 32
NAMES = (str, int, UUID)
PERIODS = (str, date)


@dataclass(frozen=True, slots=True, kw_only=True)
class Lock:
    """A lock that a job holds while it runs: of a root, or of a part of it, for a range of periods.

    Each is a text with the placeholders {company}, {brand} and {payload.FIELD}. Of two jobs whose
    locks conflict only one runs: the same root, parts that are equal or one of which is None (all),
    not both shared, and ranges of periods (YYYY-MM or YYYY-MM-DD, both ends included, None is open)
    that overlap. A field that is null or missing makes part or period None; in `root` it is refused
    at submit. A part that is a list of the payload is a lock of each member.
    """

    root: str
    part: str | None = None
    mode: LockMode = "exclusive"
    period_from: str | None = None
    period_to: str | None = None


def mirrored(kind: "Kind") -> list[dict[str, Any]] | None:
    """The locks as chot.kinds keeps them; None for a kind without any."""
    return [asdict(lock) for lock in kind.locks] or None


def refuse_unsound_locks(source: str, kind: "Kind") -> None:
    """ConfigRefused for the first lock that breaks a rule, naming field, value and rule."""
    if len(kind.locks) > MOST_LOCKS:
        raise ConfigRefused(
            f"{source}: kind {kind.name}, locks: {len(kind.locks)} of them; at most {MOST_LOCKS}"
        )
    for n, lock in enumerate(kind.locks, 1):
        for field, problem in _problems(kind, lock):
            value = getattr(lock, field)
            raise ConfigRefused(
                f"{source}: kind {kind.name}, lock {n}: {field}={value!r} {problem}"
            )


def _problems(kind: "Kind", lock: Lock) -> Iterator[tuple[str, str]]:
    if lock.mode not in get_args(LockMode):
        yield "mode", "is neither 'shared' nor 'exclusive'"
    if not lock.root:
        yield "root", "is no text: a lock is of something"
    for field in ("root", "part", "period_from", "period_to"):
        template = getattr(lock, field)
        if template is not None:
            yield from ((field, problem) for problem in _faults(kind, field, template))
    ends = (lock.period_from, lock.period_to)
    if all(end and PERIOD.fullmatch(end) for end in ends) and str(ends[0]) > f"{ends[1]}~":
        yield "period_from", f"is after period_to={lock.period_to!r}: it would be of no period"


def _faults(kind: "Kind", field: str, template: str) -> Iterator[str]:
    if len(template) > LONGEST:
        yield f"is longer than {LONGEST} characters"
    if set(PLACEHOLDER.sub("", template)) & {"{", "}"}:
        yield "has a brace that belongs to no placeholder"
    period = field.startswith("period")
    names = PLACEHOLDER.findall(template)
    if period and not (PERIOD.fullmatch(template) or (names and template == f"{{{names[0]}}}")):
        yield "is neither a period (YYYY-MM or YYYY-MM-DD) nor one placeholder"
    for name in names:
        whole = template == f"{{{name}}}"
        yield from _placeholder_faults(kind, field, name, whole=whole)


def _placeholder_faults(kind: "Kind", field: str, name: str, *, whole: bool) -> Iterator[str]:
    if name in {"company", "brand"}:
        if field.startswith("period"):
            yield f"takes {{{name}}} for a period"
        return
    member = name.removeprefix("payload.")
    info = kind.payload.model_fields.get(member)
    if member == name:
        yield f"has {{{name}}}; there are {{company}}, {{brand}} and {{payload.FIELD}}"
    elif info is None:
        yield f"names {member!r}, the payload has no such field"
    else:
        yield from _type_faults(field, member, info, whole=whole)


def _type_faults(field: str, member: str, info: FieldInfo, *, whole: bool) -> Iterator[str]:
    if field == "root" and not info.is_required():
        yield f"needs {member!r} to be required: there is no lock of nothing"
    allowed = PERIODS if field.startswith("period") else NAMES
    for each in _alternatives(info.annotation):
        listed = get_origin(each) in {list, tuple, set, frozenset}
        if listed and not (field == "part" and whole):
            yield f"takes the list {member!r}: only a part that is nothing else may be one"
        members = set(get_args(each)) - {...} if listed else {each}
        if each is types.NoneType:
            if field == "root":
                yield f"needs {member!r}, which may be null: there is no lock of nothing"
        elif not all(_is_one_of(member_type, allowed) for member_type in members):
            names = " or ".join(type_.__name__ for type_ in allowed)
            yield f"takes {member!r}, which is no {names}"


def _alternatives(annotation: Any) -> tuple[Any, ...]:
    if get_origin(annotation) in {Union, types.UnionType}:
        return get_args(annotation)
    return (annotation,)


def _is_one_of(annotation: Any, allowed: tuple[type, ...]) -> bool:
    if get_origin(annotation) is Literal:
        return all(type(value) in allowed for value in get_args(annotation))
    if getattr(annotation, "__metadata__", None):  # Annotated
        return _is_one_of(get_args(annotation)[0], allowed)
    return (
        isinstance(annotation, type)
        and issubclass(annotation, allowed)
        and not issubclass(annotation, bool)
    )


LOCK_FIELDS = ("root", "part", "mode", "period_from", "period_to")


def locks_json(locks: Mapping[str, Any]) -> dict[str, Any]:
    """A row of chot.job_locks as people see it: null for all, and for an open end."""
    return {
        "root": locks["root"],
        "part": locks["part"] or None,
        "mode": locks["mode"],
        "period_from": locks["period_from"] or None,
        "period_to": None if locks["period_to"] == "~" else locks["period_to"],
    }
