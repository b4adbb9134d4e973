"""Jobs, their groups, messages and ends as Core sees them; CHECKs and grants: in the migrations."""

from sqlalchemy import (
    Boolean,
    Column,
    Double,
    Identity,
    Index,
    Integer,
    LargeBinary,
    SmallInteger,
    Table,
    Text,
    UniqueConstraint,
    func,
    text,
)
from sqlalchemy.dialects.postgresql import ARRAY, BIGINT, JSONB, UUID

from shared.schema.columns import count, instant, plain
from shared.schema.metadata import metadata

lock_roots = Table(
    "lock_roots",
    metadata,
    Column("root", Text, primary_key=True),
    schema="chot",
)

groups = Table(
    "groups",
    metadata,
    Column("id", UUID, primary_key=True),
    plain("company", required=True),
    plain("brand"),
    plain("state", required=True),
    plain("policy", required=True),
    plain("outcome"),
    count("generation"),
    count("total"),
    count("remaining"),
    count("succeeded"),
    count("dead"),
    count("cancelled"),
    Column("join_job_id", UUID),
    Column("join_due", Boolean, nullable=False),
    plain("principal", required=True),
    instant("opened_at", required=True),
    instant("sealed_at"),
    instant("ended_at"),
    Column("self_join", Boolean, nullable=False),
    schema="chot",
)
Index(
    "groups_due_idx",
    groups.c.id,
    postgresql_where=text("state = 'cancelling' OR join_due"),
)

jobs = Table(
    "jobs",
    metadata,
    Column("id", UUID, primary_key=True),
    plain("kind", required=True),
    plain("company", required=True),
    plain("brand"),
    plain("queue", required=True),
    plain("state", required=True),
    Column("priority", SmallInteger, nullable=False),
    count("attempt"),
    count("max_attempts"),
    count("lost_leases"),
    count("interruptions"),
    Column("fence", BIGINT, nullable=False),
    Column("lease_token", UUID),
    instant("lease_expires_at"),
    plain("worker_id"),
    instant("available_at", required=True),
    plain("blocked_by"),
    count("checkpoint_no"),
    Column("progress_done", BIGINT),
    Column("progress_total", BIGINT),
    plain("progress_unit"),
    plain("progress_message"),
    Column("progress_rate", Double),
    instant("progress_at"),
    Column("progress_fence", BIGINT),
    instant("published_at"),
    count("publishes"),
    Column("cleanup_due", Boolean, nullable=False),
    Column("fingerprint", LargeBinary, nullable=False),
    plain("on_duplicate", required=True),
    count("payload_version"),
    Column("followup_payload", JSONB),
    Column("followup_version", Integer),
    plain("followup_principal"),
    Column("group_id", UUID),
    plain("principal", required=True),
    plain("trace"),
    plain("code_version"),
    Column("deployment_id", UUID, nullable=False),
    instant("created_at", required=True),
    instant("started_at"),
    instant("finished_at"),
    instant("redriven_at"),
    plain("redriven_by"),
    plain("redriven_approver"),
    Column("lock_roots", ARRAY(Text)),
    Column("joins", UUID),
    instant("paused_at"),
    plain("approver"),
    Column("approval_id", UUID),
    schema="chot",
)
Index(
    "jobs_active_fingerprint_key",
    jobs.c.fingerprint,
    unique=True,
    postgresql_where=text("state IN ('pending', 'running')"),
)
Index(
    "jobs_pending_queue_idx",
    jobs.c.queue,
    jobs.c.available_at,
    postgresql_include=["kind"],
    postgresql_where=text("state = 'pending'"),
)
Index(
    "jobs_pending_kind_idx",
    jobs.c.kind,
    jobs.c.company,
    jobs.c.brand,
    postgresql_where=text("state = 'pending'"),
)
Index(
    "jobs_held_idx",
    jobs.c.queue,
    jobs.c.kind,
    postgresql_where=text("state = 'pending' AND (paused_at IS NOT NULL OR joins IS NOT NULL)"),
)
Index("jobs_cancelled_idx", jobs.c.id, postgresql_where=text("state = 'cancelled'"))
Index("jobs_running_idx", jobs.c.id, postgresql_where=text("state = 'running'"))
Index("jobs_dead_idx", jobs.c.id, postgresql_where=text("state = 'dead'"))
Index("jobs_cleanup_idx", jobs.c.id, postgresql_where=text("cleanup_due"))
Index("jobs_company_idx", jobs.c.company, jobs.c.id)
Index("jobs_brand_idx", jobs.c.company, jobs.c.brand, jobs.c.id)
Index("jobs_kind_idx", jobs.c.kind, jobs.c.id)
Index("jobs_principal_idx", jobs.c.principal, jobs.c.id)
Index(
    "jobs_group_idx",
    jobs.c.group_id,
    jobs.c.id,
    postgresql_where=text("group_id IS NOT NULL"),
)
Index(
    "jobs_group_work_key",
    jobs.c.group_id,
    jobs.c.fingerprint,
    unique=True,
    postgresql_where=text("group_id IS NOT NULL"),
)

