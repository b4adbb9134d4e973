"""A kind of job: what the api must know of it, without the worker's libraries."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Literal

from pydantic import BaseModel, ConfigDict

from shared.kinds.locks import Lock as Lock

OnDuplicate = Literal["join", "merge", "follow_up"]


class Payload(BaseModel):
    """Base for payload models: unknown members are refused, nothing is coerced."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """When a failed attempt runs again: exponential backoff with full jitter, up to a cap.

    The wait before attempt n+1 is uniform in [0, min(cap, base × factor^(n-1))], where n counts
    charged attempts. Errors of a `permanent` type bury the job at once. `max_attempts=None` takes
    the deployment's CHOT_MAX_ATTEMPTS. Source: AWS Architecture Blog, "Exponential Backoff And
    Jitter" (full jitter).
    """

    max_attempts: int | None = None
    max_attempts_cap: int = 25
    base: timedelta = timedelta(seconds=1)
    factor: float = 2.0
    cap: timedelta = timedelta(minutes=5)
    permanent: tuple[type[Exception], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """One kind of job.

    `timeout` is the hard limit of one attempt; there is no kind without one. `fingerprint_fields`
    name required payload members that, with kind, company and brand, say what makes two submits
    the same work; their types are strict strings, integers, booleans or lists of them; `("*",)` is
    the whole payload, null members as absent. With
    `on_duplicate="merge"` a duplicate of a pending job replaces its other members and joins its
    lists; of a running one it becomes a follow-up, as with `"follow_up"`. Members named in
    `widest_when_absent` mean "all" where they are absent or null: so does what they merge to. Of a
    kind with `max_running` never more than so many run at once, whatever number of workers there
    is. Beyond `max_pending` of a company and brand that wait (else CHOT_MAX_PENDING) the api takes
    no more.
    A job holds the `locks` while it runs: of two whose locks conflict only one does.

    An `internal` kind is made by code of ours only, spawned or by a route of its own: a submit over
    HTTP is refused, naming `made_by`, and so is chot.enqueue() by anybody but the platform.

    A kind with an `approval` is an act of that name (shared.audit.Action): its submit asks for role
    operate, uses another account's approval where the deployment asks for one, and is in the audit
    as that act. It is submitted one by one over HTTP; in SQL by the platform only.

    A kind is `by_account` where what a job asks for decides which rights it takes to submit it:
    they are known over HTTP, so in SQL it is submitted by the platform only.
    """

    name: str
    payload: type[BaseModel]
    timeout: timedelta
    version: int = 1
    queue: str = "default"
    retry: RetryPolicy = field(default_factory=RetryPolicy)
    fingerprint_fields: Sequence[str] = ()
    on_duplicate: OnDuplicate = "join"
    widest_when_absent: Sequence[str] = ()
    max_running: int | None = None
    max_pending: int | None = None
    locks: Sequence[Lock] = ()
    internal: bool = False
    made_by: str | None = None
    approval: str | None = None
    by_account: bool = False
