"""`python -m bench.submits`: loads POST /v1/jobs from a process of its own; prints JSON.

Whoever loads must not be what is measured: `busy` says how much of its processor it took.
"""

import argparse
import asyncio
import json
import os
from collections.abc import Iterator
from time import process_time
from typing import Any

from bench.kinds import NOOP
from bench.load_client import Load, closed_loop, open_loop
from bench.place import BRAND, COMPANY

CREATED = frozenset({202})


def submits(first: int, kind: str, token: str) -> Iterator[bytes]:
    """Submits with keys, each of work that nobody has submitted before."""
    number = first
    while True:
        number += 1
        body = json.dumps(
            {"kind": kind, "company": COMPANY, "brand": BRAND, "payload": {"number": number}}
        ).encode()
        head = (
            "POST /v1/jobs HTTP/1.1\r\nHost: 127.0.0.1\r\n"
            f"Authorization: Bearer {token}\r\nContent-Type: application/json\r\n"
            f"Idempotency-Key: bench-{number}\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        yield head.encode() + body


async def run_load(asked: argparse.Namespace) -> dict[str, Any]:
    """So many requests: by clients that wait for their answers, or at a rate whatever comes."""
    requests = submits(asked.first, NOOP, os.environ["BENCH_TOKEN"])
    made = [next(requests) for _ in range(asked.count)]
    began = process_time()
    if asked.per_second:
        load = await open_loop(
            asked.port,
            iter(made),
            per_second=asked.per_second,
            count=asked.count,
            clients=asked.clients,
            accepted=CREATED,
        )
    else:
        load = await closed_loop(
            asked.port, iter(made), clients=asked.clients, count=asked.count, accepted=CREATED
        )
    return _told(load, process_time() - began)


def _told(load: Load, cpu: float) -> dict[str, Any]:
    return {
        "answered": len(load.times),
        "failed": load.failed,
        "seconds": load.seconds,
        "rate": load.rate,
        "p50": load.quantile(0.5),
        "p95": load.quantile(0.95),
        "p99": load.quantile(0.99),
        "busy": cpu / load.seconds,
    }


def main() -> None:
    """One run."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--count", type=int, required=True)
    parser.add_argument("--clients", type=int, required=True)
    parser.add_argument("--per-second", type=float, default=0.0)
    parser.add_argument("--first", type=int, required=True)
    print(json.dumps(asyncio.run(run_load(parser.parse_args()))))


if __name__ == "__main__":
    main()
