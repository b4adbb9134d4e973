"""How migrations are shown."""

from typing import Any

from pydantic import BaseModel, Field

from api.bodies import ProgressView, job_url, progress_view, show_instant
from api.problems import Problem
from shared.jobs.pace import Row
from shared.json_text import portable
from shared.types import JobState

INSTANTS = ("created_at", "started_at", "updated_at", "finished_at", "throttled_at", "paused_at")
PLAIN = (
    "company",
    "brand",
    "principal",
    "task",
    "version",
    "dry_run",
    "state",
    "phase",
    "rows_total",
    "rows_done",
    "rows_failed",
    "batches",
    "failed_tries",
    "batch_size",
    "last_batch_ms",
    "efficiency",
    "throttles",
)
JSON = ("params", "counts", "check_before", "check_after", "error")


class MigrationView(BaseModel):
    """A run of a task. `id` is its job's; what is not known yet is null."""

    id: str
    company: str
    brand: str | None
    principal: str
    task: str | None
    version: int | None
    params: dict[str, Any]
    dry_run: bool
    state: JobState
    paused: bool
    paused_at: str | None
    phase: str | None = Field(description="preparing, running, finishing, over or done")
    rows_total: int | None = Field(description="counted when the run began, or estimated")
    rows_done: int = Field(description="with those that failed")
    rows_failed: int = Field(description="set aside; see `links.rejects`")
    counts: dict[str, int] = Field(description="rows by outcome, as the task names them")
    batches: int
    failed_tries: int = Field(description="batches that were rolled back and tried smaller")
    batch_size: int | None
    last_batch_ms: int | None
    efficiency: float | None = Field(description="last_batch_ms by what a batch is to take")
    waits_for: str | None = Field(description="why it does not go on, as of `throttled_at`")
    throttles: int = Field(description="how often it has waited")
    throttled_at: str | None
    progress: ProgressView | None
    check_before: dict[str, Any] | None
    check_after: dict[str, Any] | None
    error: dict[str, Any] | None
    created_at: str
    started_at: str | None
    updated_at: str | None
    finished_at: str | None
    links: dict[str, str]


class BatchView(BaseModel):
    """A try of a batch. Keys are the task's key columns, as text."""

    number: int
    size: int = Field(description="how many rows were wanted")
    rows: int = Field(description="how many there were")
    ms: int
    outcome: str = Field(description="ok, split, timeout, conflict or rejected")
    key_from: list[str] | None
    key_to: list[str] | None
    error: str | None
    at: str


class FullMigration(MigrationView):
    """A run with where its cursor stands and its newest batches."""

    cursor: list[str] | None
    upper_bound: list[str] | None
    recent_batches: list[BatchView]


class MigrationPage(BaseModel):
    """Migrations, newest first; `next_cursor` is null at the end."""

    migrations: list[MigrationView]
    next_cursor: str | None


class RejectView(BaseModel):
    """A row that could not be taken. `line`, `field` and `value` are of tasks that read a file."""

    seq: int
    line: int | None
    key: list[str] | None
    field: str | None
    value: str | None
    code: str
    rule: str


class RejectPage(BaseModel):
    """Rejects in their order; `next_cursor` is null at the end."""

    rejects: list[RejectView]
    next_cursor: str | None


class PauseView(BaseModel):
    """Whether the run is paused now. One that is running ends its attempt after its batch."""

    id: str
    state: JobState
    paused: bool


def migration_not_found(job_id: object) -> Problem:
    """The 404 of a migration, and of a job that is none."""
    return Problem(slug="migration-not-found", detail=f"migration {job_id} is unknown here")


def migration_view(row: Row) -> dict[str, Any]:
    """What MigrationView describes."""
    job_id = str(row["id"])
    own = f"/v1/migrations/{job_id}"
    return (
        {"id": job_id}
        | {name: row[name] for name in PLAIN}
        | {name: portable(row[name]) for name in JSON}
        | {name: show_instant(row[name]) for name in INSTANTS}
        | {
            "paused": row["paused_at"] is not None,
            # What has ended waits for nothing, whatever it was waiting for.
            "waits_for": row["throttle_reason"] if row["finished_at"] is None else None,
            "progress": progress_view(row),
            "links": {
                "self": own,
                "job": job_url(row["id"]),
                "rejects": f"{own}/rejects",
                "pause": f"{own}/pause",
                "resume": f"{own}/resume",
            },
        }
    )


def full_migration(row: Row, batches: Any) -> dict[str, Any]:
    """What FullMigration describes."""
    return migration_view(row) | {
        "cursor": row["cursor_key"],
        "upper_bound": row["upper_bound"],
        "recent_batches": [dict(each) | {"at": show_instant(each["at"])} for each in batches],
    }
