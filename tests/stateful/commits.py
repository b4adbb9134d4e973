"""Steps that commit effects: in time, too late, twice, in doubt, interleaved."""

from dataclasses import replace
from typing import Any, Literal
from uuid import uuid4

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule
from sqlalchemy.exc import DBAPIError

from shared.database import set_limits
from shared.errors import Conflict, LeaseLost
from shared.types import LeaseToken
from tests.protocol.sessions import put_effect
from tests.stateful.model import Job
from tests.stateful.steps import WHICH, Open, Steps, close, end
from tests.stateful.world import QUICK
from worker.fence import fenced_transaction
from worker.lease import HeldLease, hold_fence, settle_doubt
from worker.outcome import complete_job

How = Literal["repeats", "other token", "older fence"]


class CommitSteps(Steps):
    """Each ends in a fence, and the model knows how."""

    # Committing, in every condition.

    def _fences(self, held: HeldLease) -> tuple[Job, str]:
        """The lease's job, and what a fence under this lease must come to now."""
        job = self.model.by_id(held.lease.job_id)
        if held.in_transaction or held.completed:
            return job, "refused"
        if not job.owned_by(held.lease.fence, held.lease.token):
            return job, "lost"
        if job.checkpoint_no != held.checkpoint_no:
            return job, "lost"
        return job, "locked" if job.locked else "won"

    async def _commit(self, held: HeldLease, *, completes: bool, lossy: bool = False) -> str:
        """One fenced transaction with one effect, and how it ended."""
        engine = self.world.lossy if lossy else self.world.engine
        try:
            async with fenced_transaction(engine, held, QUICK, completes=completes) as tx:
                await put_effect(tx.connection, held, held.checkpoint_no)
                tx.checkpoint, tx.result = {"chunks": held.checkpoint_no + 1}, {"ok": True}
        except LeaseLost:
            return "lost"
        except Conflict:
            return "locked"
        except RuntimeError:
            return "refused"
        except DBAPIError:
            assert lossy, "only a COMMIT that never arrived may raise"
            return "not committed"
        return "won"

    def _committed(self, job: Job, *, completes: bool) -> None:
        if completes:
            self.model.complete(job, effect=True)
        else:
            self.model.checkpoint(job)

    @precondition(lambda self: self.leases)
    @rule(which=WHICH, completes=st.booleans())
    def commit(self, which: int, *, completes: bool) -> None:
        """A worker commits its next chunk, perhaps with the completion; most come too late."""
        held = self.lease(which)
        job, wanted = self._fences(held)
        assert self.world.run(self._commit(held, completes=completes)) == wanted
        self.saw(f"commit: {wanted}")
        if wanted == "won":
            self._committed(job, completes=completes)

    @precondition(lambda self: self.leases)
    @rule(which=WHICH, completes=st.booleans(), arrives=st.booleans())
    def commit_in_doubt(self, which: int, *, completes: bool, arrives: bool) -> None:
        """The answer to COMMIT is lost, before or after it did its work; the worker asks."""
        held = self.lease(which)
        job, wanted = self._fences(held)
        self.world.lose = "after" if arrives else "before"
        answer = self.world.run(self._commit(held, completes=completes, lossy=True))
        self.world.lose = None
        assert answer == ("not committed" if wanted == "won" and not arrives else wanted)
        if wanted == "won":
            self.saw(f"in doubt: {'it was' if arrives else 'it was not'} committed")
            if arrives:
                self._committed(job, completes=completes)

    @precondition(lambda self: self.leases)
    @rule(
        which=WHICH,
        completes=st.booleans(),
        how=st.sampled_from(["repeats", "other token", "older fence"]),
    )
    def commit_wrongly(self, which: int, how: How, *, completes: bool) -> None:
        """A worker that is wrong about its own lease commits nothing."""
        held = replace(self.lease(which), in_transaction=False, completed=False)
        match how:
            case "repeats":  # it believes that its last commit failed
                held.checkpoint_no -= 1
            case "other token":  # a fence given twice, by a failover that lost data
                held.lease = replace(held.lease, token=LeaseToken(uuid4()))
            case "older fence":
                held.lease = replace(held.lease, fence=type(held.lease.fence)(held.lease.fence - 1))
        assert self.world.run(self._commit(held, completes=completes)) == "lost"

    @precondition(lambda self: self.leases and len(self.bodies) < 3)
    @rule(which=WHICH, completes=st.booleans())
    def open_body(self, which: int, *, completes: bool) -> None:
        """A worker writes an effect and does not come to its fence yet."""
        held = self.lease(which)
        if held.in_transaction or held.completed:
            return
        body = Open(held, completes)
        self.world.run(self._open(body))
        self.bodies.append(body)

    async def _open(self, body: Open) -> None:
        held = body.held
        body.scope = fenced_transaction(self.world.engine, held, QUICK, completes=body.completes)
        tx = await body.scope.__aenter__()
        await put_effect(tx.connection, held, held.checkpoint_no)
        tx.checkpoint, tx.result = {"chunks": held.checkpoint_no + 1}, {"ok": True}

    @precondition(lambda self: self.bodies)
    @rule(which=WHICH)
    def close_body(self, which: int) -> None:
        """The body that was open all the time comes to its fence."""
        body = self.bodies.pop(which % len(self.bodies))
        # It is past the door that refuses a second transaction: only the fence judges it now.
        job, wanted = self._fences(replace(body.held, in_transaction=False, completed=False))
        assert self.world.run(close(body)) == wanted
        self.saw(f"open body: {wanted}")
        if wanted == "won":
            self._committed(job, completes=body.completes)

    @precondition(lambda self: self.leases and len(self.fenced) < 2)
    @rule(which=WHICH, completes=st.booleans())
    def pass_fence(self, which: int, *, completes: bool) -> None:
        """A worker has passed its fence; its COMMIT has not arrived yet."""
        held = self.lease(which)
        job, wanted = self._fences(replace(held, in_transaction=False, completed=False))
        mine = Open(held, completes)
        answer = self.world.run(self._pass(mine))
        assert answer == ("locked" if wanted == "locked" else wanted == "won")
        if answer is True:
            job.locked = True
            self.fenced.append(mine)

    async def _pass(self, mine: Open) -> Any:
        held, conn = mine.held, await self.world.connect()
        mine.conn = conn
        await set_limits(conn, lock_timeout=QUICK.lock_timeout, idle_timeout=0)
        await put_effect(conn, held, held.checkpoint_no)
        if mine.completes:
            answer = await self._locked(complete_job(conn, held, None))
        else:
            answer = await self._locked(hold_fence(conn, held, None, None))
        if answer is not True:
            await end(mine, commit=False)
        return answer

    @precondition(lambda self: self.fenced)
    @rule(which=WHICH, arrives=st.booleans())
    def end_fenced(self, which: int, *, arrives: bool) -> None:
        """The COMMIT arrives, or never does; the worker gets no answer and asks the database."""
        mine = self.fenced.pop(which % len(self.fenced))
        job = self.model.by_id(mine.held.lease.job_id)
        self.world.run(end(mine, commit=arrives))
        job.locked = False
        if arrives:
            self._committed(job, completes=mine.completes)
        found = self.world.run(self._ask(mine.held))
        assert found == (job.runs[-1].checkpoint_no, job.runs[-1].outcome)
        if found[0] > mine.held.checkpoint_no:
            mine.held.checkpoint_no, mine.held.completed = found[0], mine.completes
        self.saw(f"fenced: {'committed' if arrives else 'rolled back'} behind others")

    async def _ask(self, held: HeldLease) -> Any:
        async with self.world.engine.begin() as conn:
            return await settle_doubt(conn, held.lease)
