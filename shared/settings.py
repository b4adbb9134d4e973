"""Settings shared by api, worker and migrations: prefix CHOT_, validated at start-up."""

from dataclasses import asdict, dataclass
from inspect import signature
from typing import Self, TypeVar

from pydantic import Field, SecretStr, ValidationError, field_validator, model_validator
from pydantic_core import ErrorDetails
from pydantic_settings import BaseSettings, SettingsConfigDict

from shared.alerts.settings import AlertSettings
from shared.errors import ConfigRefused
from shared.limits import Limits

EX_CONFIG = 78
LARGEST_PORT = 65_535
URL_SCHEMES = frozenset({"postgres", "postgresql", "postgresql+asyncpg"})
DIALECT_OPTIONS = frozenset({"prepared_statement_cache_size"})  # SQLAlchemy's own, before asyncpg's
S = TypeVar("S", bound=BaseSettings)


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseTiming:
    """The times that ownership hangs on, in seconds.

    A lease is renewed every `heartbeat`; its owner stops `margin` before it would expire. The
    values that are not set scale with those that are (design: Heartbeat).
    """

    lease: float
    heartbeat: float
    visibility: float
    margin: float
    idle_in_transaction: float
    lock_timeout: float

    @property
    def statement(self) -> float:
        """After so long a statement of the protocol's own, which takes no time, is given up.

        It hangs on a half-open connection; on a server that is away the lease ends before.
        """
        return self.lease - self.margin

    def refuse_unsafe(self) -> None:
        """Raise ConfigRefused for a combination that could lose a lease or never free a lock."""
        border = min(self.lease, self.visibility)
        name = "CHOT_LEASE_SECONDS" if border == self.lease else "CHOT_VISIBILITY_SECONDS"
        if 3 * self.heartbeat + self.margin > border:
            raise ConfigRefused(
                f"CHOT_HEARTBEAT_SECONDS={self.heartbeat:g} and {name}={border:g} disagree: "
                f"3 × heartbeat + margin ({self.margin:g}) must be ≤ min(lease, visibility), "
                "so that one missed beat loses nothing"
            )
        if self.visibility < self.lease:
            raise ConfigRefused(
                f"CHOT_VISIBILITY_SECONDS={self.visibility:g} and "
                f"CHOT_LEASE_SECONDS={self.lease:g} disagree: visibility must be ≥ lease"
            )
        if not 0 < self.idle_in_transaction < self.lease:
            raise ConfigRefused(
                f"CHOT_IDLE_IN_TRANSACTION_SECONDS={self.idle_in_transaction:g} and "
                f"CHOT_LEASE_SECONDS={self.lease:g} disagree: 0 < idle in transaction < lease, "
                "or a stopped worker's open transaction holds its rows for ever"
            )
        if not 0 < self.lock_timeout < self.heartbeat:
            raise ConfigRefused(
                f"CHOT_LOCK_TIMEOUT_SECONDS={self.lock_timeout:g} and "
                f"CHOT_HEARTBEAT_SECONDS={self.heartbeat:g} disagree: 0 < lock timeout < heartbeat"
            )


def refuse_strange_url(url: SecretStr | None) -> SecretStr | None:
    """ValueError for what no attempt will ever connect to: it is no outage to be waited for."""
    # Here, because the command line reads settings and must start fast.
    from asyncpg import connect  # noqa: PLC0415
    from sqlalchemy.engine import make_url  # noqa: PLC0415
    from sqlalchemy.exc import ArgumentError  # noqa: PLC0415

    if url is None:
        return None
    try:
        parsed = make_url(url.get_secret_value())
    except (ArgumentError, ValueError):
        raise ValueError("must be a URL such as postgresql://user@host:5432/chot") from None
    if parsed.drivername not in URL_SCHEMES:
        raise ValueError("must begin with postgresql://")
    if not parsed.database:
        raise ValueError("names no database: postgresql://user@host:5432/chot")
    if parsed.port is not None and not 0 < parsed.port <= LARGEST_PORT:
        raise ValueError(f"has a port beyond {LARGEST_PORT}")
    unknown = sorted(set(parsed.query) - set(signature(connect).parameters) - DIALECT_OPTIONS)
    if unknown:
        raise ValueError(f"has options that asyncpg does not know: {', '.join(unknown)}")
    return url


class FilesSettings(BaseSettings):
    """Where uploaded files lie."""

    model_config = SettingsConfigDict(env_prefix="CHOT_", extra="ignore")

    files_bucket: str | None = Field(
        None, pattern=r"^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$", description="S3 bucket of uploads"
    )