job_payloads = Table(
    "job_payloads",
    metadata,
    Column("job_id", UUID, primary_key=True),
    Column("payload", JSONB, nullable=False),
    schema="chot",
)

job_outputs = Table(
    "job_outputs",
    metadata,
    Column("job_id", UUID, primary_key=True),
    Column("checkpoint", JSONB),
    Column("result", JSONB),
    Column("error", JSONB),
    schema="chot",
)

attempts = Table(
    "attempts",
    metadata,
    Column("job_id", UUID, primary_key=True),
    Column("fence", BIGINT, primary_key=True),
    count("attempt"),
    plain("worker_id", required=True),
    Column("lease_token", UUID, nullable=False),
    plain("code_version", required=True),
    instant("started_at", required=True),
    instant("ended_at"),
    plain("outcome"),
    Column("error", JSONB),
    count("claimed_checkpoint_no"),
    count("checkpoint_no"),
    Column("queue_seconds", Double),
    schema="chot",
)

outbox = Table(
    "outbox",
    metadata,
    Column("id", BIGINT, Identity(always=True), primary_key=True),
    Column("job_id", UUID, nullable=False),
    plain("queue", required=True),
    plain("kind", required=True),
    plain("brand"),
    plain("trace"),
    Column("priority", SmallInteger, nullable=False),
    instant("next_send_at", required=True),
    count("sends"),
    Column("take_token", UUID),
    plain("last_error"),
    instant("quarantined_at"),
    instant("created_at", required=True),
    plain("company"),
    schema="chot",
)
Index(
    "outbox_order_idx",
    outbox.c.queue,
    outbox.c.priority,
    outbox.c.next_send_at,
    postgresql_where=text("quarantined_at IS NULL"),
)
Index(
    "outbox_company_lane_idx",
    outbox.c.queue,
    outbox.c.priority,
    func.coalesce(outbox.c.company, text("''")),
    func.coalesce(outbox.c.brand, text("''")),
    outbox.c.kind,
    outbox.c.next_send_at,
    outbox.c.id,
    postgresql_where=text("quarantined_at IS NULL"),
)
Index("outbox_job_idx", outbox.c.job_id)

published = Table(
    "published",
    metadata,
    Column("queue", Text, primary_key=True),
    Column("job_id", UUID, primary_key=True),
    plain("kind", required=True),
    Column("fence", BIGINT, nullable=False),
    Column("turn", BIGINT, nullable=False),
    Column("take_token", UUID, nullable=False),
    instant("taken_at", required=True),
    schema="chot",
)

idempotency_keys = Table(
    "idempotency_keys",
    metadata,
    Column("principal", Text, primary_key=True),
    Column("key", Text, primary_key=True),
    Column("request_digest", LargeBinary, nullable=False),
    Column("digest_version", SmallInteger, nullable=False),
    Column("status", SmallInteger, nullable=False),
    Column("headers", JSONB, nullable=False),
    Column("body", LargeBinary, nullable=False),
    Column("job_id", UUID),
    instant("created_at", required=True),
    instant("expires_at", required=True),
    schema="chot",
)
Index("idempotency_keys_expires_idx", idempotency_keys.c.expires_at)

dead_messages = Table(
    "dead_messages",
    metadata,
    Column("id", BIGINT, Identity(always=True), primary_key=True),
    plain("queue", required=True),
    plain("message_id", required=True),
    Column("body", LargeBinary, nullable=False),
    Column("attributes", JSONB, nullable=False),
    plain("reason", required=True),
    count("receive_count"),
    instant("created_at", required=True),
    UniqueConstraint("queue", "message_id"),
    schema="chot",
)

endings = Table(
    "endings",
    metadata,
    Column("id", BIGINT, Identity(always=True), primary_key=True),
    plain("kind", required=True),
    plain("state", required=True),
    instant("at"),
    plain("queue"),
    plain("company"),
    plain("brand"),
    schema="chot",
)

ending_totals = Table(
    "ending_totals",
    metadata,
    Column("kind", Text, primary_key=True),
    Column("state", Text, primary_key=True),
    Column("jobs", BIGINT, nullable=False),
    schema="chot",
)

archived_jobs = Table(
    "archived_jobs",
    metadata,
    Column("id", UUID, primary_key=True),
    instant("finished_at", required=True),
    Column("job", JSONB, nullable=False),
    Column("payload", JSONB),
    Column("result", JSONB),
    Column("error", JSONB),
    Column("attempts", JSONB, nullable=False),
    schema="chot",
)
Index("archived_jobs_finished_idx", archived_jobs.c.finished_at)
Index(
    "archived_jobs_group_idx",
    text("(job ->> 'group_id')"),
    archived_jobs.c.id,
    postgresql_where=text("(job ->> 'group_id') IS NOT NULL"),
)
