"""The worker process: receivers, attempts, relay, maintenance and heartbeat, wired together."""

import asyncio
import os
import signal
import socket
from collections.abc import Mapping
from contextlib import AsyncExitStack
from time import monotonic

from sqlalchemy.exc import SQLAlchemyError

from shared.kinds import Kind
from shared.logs import log
from shared.outbox import Relay
from shared.sqs import SqsClient
from shared.telling import told
from shared.types import JobId
from worker.alone import free_alone, reserve_alone
from worker.attempt import Runner, Stuck, run_attempt
from worker.claim import Claimant, claim_jobs
from worker.completions import Completions
from worker.context import Engines
from worker.deliveries import Deliveries
from worker.ecs import agent_uri, task_name
from worker.engines import open_engines
from worker.handlers import Handler
from worker.heartbeat import EXIT_STUCK, Heart, new_worker_id
from worker.lease import HeldLease
from worker.liveness import TOUCH_SECONDS, Liveness, readiness_path
from worker.maintenance import Maintenance
from worker.outcome import Failed, Lost, Outcome, Succeeded
from worker.presence import Presence, QueuePresence, leave
from worker.pulse import Pulse
from worker.readiness import Readiness
from worker.receiver import Receiver
from worker.served import open_socket
from worker.settings import WorkerSettings, slots_of
from worker.startup import (
    InForce,
    code_version,
    open_clients,
    together,
    wait_for_database,
    wait_for_queues,
)

FIRST_BEAT_SECONDS = 30.0
HURRY_SECONDS = 1.0


