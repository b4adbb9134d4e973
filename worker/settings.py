"""Settings of the worker, and what it refuses to start with."""

from dataclasses import dataclass
from typing import Self

from pydantic import Field, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from shared.errors import ConfigRefused
from shared.settings import LARGEST_PORT, SharedSettings
from shared.sqs import VISIBILITY_CAP_SECONDS, QueueFacts

# Beside the slots: one receiver's claim, the relay's parallel batches, the maintenance loops.
RELAY_CONNECTIONS = 4
MAINTENANCE_CONNECTIONS = 2
LEAST_AUDIT_DAYS = 365  # chot.drop_month() refuses less, whoever asks
FARGATE_LONGEST_STOP_SECONDS = 120


class CostingSettings(BaseSettings):
    """What the costing of a period reads."""

    model_config = SettingsConfigDict(env_prefix="CHOT_", extra="ignore")

    costing_part_movements: int = Field(
        500_000, ge=0, description="a larger costing is shared by jobs of so many; 0 = never"
    )


class MigrationSettings(BaseSettings):
    """What a data migration reads, and when it waits for the server to have room."""

    model_config = SettingsConfigDict(env_prefix="CHOT_", extra="ignore")

    migration_modules: str = Field("", description="modules with MIGRATIONS, comma separated")
    migration_interrupt_seconds: float = Field(
        300.0, gt=0, le=3000, description="an attempt hands a run back for so long a time"
    )
    migration_wait_seconds: float = Field(
        30.0, ge=1, le=3600, description="a run that waits for the server looks again after that"
    )
    migration_replica_lag_seconds: float = Field(
        30.0, ge=0, description="runs wait while a replica is further behind; 0 = never"
    )
    migration_wal_bytes: int = Field(
        8 * 2**30, ge=0, description="runs wait while a slot keeps more WAL; 0 = never"
    )
    migration_connections_percent: int = Field(
        85, ge=0, le=100, description="runs wait while more are in use; 0 = never"
    )


class WorkerSettings(SharedSettings, CostingSettings, MigrationSettings):
    """What the worker reads beside the shared settings."""

    handler_modules: str = Field("", description="modules with HANDLERS, comma separated")
    concurrency: int = Field(4, ge=1, le=500, description="slots of each queue")
    queues: str = Field("", description="'costing:2,default:8'; empty = every queue of its kinds")
    pool_size: int | None = Field(None, ge=1, description="app connections; unset = what it needs")
    reaper_seconds: float = Field(
        5.0, gt=0, le=600, description="from look to look for leases that have run out"
    )
    reconciler_seconds: float = Field(
        60.0, gt=0, le=900, description="from look to look for messages that SQS has lost"
    )
    retention_seconds: float = Field(60.0, gt=0, le=3600, description="from batch to batch")
    archive_after_days: float = Field(30.0, ge=0, description="ended jobs move away; 0 = never")
    archive_keep_days: float = Field(
        0.0, ge=0, description="ended jobs are removed, with the month they were made in; 0 = never"
    )
    audit_keep_days: float = Field(
        0.0, ge=0, description="months of the audit are dropped; 0 = never, else at least 365"
    )
    drain_seconds: float = Field(
        90.0, gt=0, description="after SIGTERM jobs may go on for so long, then are handed back"
    )
    stop_timeout_seconds: float = Field(120.0, gt=0, description="SIGTERM to SIGKILL, as deployed")
    poll_seconds: int = Field(20, ge=1, le=20, description="SQS long poll")
    kill_grace_seconds: float = Field(5.0, gt=0, description="from a cancel to giving a task up")
    visibility_cap_seconds: float = Field(
        VISIBILITY_CAP_SECONDS,
        gt=0,
        le=VISIBILITY_CAP_SECONDS,
        description="SQS hides a delivery no longer in all; then it is deleted",
    )
    liveness_file: str = Field("", description="touched while alive; unset = in the temp directory")
    worker_metrics_port: int = Field(
        0, ge=0, le=LARGEST_PORT, description="serves /metrics and /healthz; 0 = off"
    )
    worker_metrics_host: str = Field("127.0.0.1", description="address it listens on, without key")
    alert_hook: str = Field("", description="module:function called on every alert")

    @model_validator(mode="after")
    def _keeps_what_it_archives(self) -> Self:
        if 0 < self.archive_keep_days <= self.archive_after_days:
            raise ConfigRefused(
                f"CHOT_ARCHIVE_AFTER_DAYS={self.archive_after_days:g} and "
                f"CHOT_ARCHIVE_KEEP_DAYS={self.archive_keep_days:g} disagree: both count from a "
                "job's end, and it must be kept for longer than until it moves (0 = for ever)"
            )
        if self.archive_keep_days and not self.archive_after_days:
            raise ConfigRefused(
                f"CHOT_ARCHIVE_AFTER_DAYS=0 and CHOT_ARCHIVE_KEEP_DAYS={self.archive_keep_days:g} "
                "disagree: what never moves into the archive is never removed from it"
            )
        if 0 < self.audit_keep_days < LEAST_AUDIT_DAYS:
            raise ConfigRefused(
                f"CHOT_AUDIT_KEEP_DAYS={self.audit_keep_days:g}: the audit is kept for "
                f"{LEAST_AUDIT_DAYS} days at least (0 = for ever)"
            )
        return self

    @model_validator(mode="after")
    def _drains_in_time(self) -> Self:
        self.timing.refuse_unsafe()
        margin = self.timing.margin
        if self.drain_seconds + margin > self.stop_timeout_seconds:
            raise ConfigRefused(
                f"CHOT_DRAIN_SECONDS={self.drain_seconds:g} and "
                f"CHOT_STOP_TIMEOUT_SECONDS={self.stop_timeout_seconds:g} disagree: "
                f"drain + margin ({margin:g}) must be ≤ stop timeout, or SIGKILL ends the drain"
            )
        if self.stop_timeout_seconds > FARGATE_LONGEST_STOP_SECONDS:
            raise ConfigRefused(
                f"CHOT_STOP_TIMEOUT_SECONDS={self.stop_timeout_seconds:g}: ECS on Fargate waits "
                f"{FARGATE_LONGEST_STOP_SECONDS} s at most"
            )
        return self


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolBudget:
    """App connections of this process: slots, claims, relay, maintenance."""

    slots: int
    receivers: int

    @property
    def needed(self) -> int:
        """Connections that may be wanted at the same moment."""
        return self.slots + self.receivers + RELAY_CONNECTIONS + MAINTENANCE_CONNECTIONS


