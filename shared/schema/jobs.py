"""Tables of schema `chot` as Core sees them; CHECKs and grants stand in the migrations."""

from sqlalchemy import (
    Boolean,
    Column,
    Double,
    ForeignKey,
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
from sqlalchemy.dialects.postgresql import ARRAY, BIGINT, INET, JSONB, TIMESTAMP, UUID

from shared.schema.metadata import metadata

INSTANT = TIMESTAMP(timezone=True)


def _text(name: str, *, required: bool = False) -> Column[str]:
    return Column(name, Text, nullable=not required)


def _instant(name: str, *, required: bool = False) -> Column[object]:
    return Column(name, INSTANT, nullable=not required)


def _count(name: str) -> Column[int]:
    return Column(name, Integer, nullable=False)


deployment = Table(
    "deployment",
    metadata,
    Column("one", Boolean, primary_key=True),
    Column("deployment_id", UUID, nullable=False),
    _instant("created_at", required=True),
    schema="chot",
)

queues = Table(
    "queues",
    metadata,
    Column("name", Text, primary_key=True),
    Column("paused", Boolean, nullable=False),
    _text("alone_worker"),
    _instant("alone_until"),
    Column("turns", BIGINT, nullable=False),
    Column("shares", JSONB, nullable=False),
    Column("weights", JSONB, nullable=False),
    _text("alone_kind"),
    _text("alone_company"),
    _text("alone_brand"),
    schema="chot",
)

kinds = Table(
    "kinds",
    metadata,
    Column("name", Text, primary_key=True),
    Column("queue", Text, ForeignKey("chot.queues.name"), nullable=False),
    _count("payload_version"),
    Column("fingerprint_fields", ARRAY(Text), nullable=False),
    _text("on_duplicate", required=True),
    _count("max_attempts"),
    _count("max_attempts_cap"),
    Column("timeout_seconds", Double, nullable=False),
    Column("locks", JSONB),
    _instant("updated_at", required=True),
    Column("max_running", Integer),
    Column("paused", Boolean, nullable=False),
    Column("widest_when_absent", ARRAY(Text), nullable=False),
    Column("internal", Boolean, nullable=False),
    _text("made_by"),
    _text("approval"),
    Column("by_account", Boolean, nullable=False),
    schema="chot",
)

freezes = Table(
    "freezes",
    metadata,
    Column("id", BIGINT, Identity(always=True), primary_key=True),
    _text("company", required=True),
    _text("brand"),
    _text("reason"),
    _text("principal", required=True),
    _instant("frozen_at", required=True),
    UniqueConstraint(
        "company", "brand", name="freezes_books_key", postgresql_nulls_not_distinct=True
    ),
    schema="chot",
)

running_limits = Table(
    "running_limits",
    metadata,
    Column("id", BIGINT, Identity(always=True), primary_key=True),
    _text("kind"),
    _text("company"),
    _text("brand"),
    _count("max_running"),
    _text("principal", required=True),
    _instant("set_at", required=True),
    UniqueConstraint(
        "kind",
        "company",
        "brand",
        name="running_limits_of_key",
        postgresql_nulls_not_distinct=True,
    ),
    schema="chot",
)

workers = Table(
    "workers",
    metadata,
    Column("worker_id", Text, primary_key=True),
    _text("host", required=True),
    _count("pid"),
    _text("code_version", required=True),
    Column("kinds", JSONB, nullable=False),
    _text("state", required=True),
    _instant("started_at", required=True),
    _instant("seen_at", required=True),
    _instant("live_until", required=True),
    schema="chot",
)

worker_queues = Table(
    "worker_queues",
    metadata,
    Column(
        "worker_id",
        Text,
        ForeignKey("chot.workers.worker_id", ondelete="CASCADE"),
        primary_key=True,
    ),
    Column("queue", Text, primary_key=True),
    _count("slots"),
    _count("free_slots"),
    _instant("free_since"),
    _instant("empty_receive_at"),
    schema="chot",
)

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
    _text("company", required=True),
    _text("brand"),
    _text("state", required=True),
    _text("policy", required=True),
    _text("outcome"),
    _count("generation"),
    _count("total"),
    _count("remaining"),
    _count("succeeded"),
    _count("dead"),
    _count("cancelled"),
    Column("join_job_id", UUID),
    Column("join_due", Boolean, nullable=False),
    _text("principal", required=True),
    _instant("opened_at", required=True),
    _instant("sealed_at"),
    _instant("ended_at"),
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
    _text("kind", required=True),
    _text("company", required=True),
    _text("brand"),
    _text("queue", required=True),
    _text("state", required=True),
    Column("priority", SmallInteger, nullable=False),
    _count("attempt"),
    _count("max_attempts"),
    _count("lost_leases"),
    _count("interruptions"),
    Column("fence", BIGINT, nullable=False),
    Column("lease_token", UUID),
    _instant("lease_expires_at"),
    _text("worker_id"),
    _instant("available_at", required=True),
    _text("blocked_by"),
    _count("checkpoint_no"),
    Column("progress_done", BIGINT),
    Column("progress_total", BIGINT),
    _text("progress_unit"),
    _text("progress_message"),
    Column("progress_rate", Double),
    _instant("progress_at"),
    Column("progress_fence", BIGINT),
    _instant("published_at"),
    _count("publishes"),
    Column("cleanup_due", Boolean, nullable=False),
    Column("fingerprint", LargeBinary, nullable=False),
    _text("on_duplicate", required=True),
    _count("payload_version"),
    Column("followup_payload", JSONB),
    Column("followup_version", Integer),
    _text("followup_principal"),
    Column("group_id", UUID),
    _text("principal", required=True),
    _text("trace"),
    _text("code_version"),
    Column("deployment_id", UUID, nullable=False),
    _instant("created_at", required=True),
    _instant("started_at"),
    _instant("finished_at"),
    _instant("redriven_at"),
    _text("redriven_by"),
    _text("redriven_approver"),
    Column("lock_roots", ARRAY(Text)),
    Column("joins", UUID),
    _instant("paused_at"),
    _text("approver"),
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
    _count("attempt"),
    _text("worker_id", required=True),
    Column("lease_token", UUID, nullable=False),
    _text("code_version", required=True),
    _instant("started_at", required=True),
    _instant("ended_at"),
    _text("outcome"),
    Column("error", JSONB),
    _count("claimed_checkpoint_no"),
    _count("checkpoint_no"),
    Column("queue_seconds", Double),
    schema="chot",
)

