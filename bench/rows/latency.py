"""From a submit to the first line of its handler, all idle, beside the emulator's send → receive.

Ours begins when the request is sent and ends when the handler says so by a datagram with its own
reading of the machine's clock: POST, commit, relay, SQS, claim, input, start. The limit begins when
SendMessage is sent and ends when a long poll that waits for it has its answer.
"""

import asyncio
import random
import socket
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from itertools import count
from queue import SimpleQueue
from time import monotonic_ns, sleep
from typing import Any

from bench.figures import Figure, difference, quantile
from bench.figures import count as counted
from bench.handlers import STARTED
from bench.http import Client, job, written
from bench.kinds import STAMP
from bench.place import Place
from bench.row import Measured, Row, Scale, Sizes, each
from bench.running import BenchFailed
from dev.sqs import sqs_client

MOST_P50 = 8.0
MOST_P99 = 30.0
NUMBERS = count(1)
LONGEST_SECONDS = 30.0
# No sample falls into the step of somebody's poll.
REST_SECONDS = (0.03, 0.13)
NANOSECONDS_A_MS = 1e6


@dataclass(slots=True)
class Waiting:
    """An idle platform, where its handlers tell, and an idle queue of the limit."""

    client: Client
    told: socket.socket
    sender: Any
    queue_url: str
    received: "SimpleQueue[int]"
    sizes: Sizes
    answered: list[float] = field(default_factory=list)


@asynccontextmanager
async def prepare(place: Place, sizes: Sizes) -> AsyncIterator[Waiting]:
    """An api and a worker as they are by default, both warm."""
    async with place.platform() as platform, place.platform() as beside:
        platform.worker()
        _, port = platform.api()
        url = beside.queue_urls["default"]
        client = Client(port, platform.key)
        sender = sqs_client(place.sqs.endpoint)
        with _listening() as told, _polling(place.sqs.endpoint, url) as received:
            waiting = Waiting(client, told, sender, url, received, sizes)
            await asyncio.to_thread(_repeat, 5, lambda: _send(waiting))
            await asyncio.to_thread(_repeat, 5, lambda: _submit(waiting))
            waiting.answered.clear()
            yield waiting
        sender.close()
        client.close()


@contextmanager
def _listening() -> Iterator[socket.socket]:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as told:
        told.bind(("127.0.0.1", 0))
        told.settimeout(LONGEST_SECONDS)
        yield told


@contextmanager
def _polling(endpoint: str, url: str) -> Iterator["SimpleQueue[int]"]:
    """A long poll that always waits; the queue has when each answer with a message came."""
    received: SimpleQueue[int] = SimpleQueue()
    stop = threading.Event()
    client = sqs_client(endpoint)

    def poll() -> None:
        while not stop.is_set():
            answer = client.receive_message(QueueUrl=url, WaitTimeSeconds=2)
            now = monotonic_ns()
            for message in answer.get("Messages", []):
                received.put(now)
                client.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])

    thread = threading.Thread(target=poll, name="poll", daemon=True)
    thread.start()
    try:
        yield received
    finally:
        stop.set()
        thread.join(LONGEST_SECONDS)
        client.close()


async def limit(waiting: Waiting) -> Measured:
    """Messages sent one by one to a poll that waits."""
    times = await asyncio.to_thread(_repeat, waiting.sizes["samples"], lambda: _send(waiting))
    return {"p50": quantile(times, 0.5), "p99": quantile(times, 0.99)}


def _send(waiting: Waiting) -> float:
    began = monotonic_ns()
    waiting.sender.send_message(QueueUrl=waiting.queue_url, MessageBody="{}")
    return (waiting.received.get(timeout=LONGEST_SECONDS) - began) / NANOSECONDS_A_MS


async def ours(waiting: Waiting) -> Measured:
    """Jobs submitted one by one to a worker that waits."""
    waiting.answered.clear()
    times = await asyncio.to_thread(_repeat, waiting.sizes["samples"], lambda: _submit(waiting))
    return {
        "p50": quantile(times, 0.5),
        "p99": quantile(times, 0.99),
        "p50 from the answer": quantile(waiting.answered, 0.5),
    }


def _submit(waiting: Waiting) -> float:
    number, port = next(NUMBERS), waiting.told.getsockname()[1]
    body = written(job(STAMP, number=number, port=port))
    began = monotonic_ns()
    waiting.client.require(202, "POST", "/v1/jobs", body, f"latency-{number}")
    answered = monotonic_ns()
    told, started = STARTED.unpack(waiting.told.recv(STARTED.size))
    if told != number:
        raise BenchFailed(f"job {told} has told that it started, {number} was expected")
    waiting.answered.append((started - answered) / NANOSECONDS_A_MS)
    return float(started - began) / NANOSECONDS_A_MS


def _repeat(samples: int, once: Callable[[], float]) -> list[float]:
    times = []
    for _ in range(samples):
        sleep(random.uniform(*REST_SECONDS))
        times.append(once())
    return times


def judge(limits: Sequence[Measured], ours: Sequence[Measured]) -> list[Figure]:
    """How much later than the emulator alone, in the middle and at the end."""
    p50, p99 = each(ours, "p50"), each(ours, "p99")
    answered = each(ours, "p50 from the answer")
    return [
        difference("p50", p50, each(limits, "p50"), unit="ms", at_most=MOST_P50),
        difference("p99", p99, each(limits, "p99"), unit="ms", at_most=MOST_P99),
        counted("p50 from the answer to the handler", answered, unit="ms"),
    ]


ROW = Row(
    name="latency",
    title="submit → handler start, idle",
    against="the emulator's send → receive",
    sizes={
        Scale.TINY: {"rounds": 1, "samples": 5},
        Scale.QUICK: {"rounds": 1, "samples": 40},
        Scale.USUAL: {"rounds": 5, "samples": 100},
        Scale.LONG: {"rounds": 9, "samples": 200},
    },
    prepare=prepare,
    limit=limit,
    ours=ours,
    judge=judge,
)