class SharedSettings(FilesSettings, AlertSettings):
    """What every process of the platform reads from its environment."""

    database_url: SecretStr = Field(description="PostgreSQL as role app")
    read_database_url: SecretStr | None = Field(None, description="PostgreSQL as role read")
    queue_prefix: str = Field(
        "chot", pattern=r"^[A-Za-z0-9_-]{1,40}$", description="SQS queues are PREFIX-queue"
    )
    kind_modules: str = Field("", description="modules with KINDS, comma separated")
    task_modules: str = Field("", description="modules with TASKS, comma separated")
    relay_poll_seconds: float = Field(
        2.0, gt=0, le=60, description="from look to look at the outbox, when nobody wakes the relay"
    )
    ageing_seconds: float = Field(
        30.0, gt=0, le=86_400, description="a lane not served for so long rises by one priority"
    )
    max_attempts: int = Field(5, ge=1, le=100, description="for kinds that set none")
    log_format: str = Field(
        "auto", pattern=r"^(auto|json|text)$", description="auto: text on a terminal, else json"
    )

    lease_seconds: float = Field(
        30.0, gt=0, le=3600, description="a job is its worker's for so long, unless renewed"
    )
    heartbeat_seconds: float = Field(
        8.0, gt=0, le=1200, description="from renewal to renewal of all leases of a worker"
    )
    visibility_seconds: float = Field(
        60.0, gt=0, le=43_200, description="SQS hides a delivery for so long, unless extended"
    )
    margin_seconds: float | None = Field(
        None, ge=0, description="a worker stops a job so long before its lease ends"
    )
    idle_in_transaction_seconds: float | None = Field(
        None, gt=0, description="PostgreSQL ends a transaction that idles for so long"
    )
    lock_timeout_seconds: float | None = Field(
        None, gt=0, description="a transaction waits for a row for so long"
    )

    alert_due_seconds: float = Field(900.0, gt=0, description="a due job waits: alert")
    alert_transaction_seconds: float = Field(600.0, gt=0, description="one stays open: alert")
    alert_dead_rows: int = Field(100_000, ge=0, description="in a table of ours: alert")

    _sound_urls = field_validator("database_url", "read_database_url")(refuse_strange_url)

    @property
    def timing(self) -> LeaseTiming:
        """The lease's times with the unset ones scaled to those that are set."""

        def given(value: float | None, scaled: float) -> float:
            return scaled if value is None else value

        lease, beat = self.lease_seconds, self.heartbeat_seconds
        return LeaseTiming(
            lease=lease,
            heartbeat=beat,
            visibility=self.visibility_seconds,
            margin=given(self.margin_seconds, min(4.0, lease * 2 / 15)),
            idle_in_transaction=given(self.idle_in_transaction_seconds, min(20.0, lease * 2 / 3)),
            lock_timeout=given(self.lock_timeout_seconds, min(4.0, beat / 2)),
        )

    @property
    def scaled(self) -> dict[str, float]:
        """What settings that may be unset are then, by their names: derived from others."""
        times = asdict(self.timing)
        return {f"{name}_seconds": round(value, 3) for name, value in times.items()}

    @property
    def limits(self) -> Limits:
        """From when on the watch tells a human."""
        return Limits(
            due_seconds=self.alert_due_seconds,
            transaction_seconds=self.alert_transaction_seconds,
            dead_rows=self.alert_dead_rows,
        )

    @model_validator(mode="after")
    def _whole_seconds_of_visibility(self) -> Self:
        if self.visibility_seconds != int(self.visibility_seconds):
            raise ValueError("CHOT_VISIBILITY_SECONDS must be whole seconds: SQS knows no others")
        return self


class MigrateSettings(BaseSettings):
    """What a migration reads: the owner's URL, or the app's when there is no other."""

    model_config = SettingsConfigDict(env_prefix="CHOT_", extra="ignore")

    migrate_database_url: SecretStr | None = Field(None, description="PostgreSQL as its owner")
    database_url: SecretStr | None = Field(None, description="where the former is not set")


def load_migrate_url() -> str:
    """URL to migrate with; ConfigRefused when neither of the two settings is there, or it is none.

    A driver that is given what is none answers with words of its own, a password among them.
    """
    settings = MigrateSettings()
    url = settings.migrate_database_url or settings.database_url
    if url is None:
        raise ConfigRefused(
            "CHOT_MIGRATE_DATABASE_URL is not set: migrate, keys and doctor need PostgreSQL as "
            "its owner, e.g. postgresql://postgres@localhost:5432/chot; `chot dev` (`make up`) "
            "prints a line that exports that of its own"
        )
    name = "CHOT_MIGRATE_DATABASE_URL" if settings.migrate_database_url else "CHOT_DATABASE_URL"
    try:
        refuse_strange_url(url)
    except ValueError as error:
        raise ConfigRefused(f"{name}: {error}") from None
    return url.get_secret_value()


def load(kind: type[S]) -> S:
    """Read settings from the environment; ConfigRefused names every variable that is wrong."""
    try:
        return kind()
    except ValidationError as error:
        prefix = str(kind.model_config.get("env_prefix", ""))
        lines = [_said(prefix, item) for item in error.errors(include_url=False)]
        raise ConfigRefused("\n".join(lines)) from None


def _said(prefix: str, item: ErrorDetails) -> str:
    """One wrong setting as a sentence; never a secret, never the whole environment."""
    name = prefix + "_".join(str(part) for part in item["loc"]).upper()
    if item["type"] == "missing":
        return f"{name} is not set"
    if not item["loc"]:
        return item["msg"].removeprefix("Value error, ")
    shown = "" if name.endswith(("_URL", "_TOKEN", "_SECRET")) else f"={item['input']!r}"
    return f"{name}{shown}: {item['msg'].removeprefix('Value error, ')}"
