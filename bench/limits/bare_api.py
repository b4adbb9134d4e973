"""The limit of a submit: a bare FastAPI endpoint that commits the same four rows in one statement.

`python -m bench.limits.bare_api PORT DSN POOL_SIZE`. It reads the body by a pydantic model, takes a
connection of asyncpg's own pool, runs one statement that inserts job, payload, outbox row and the
stored answer under the key, which is one commit, and answers. It knows no account, rule or log.
Process, uvicorn's settings and the garbage collector's are those of `python -m api`.
"""

import hashlib
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated

import asyncpg
import uvicorn
from fastapi import FastAPI, Header, Request, Response
from fastapi.responses import JSONResponse
from pydantic import BaseModel

from api.__main__ import SWITCH_SECONDS
from shared.pauses import collect_rarely, spare_the_collector

STATEMENT = """
    WITH job AS (
        INSERT INTO chot.jobs (id, kind, company, brand, queue, priority, max_attempts,
               available_at, fingerprint, on_duplicate, payload_version, principal, deployment_id)
        SELECT uuidv7(), $1, $2, $3, 'default', 5, 5, clock_timestamp(), $6, 'join', 1, 'bench',
               d.deployment_id FROM chot.deployment d
        RETURNING id),
    payload AS (INSERT INTO chot.job_payloads (job_id, payload) SELECT id, $4::jsonb FROM job),
    message AS (
        INSERT INTO chot.outbox (job_id, queue, kind, company, brand, priority, next_send_at)
        SELECT id, 'default', $1, $2, $3, 5, clock_timestamp() FROM job)
    INSERT INTO chot.idempotency_keys (principal, key, request_digest, digest_version, status,
                                       headers, body, job_id, expires_at)
    SELECT 'bench', $5, $6, 1, 202, '{"Location": "/v1/jobs/"}', $7, id,
           clock_timestamp() + interval '72 hours' FROM job
    RETURNING job_id"""


class Payload(BaseModel):
    """That of bench.noop."""

    number: int


class Body(BaseModel):
    """A submit."""

    kind: str
    company: str
    brand: str
    payload: Payload


def create_app(dsn: str, pool_size: int) -> FastAPI:
    """One route."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with asyncpg.create_pool(dsn, min_size=pool_size, max_size=pool_size) as pool:
            app.state.pool = pool
            yield

    app = FastAPI(lifespan=lifespan)

    @app.get("/readyz")
    async def ready() -> Response:
        return Response()

    @app.post("/v1/jobs")
    async def submit(
        request: Request, body: Body, idempotency_key: Annotated[str, Header()]
    ) -> Response:
        payload = body.payload.model_dump_json()
        print_ = hashlib.sha256(f"{body.kind}\0{body.company}\0{body.brand}\0{payload}".encode())
        answer = {"kind": body.kind, "company": body.company, "state": "pending"}
        job_id = await request.app.state.pool.fetchval(
            STATEMENT,
            *(body.kind, body.company, body.brand, payload, idempotency_key, print_.digest()),
            json.dumps(answer).encode(),
        )
        return JSONResponse(
            {"id": str(job_id), **answer}, 202, headers={"Location": f"/v1/jobs/{job_id}"}
        )

    return app


def main() -> None:
    """Serve as `python -m api` does."""
    port, dsn, pool_size = sys.argv[1:]
    app = create_app(dsn, int(pool_size))
    sys.setswitchinterval(SWITCH_SECONDS)
    spare_the_collector()
    collect_rarely()
    uvicorn.run(
        app,
        host="127.0.0.1",
        port=int(port),
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        lifespan="on",
        ws="none",
    )


if __name__ == "__main__":
    main()