class Worker:
    """One worker process. `run()` returns the exit code: 0 drained, 70 a slot was stuck."""

    def __init__(
        self,
        settings: WorkerSettings,
        kinds: Mapping[str, Kind],
        handlers: Mapping[str, Handler],
    ) -> None:
        self._settings = settings
        self._timing = settings.timing
        self._kinds = {name: kinds[name] for name in handlers}
        self._all_kinds = kinds
        self._handlers = handlers
        self._slots = slots_of(settings, {kind.queue for kind in self._kinds.values()})
        self._liveness = Liveness.open(settings.liveness_file)
        host, port = settings.worker_metrics_host, settings.worker_metrics_port
        self._listening = open_socket(host, port)
        self._worker_id = new_worker_id(task_name() or socket.gethostname(), os.getpid())
        self._draining = asyncio.Event()
        self._releasing = asyncio.Event()
        self._hurry = asyncio.Event()
        self._finished = asyncio.Event()
        self._attempts: set[asyncio.Task[None]] = set()
        self._receivers: list[Receiver] = []
        self._alone: JobId | None = None
        self._idle = asyncio.Event()
        self._exit_code = 0

    async def run(self) -> int:
        """Work until SIGTERM (or SIGINT), then drain. A second signal releases at once."""
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, self._on_signal)
        async with AsyncExitStack() as stack:
            engines = open_engines(stack, self._settings, self._slots)
            started = asyncio.ensure_future(self._start(stack, engines))
            stopping = asyncio.ensure_future(self._draining.wait())
            alive = asyncio.create_task(self._tell_alive(), name="liveness")
            await asyncio.wait({started, stopping}, return_when=asyncio.FIRST_COMPLETED)
            alive.cancel()
            if not started.done():  # stopped while it waited for the database or for SQS
                started.cancel()
                await asyncio.wait({started})
                return 0
            stopping.cancel()
            await self._work(*started.result())
            if self._exit_code == EXIT_STUCK:
                # The loop's own end would wait for the task that does not end.
                os._exit(EXIT_STUCK)
        return self._exit_code

    async def _tell_alive(self) -> None:
        """Until the heart beats: a start that waits for the database is alive, too."""
        while True:
            self._liveness.touch()
            await asyncio.sleep(TOUCH_SECONDS)

    def _on_signal(self) -> None:
        if self._draining.is_set():
            self._hurry.set()
        else:
            log.info("worker.drains", seconds=self._settings.drain_seconds)
            self._draining.set()

    async def _start(
        self, stack: AsyncExitStack, engines: Engines
    ) -> tuple[Runner, InForce, SqsClient, SqsClient]:
        prefix, queues = self._settings.queue_prefix, list(self._slots)
        poll = self._settings.poll_seconds
        polling, sending = await open_clients(stack, prefix, receivers=len(queues), poll=poll)
        in_force: InForce
        in_force, *_ = await together(
            wait_for_database(engines.app, self._settings, self._all_kinds),
            wait_for_queues(sending, self._settings, self._kinds, queues),
            asyncio.to_thread(code_version),  # it asks git, once a process
        )
        presence = Presence(
            worker_id=self._worker_id,
            host=socket.gethostname(),
            pid=os.getpid(),
            code_version=code_version(),
            kinds={kind.name: kind.version for kind in self._kinds.values()},
            queues={q: QueuePresence(n, n, free_since=monotonic()) for q, n in self._slots.items()},
        )
        self._presence = presence
        grace = self._settings.kill_grace_seconds
        heart = Heart(
            database_url=self._settings.database_url.get_secret_value(),
            queue_prefix=prefix,
            timing=self._timing,
            presence=presence,
            visibility_cap_seconds=self._settings.visibility_cap_seconds,
            exit_grace_seconds=2 * grace + 2 * self._timing.heartbeat + self._timing.margin,
            liveness=self._liveness,
            readiness=Readiness(
                readiness_path(self._settings.liveness_file),
                presence,
                beat_seconds=self._timing.heartbeat,
                poll_seconds=poll,
            ),
            agent_uri=agent_uri(),
            listening=self._listening,
        )
        runner = Runner(
            engines=engines,
            timing=self._timing,
            kinds=self._kinds,
            handlers=self._handlers,
            heart=heart,
            draining=self._draining,
            releasing=self._releasing,
            kill_grace_seconds=grace,
            completions=Completions(engines.auto),
        )
        heart.start(asyncio.get_running_loop())
        while not await heart.first_beat(FIRST_BEAT_SECONDS):
            log.warning("startup.waits", what="heartbeat", why="has not reached the database yet")
        return runner, in_force, polling, sending

    async def _work(
        self, runner: Runner, in_force: InForce, polling: SqsClient, sending: SqsClient
    ) -> None:
        self._runner = runner
        self._deliveries = Deliveries(sending)
        pulse = Pulse(list(self._kinds))
        self._relay = Relay(
            runner.engines.auto,
            sending,
            poll_seconds=self._settings.relay_poll_seconds,
            ageing_seconds=self._settings.ageing_seconds,
            look=pulse.look,
        )
        self._claimant = Claimant(
            worker_id=self._worker_id,
            code_version=code_version(),
            kinds=self._kinds,
            timing=self._timing,
        )
        self._maintenance = Maintenance(
            runner,
            sending,
            queues=list(self._slots),
            settings=self._settings,
            wake_relay=self._relay.wake,
            pulse=pulse,
        )
        self._receivers = [
            Receiver(
                queue=queue,
                presence=presence,
                engine=runner.engines.auto,
                sqs=polling,
                deliveries=self._deliveries,
                claimant=self._claimant,
                deployment_id=in_force.deployment_id,
                poll_seconds=self._settings.poll_seconds,
                start=self._start_attempt,
                run_alone=self._reserve_alone,
                wake_relay=self._relay.wake,
            )
            for queue, presence in self._presence.queues.items()
        ]
        await self._run()

    async def _run(self) -> None:
        """Receive until drained, then finish what is under way, in the order of a farewell."""
        log.info(
            "worker.started",
            worker_id=self._worker_id,
            queues=self._slots,
            kinds=sorted(self._kinds),
            lease_seconds=self._timing.lease,
        )
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._relay.run(self._finished), name="relay")
            tasks.create_task(self._deliveries.run(self._finished), name="deliveries")
            tasks.create_task(self._maintenance.run(self._draining), name="maintenance")
            receiving = [
                tasks.create_task(each.run(self._draining), name=f"receiver {each.queue}")
                for each in self._receivers
            ]
            await self._draining.wait()
            self._presence.state = "draining"
            await self._drain(receiving)
            self._finished.set()
        await self._farewell()

    async def _drain(self, receiving: list["asyncio.Task[None]"]) -> None:
        """Let jobs end or reach a checkpoint; hand the rest back uncharged, in time."""
        hurry = asyncio.ensure_future(self._hurry.wait())
        deadline = monotonic() + self._settings.drain_seconds - self._timing.margin
        reserve = min(self._settings.kill_grace_seconds + HURRY_SECONDS, self._timing.lease / 2)
        while (busy := {*self._attempts, *(t for t in receiving if not t.done())}) and (
            monotonic() < deadline - reserve
        ):
            await asyncio.wait(
                {*busy, hurry},
                timeout=deadline - reserve - monotonic(),
                return_when=asyncio.FIRST_COMPLETED,
            )
            if hurry.done():
                for task in receiving:
                    task.cancel()
                break
        hurry.cancel()
        self._releasing.set()
        if self._attempts:
            await asyncio.wait(
                set(self._attempts), timeout=max(HURRY_SECONDS, deadline - monotonic())
            )
        for task in receiving:
            task.cancel()

    async def _farewell(self) -> None:
        """Publish what the drain has staged, leave the table of workers, stop the heart."""
        try:
            async with asyncio.timeout(self._timing.margin + HURRY_SECONDS):
                await self._relay.flush()
                async with self._runner.engines.auto.connect() as conn:
                    await self._runner.heart.stop()
                    await leave(conn, self._worker_id)
        except Exception as error:  # noqa: BLE001 - it is leaving anyway
            log.warning("worker.left_untidy", error=told(error))
        log.info("worker.ended", exit_code=self._exit_code)

    def _start_attempt(self, receiver: Receiver, held: HeldLease) -> None:
        held.on_spawned = self._relay.wake
        task = asyncio.create_task(self._attempt(receiver, held))
        self._attempts.add(task)
        task.add_done_callback(self._attempts.discard)

    async def _attempt(self, receiver: Receiver, held: HeldLease) -> None:
        """One slot's work: the attempt, then its message; the slot is freed if it can be."""
        try:
            await self._runner.heart.protect()
            outcome = await run_attempt(self._runner, held)
            self._after(held, outcome)
        except Stuck as stuck:
            # Its slot is gone. End in order, so that the neighbours lose nothing.
            log.error("slot.stuck", reason=str(stuck))
            self._after(held, stuck.outcome)
            self._exit_code = EXIT_STUCK
            self._draining.set()
            return
        except Exception:  # noqa: BLE001 - our bug ends one attempt; its lease runs out
            log.exception("attempt.broken", job_id=str(held.lease.job_id))
        receiver.slot_freed()
        if not any(each.presence.slots != each.presence.free_slots for each in self._receivers):
            self._idle.set()

    def _after(self, held: HeldLease, outcome: Outcome) -> None:
        if isinstance(outcome, Lost):
            return  # no longer ours: write nothing, delete nothing
        if isinstance(outcome, Succeeded):
            self._relay.room()
        else:
            self._relay.wake()
        if isinstance(outcome, Failed):
            self._maintenance.cleanup_due()
            if held.guards.group is not None:
                self._maintenance.group_due()
        if held.delivery is not None:
            self._deliveries.delete(held.delivery)

    async def _reserve_alone(self, receiver: Receiver, job_id: JobId) -> bool:
        """Reserve the queue for a job that runs alone, and stop receiving; False: not now."""
        if self._alone is not None or self._draining.is_set():
            return False
        # Before anything is awaited: two receivers that both got here would wait for each other
        # for ever, under reservations that the heartbeat keeps alive.
        self._alone = job_id
        reserved = False
        try:
            async with self._runner.engines.auto.connect() as conn:
                reserved = await reserve_alone(
                    conn, receiver.queue, self._worker_id, job_id, self._timing.lease
                )
        finally:
            if not reserved:
                self._alone = None
        if not reserved:
            return False
        self._presence.state = "alone"
        for each in self._receivers:
            each.hold_back(on=True)
        task = asyncio.create_task(self._run_alone(receiver, job_id), name=f"alone {job_id}")
        self._attempts.add(task)
        task.add_done_callback(self._attempts.discard)
        return True

    async def _run_alone(self, receiver: Receiver, job_id: JobId) -> None:
        log.warning("worker.alone", job_id=str(job_id), queue=receiver.queue)
        try:
            await self._neighbours_gone()
            if self._draining.is_set():
                return
            auto = self._runner.engines.auto
            claimed = await claim_jobs(auto, self._claimant, [job_id], wait=True)
            if claimed:
                receiver.slot_taken()
                await self._attempt(receiver, claimed[0])
        except SQLAlchemyError as error:
            log.warning("alone.failed", job_id=str(job_id), error=told(error))
        finally:
            await self._leave_alone(receiver, job_id)

    async def _neighbours_gone(self) -> None:
        while len(self._attempts) > 1 and not self._draining.is_set():
            others = {task for task in self._attempts if task is not asyncio.current_task()}
            stop = asyncio.ensure_future(self._draining.wait())
            await asyncio.wait({*others, stop}, return_when=asyncio.FIRST_COMPLETED)
            stop.cancel()

    async def _leave_alone(self, receiver: Receiver, job_id: JobId) -> None:
        try:
            async with self._runner.engines.auto.connect() as conn:
                await free_alone(conn, receiver.queue, self._worker_id, job_id)
        except SQLAlchemyError as error:  # it expires by itself
            log.warning("alone.not_freed", error=told(error))
        finally:
            self._relay.wake()
            self._alone = None
            self._presence.state = "draining" if self._draining.is_set() else "working"
            for each in self._receivers:
                each.hold_back(on=False)