outbox = Table(
    "outbox",
    metadata,
    Column("id", BIGINT, Identity(always=True), primary_key=True),
    Column("job_id", UUID, nullable=False),
    _text("queue", required=True),
    _text("kind", required=True),
    _text("brand"),
    _text("trace"),
    Column("priority", SmallInteger, nullable=False),
    _instant("next_send_at", required=True),
    _count("sends"),
    Column("take_token", UUID),
    _text("last_error"),
    _instant("quarantined_at"),
    _instant("created_at", required=True),
    _text("company"),
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
    _text("kind", required=True),
    Column("fence", BIGINT, nullable=False),
    Column("turn", BIGINT, nullable=False),
    Column("take_token", UUID, nullable=False),
    _instant("taken_at", required=True),
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
    _instant("created_at", required=True),
    _instant("expires_at", required=True),
    schema="chot",
)
Index("idempotency_keys_expires_idx", idempotency_keys.c.expires_at)

dead_messages = Table(
    "dead_messages",
    metadata,
    Column("id", BIGINT, Identity(always=True), primary_key=True),
    _text("queue", required=True),
    _text("message_id", required=True),
    Column("body", LargeBinary, nullable=False),
    Column("attributes", JSONB, nullable=False),
    _text("reason", required=True),
    _count("receive_count"),
    _instant("created_at", required=True),
    UniqueConstraint("queue", "message_id"),
    schema="chot",
)

api_keys = Table(
    "api_keys",
    metadata,
    Column("key_id", Text, primary_key=True),
    Column("key_hash", LargeBinary, nullable=False),
    _text("principal", required=True),
    Column("roles", ARRAY(Text), nullable=False),
    _text("company"),
    Column("brands", ARRAY(Text)),
    _instant("created_at", required=True),
    _instant("expires_at"),
    _instant("revoked_at"),
    _instant("last_used_at"),
    schema="chot",
)

endings = Table(
    "endings",
    metadata,
    Column("id", BIGINT, Identity(always=True), primary_key=True),
    _text("kind", required=True),
    _text("state", required=True),
    _instant("at"),
    _text("queue"),
    _text("company"),
    _text("brand"),
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
    _instant("finished_at", required=True),
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

audit = Table(
    "audit",
    metadata,
    Column("id", BIGINT, Identity(always=True), primary_key=True),
    Column("at", INSTANT, primary_key=True),
    _text("action", required=True),
    _text("principal", required=True),
    _text("key_id"),
    Column("source", INET),
    Column("request_id", UUID),
    Column("job_id", UUID),
    _text("target"),
    _text("company"),
    _text("brand"),
    _text("approver"),
    Column("approval_id", UUID),
    Column("facts", JSONB, nullable=False),
    schema="chot",
)
Index("audit_brand_idx", audit.c.company, audit.c.brand, audit.c.at, audit.c.id)
Index("audit_principal_idx", audit.c.principal, audit.c.at, audit.c.id)
Index("audit_job_idx", audit.c.job_id, postgresql_where=text("job_id IS NOT NULL"))
Index(
    "audit_action_idx",
    audit.c.action,
    audit.c.at,
    audit.c.id,
    postgresql_where=text("action <> 'job.submit'"),
)

approvals = Table(
    "approvals",
    metadata,
    Column("id", UUID, primary_key=True),
    _text("action", required=True),
    _text("target", required=True),
    _text("company"),
    _text("brand"),
    _text("approver", required=True),
    _text("reason"),
    _instant("created_at", required=True),
    _instant("expires_at", required=True),
    _instant("used_at"),
    _text("used_by"),
    schema="chot",
)
Index(
    "approvals_open_key",
    approvals.c.action,
    approvals.c.target,
    approvals.c.approver,
    unique=True,
    postgresql_where=text("used_at IS NULL"),
)
