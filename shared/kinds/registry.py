"""Which kinds this process knows: ours, those of entry points, those of CHOT_KIND_MODULES."""

import json
import re
from collections.abc import Iterable, Mapping
from importlib.metadata import entry_points
from types import ModuleType
from typing import get_args, get_origin

from pydantic.fields import FieldInfo
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from shared.approvals import APPROVABLE
from shared.errors import ConfigRefused
from shared.kinds import Kind
from shared.kinds.locks import mirrored, refuse_unsound_locks
from shared.kinds.names import NAME, exported, import_setting, split_modules

BUILT_IN = (
    "shared.kinds.cost_documents",
    "shared.kinds.costing",
    "shared.kinds.costing_part",
    "shared.kinds.exporting",
    "shared.kinds.ledger",
    "shared.kinds.migration",
    "shared.kinds.periods",
    "shared.kinds.posting",
    "shared.kinds.unposting",
)
SCALARS = {str, int, bool}
# Every member of the payload says which work it is; null ones are as absent.
WHOLE = ("*",)
QUEUE = re.compile(r"[a-z][a-z0-9_]{0,39}")
# Somebody looks at the screen: its slots are kept for jobs that soon make room for the next.
INTERACTIVE, INTERACTIVE_SECONDS = "interactive", 60


def load_kinds(modules: str) -> Mapping[str, Kind]:
    """Load every kind by name; ConfigRefused for one that breaks a rule or is there twice."""
    kinds: dict[str, Kind] = {}
    for source, kind in _declared(modules):
        _refuse_unsound(source, kind)
        if kind.name in kinds and kinds[kind.name] is not kind:
            raise ConfigRefused(f"kind {kind.name!r} is declared twice, the second in {source}")
        kinds[kind.name] = kind
    return kinds


def _declared(modules: str) -> Iterable[tuple[str, Kind]]:
    for name in (*BUILT_IN, *split_modules(modules)):
        yield from ((name, kind) for kind in exported(import_setting(name, "KIND"), "KINDS"))
    for point in entry_points(group="chot.kinds"):
        loaded = point.load()
        kinds = exported(loaded, "KINDS") if isinstance(loaded, ModuleType) else loaded
        yield from ((f"entry point {point.name}", kind) for kind in kinds)


def _refuse_unsound(source: str, kind: Kind) -> None:
    if not NAME.fullmatch(kind.name):
        raise ConfigRefused(f"{source}: kind name {kind.name!r} is not dotted lower-case words")
    if not QUEUE.fullmatch(kind.queue):
        raise ConfigRefused(f"{source}: queue {kind.queue!r} of kind {kind.name} is no queue name")
    if kind.timeout.total_seconds() <= 0:
        raise ConfigRefused(f"{source}: kind {kind.name} has no hard timeout; each kind needs one")
    _refuse_long_interactive(source, kind)
    _refuse_strange_maximum(source, kind)
    _refuse_strange_widening(source, kind)
    refuse_unsound_locks(source, kind)
    if kind.made_by is not None and not kind.internal:
        raise ConfigRefused(
            f"{source}: kind {kind.name} has made_by={kind.made_by!r}: only an internal kind has"
        )
    _refuse_strange_approval(source, kind)
    if kind.payload.model_config.get("extra") != "forbid":
        raise ConfigRefused(
            f"{source}: kind {kind.name}: its payload model must refuse unknown members "
            "(subclass shared.kinds.Payload)"
        )
    if tuple(kind.fingerprint_fields) != WHOLE:
        _refuse_unsound_fingerprint(source, kind)


def _refuse_strange_approval(source: str, kind: Kind) -> None:
    if kind.approval is not None and (kind.approval not in APPROVABLE or kind.internal):
        raise ConfigRefused(
            f"{source}: kind {kind.name} has approval={kind.approval!r}: it must be one of "
            f"{', '.join(sorted(APPROVABLE))}, of a kind that is not internal"
        )


def _refuse_unsound_fingerprint(source: str, kind: Kind) -> None:
    for field in kind.fingerprint_fields:
        info = kind.payload.model_fields.get(field)
        if info is None:
            raise ConfigRefused(
                f"{source}: kind {kind.name} has {field!r} in its fingerprint, its payload has not"
            )
        if not info.is_required():
            raise ConfigRefused(
                f"{source}: kind {kind.name}: fingerprint field {field!r} must be required, "
                "or a default added later would change what counts as the same work"
            )
        if not _is_strict_scalar(kind, info):
            raise ConfigRefused(
                f"{source}: kind {kind.name}: fingerprint field {field!r} must be a strict str, "
                "int or bool, or a list of them, so that SQL and HTTP callers mean the same work"
            )


