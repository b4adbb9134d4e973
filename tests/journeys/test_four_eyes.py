"""An act of two accounts, by the command line: approve, redrive, audit."""

import asyncio
from uuid import UUID

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from shared.access import Role
from shared.cli import run
from tests.factories import execute, make_job
from tests.fleet import Fleet
from tests.journeys.test_cli import Chot, environment
from tests.protocol.api.keys import make_key

DIE = """UPDATE chot.jobs SET state = 'dead', finished_at = clock_timestamp()
          WHERE id = :id AND state = 'pending'"""


async def test_one_asks_another_approves_and_the_audit_knows_both(
    fleet: Fleet, engine: AsyncEngine, owner_engine: AsyncEngine
) -> None:
    """As an operator types it, with what each step says and its exit code."""
    changed = {"CHOT_API_OPEN": "false", "CHOT_APPROVALS": "job.redrive"}
    _, url = await asyncio.to_thread(lambda: fleet.api(**changed))

    async def account(name: str, *roles: Role) -> Chot:
        key = await make_key(owner_engine, *roles, principal=name)
        return Chot(environment(CHOT_API_URL=url, CHOT_TOKEN=key))

    clerk = await account("clerk", Role.OPERATE)
    chief = await account("chief", Role.OPERATE)
    admin = await account("auditor", Role.ADMIN)
    job_id = str(await make_job(engine))
    await execute(engine, DIE, id=UUID(job_id))

    refused = await clerk("redrive", job_id)
    assert refused.returncode == 4
    assert "Another account has to approve this" in refused.stderr
    assert f"`chot approve job.redrive {job_id}`" in refused.stderr
    assert f"`chot redrive {job_id} --approval …`" in refused.stderr
    assert "/v1/" not in refused.stderr
    assert "chot keys list" not in refused.stderr, "the key has the right"
    given = await chief("approve", "job.redrive", job_id, "--reason", "the file is repaired")
    assert given.returncode == 0, given.stderr
    assert "approved once" in given.stderr
    done = await clerk("redrive", job_id, "--approval", given.stdout.strip())
    assert done.returncode == 0, done.stderr

    acts = (await admin.json("audit", "--action", "job.redrive"))["acts"]
    assert [(act["principal"], act["approver"], act["job_id"]) for act in acts] == [
        ("clerk", "chief", job_id)
    ]
    table = await admin("audit", "--limit", "2")
    assert table.returncode == 0, table.stderr
    for said in ("approved by", "chief", "approval.give", job_id):
        assert said in table.stdout
    assert "there are more" in table.stderr


def test_an_approval_goes_with_one_job(capsys: pytest.CaptureFixture[str]) -> None:
    """Of many it would be unclear which one it is for."""
    assert run(["redrive", "--all", "--approval", "x"]) == 2
    assert "give its ID" in capsys.readouterr().err
