"""Answers of the api, read: what is none of an api's is told so, by whatever it breaks."""

import json
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any, TypeVar

import httpx

from shared.client.errors import no_answer_of_ours
from shared.client.results import BatchItem, Job, Queue

T = TypeVar("T")


def understood(
    answer: httpx.Response,
    read: Callable[[Mapping[str, Any]], T],
    *,
    key: str | None = None,
    said: str | None = None,
) -> T:
    """What `read` makes of the answer's JSON (or of `said`, a part of it).

    Unavailable, with the answer's own status, where it is no JSON, or lacks what it should have:
    a proxy's page, or another program behind this address.
    """
    try:
        return read(json.loads(answer.content if said is None else said, parse_float=Decimal))
    except KeyError as error:
        raise no_answer_of_ours(answer, f"it has no {error}", key=key) from error
    except RecursionError as error:
        raise no_answer_of_ours(answer, "it is nested too deep", key=key) from error
    except (ArithmeticError, AttributeError, TypeError, ValueError) as error:
        raise no_answer_of_ours(answer, str(error), key=key) from error


def items_of(body: Mapping[str, Any], *, replayed: bool) -> Sequence[BatchItem]:
    """The outcomes of a batch."""
    return [BatchItem.of(each, replayed=replayed) for each in body["jobs"]]


def queues_of(body: Mapping[str, Any]) -> Sequence[Queue]:
    """The queues of a list."""
    return tuple(Queue.of(each) for each in body["queues"])


def page_of(body: Mapping[str, Any]) -> tuple[Sequence[Job], str | None]:
    """A page of jobs and the cursor of the next one; None at the end."""
    return [Job.of(each) for each in body["jobs"]], body["next_cursor"]