def pool_size_of(settings: WorkerSettings, budget: PoolBudget) -> int:
    """The pool's size; ConfigRefused when the one that is set cannot serve the slots."""
    if settings.pool_size is not None and settings.pool_size < budget.needed:
        raise ConfigRefused(
            f"CHOT_POOL_SIZE={settings.pool_size} and CHOT_CONCURRENCY={settings.concurrency} "
            f"disagree: {budget.slots} slots + {budget.receivers} receivers + relay "
            f"{RELAY_CONNECTIONS} + maintenance {MAINTENANCE_CONNECTIONS} = {budget.needed} "
            "connections must be ≤ pool size (the heartbeat has its own)"
        )
    return settings.pool_size or budget.needed


def slots_of(settings: WorkerSettings, queues: set[str]) -> dict[str, int]:
    """Slots of each queue this worker takes; `queues` are those its handlers serve."""
    if not settings.queues.strip():
        return dict.fromkeys(sorted(queues), settings.concurrency)
    chosen: dict[str, int] = {}
    for part in settings.queues.split(","):
        name, _, count = (piece.strip() for piece in part.partition(":"))
        if name not in queues:
            raise ConfigRefused(
                f"CHOT_QUEUES={settings.queues!r} names queue {name!r}; this worker's handlers "
                f"serve {', '.join(sorted(queues))}"
            )
        if count and not (count.isdecimal() and 1 <= int(count) <= 500):
            raise ConfigRefused(f"CHOT_QUEUES={settings.queues!r}: {count!r} is no 1 to 500 slots")
        chosen[name] = int(count) if count else settings.concurrency
    return chosen


def refuse_queue(settings: WorkerSettings, queue: str, facts: QueueFacts, attempts: int) -> None:
    """Raise ConfigRefused for a real queue on which jobs would be lost to SQS's own rules."""
    name = f"{settings.queue_prefix}-{queue}"
    if facts.max_receive_count is not None and facts.max_receive_count < 10 * attempts:
        raise ConfigRefused(
            f"queue {name}: maxReceiveCount={facts.max_receive_count} and max_attempts={attempts} "
            "disagree: maxReceiveCount must be ≥ 10 × max_attempts, since SQS counts receives, "
            "not attempts"
        )
    dead = facts.dead_letter_retention_seconds
    if dead is not None and dead <= facts.retention_seconds:
        raise ConfigRefused(
            f"queue {name}: retention {facts.retention_seconds} s and its dead-letter queue's "
            f"{dead} s disagree: the dead-letter queue must keep longer, it keeps the first "
            "enqueue time"
        )
    if facts.visibility_seconds < settings.timing.lease:
        raise ConfigRefused(
            f"queue {name}: VisibilityTimeout={facts.visibility_seconds} and "
            f"CHOT_LEASE_SECONDS={settings.timing.lease:g} disagree: visibility must be ≥ lease"
        )