def _refuse_long_interactive(source: str, kind: Kind) -> None:
    seconds = kind.timeout.total_seconds()
    if kind.queue == INTERACTIVE and seconds > INTERACTIVE_SECONDS:
        raise ConfigRefused(
            f"{source}: kind {kind.name} is of queue {INTERACTIVE} and may take {seconds:g} s: its "
            f"timeout must be ≤ {INTERACTIVE_SECONDS} s there, or it belongs into another queue"
        )


def _refuse_strange_maximum(source: str, kind: Kind) -> None:
    if kind.max_running is not None and kind.max_running < 1:
        raise ConfigRefused(
            f"{source}: kind {kind.name} has max_running={kind.max_running}: it would never run"
        )
    if kind.max_pending is not None and kind.max_pending < 1:
        raise ConfigRefused(
            f"{source}: kind {kind.name} has max_pending={kind.max_pending}: nobody could submit it"
        )


def _refuse_strange_widening(source: str, kind: Kind) -> None:
    for field in kind.widest_when_absent:
        info = kind.payload.model_fields.get(field)
        if info is None or info.is_required() or field in kind.fingerprint_fields:
            raise ConfigRefused(
                f"{source}: kind {kind.name}: {field!r} is widest when absent, so it must be an "
                "optional member of the payload that is not in the fingerprint"
            )


def _is_strict_scalar(kind: Kind, info: FieldInfo) -> bool:
    strict = kind.payload.model_config.get("strict") or any(
        getattr(rule, "strict", None) for rule in info.metadata
    )
    annotation = info.annotation
    if get_origin(annotation) in {list, tuple}:
        return bool(strict) and set(get_args(annotation)) - {...} <= SCALARS
    return bool(strict) and annotation in SCALARS


MIRROR_QUEUE = text("INSERT INTO chot.queues (name) VALUES (:queue) ON CONFLICT DO NOTHING")
MIRROR_KIND = text("""
    INSERT INTO chot.kinds AS k (name, queue, payload_version, fingerprint_fields, on_duplicate,
                                 max_attempts, max_attempts_cap, timeout_seconds, max_running,
                                 locks, widest_when_absent, internal, made_by, approval,
                                 by_account)
    VALUES (:name, :queue, :version, :fields, :on_duplicate, :max_attempts, :cap, :timeout,
            CAST(:max_running AS integer), CAST(:locks AS jsonb), :widest, :internal,
            :made_by, CAST(:approval AS text), :by_account)
    ON CONFLICT (name) DO UPDATE
       SET queue = excluded.queue, payload_version = excluded.payload_version,
           fingerprint_fields = excluded.fingerprint_fields, on_duplicate = excluded.on_duplicate,
           max_attempts = excluded.max_attempts, max_attempts_cap = excluded.max_attempts_cap,
           timeout_seconds = excluded.timeout_seconds, max_running = excluded.max_running,
           locks = excluded.locks, widest_when_absent = excluded.widest_when_absent,
           internal = excluded.internal, made_by = excluded.made_by,
           approval = excluded.approval, by_account = excluded.by_account,
           updated_at = clock_timestamp()
     WHERE k.payload_version <= excluded.payload_version
       AND (k.queue, k.payload_version, k.fingerprint_fields, k.on_duplicate, k.max_attempts,
            k.max_attempts_cap, k.timeout_seconds, k.max_running, k.locks,
            k.widest_when_absent, k.internal, k.made_by, k.approval, k.by_account)
           IS DISTINCT FROM
           (excluded.queue, excluded.payload_version, excluded.fingerprint_fields,
            excluded.on_duplicate, excluded.max_attempts, excluded.max_attempts_cap,
            excluded.timeout_seconds, excluded.max_running, excluded.locks,
            excluded.widest_when_absent, excluded.internal, excluded.made_by,
            excluded.approval, excluded.by_account)""")


async def mirror_kinds(
    conn: AsyncConnection, kinds: Mapping[str, Kind], *, default_max_attempts: int
) -> None:
    """Tell the database what this code knows; never lowers a kind's payload version."""
    for queue in sorted({kind.queue for kind in kinds.values()} | {"default"}):
        await conn.execute(MIRROR_QUEUE, {"queue": queue})
    for kind in sorted(kinds.values(), key=lambda each: each.name):
        most = kind.retry.max_attempts or default_max_attempts
        binds = {
            "name": kind.name,
            "queue": kind.queue,
            "version": kind.version,
            "fields": list(kind.fingerprint_fields),
            "on_duplicate": kind.on_duplicate,
            "max_attempts": most,
            "cap": max(most, kind.retry.max_attempts_cap),
            "timeout": kind.timeout.total_seconds(),
            "max_running": kind.max_running,
            "widest": list(kind.widest_when_absent),
            "locks": None if not kind.locks else json.dumps(mirrored(kind)),
            "internal": kind.internal,
            "made_by": kind.made_by,
            "approval": kind.approval,
            "by_account": kind.by_account,
        }
        await conn.execute(MIRROR_KIND, binds)
