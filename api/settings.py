"""What the api reads from its environment; everything is checked before anything is opened."""

import ipaddress
from typing import Self

from pydantic import Field, SecretStr, field_validator, model_validator

from api.source import read_networks
from shared.approvals import read_actions
from shared.audit import Action
from shared.settings import SharedSettings, load

BODY_LIMIT_BYTES = 300 * 1024  # a payload of 256 KiB in its envelope
BACKGROUND_POOL_SIZE = 4  # the relay's parallel batches


class ApiSettings(SharedSettings):
    """Settings of one api process. It opens `api_pool_size` + 4 connections at most."""

    api_host: str = Field("127.0.0.1", description="address to listen on")
    api_port: int = Field(8000, ge=0, le=65_535, description="port to listen on")
    token: SecretStr | None = Field(None, description="one bearer token with every right")
    api_open: bool = Field(False, description="no token asked for, every right; loopback only")
    docs_public: bool = Field(False, description="/docs and /openapi.json ask for no token")
    ui_plain_http: bool = Field(
        False, description="pages' cookies go over plain http, too: for a network you trust"
    )
    api_keep_alive_seconds: int = Field(75, ge=2, le=7200, description="of an idle connection")
    balancer_idle_seconds: int = Field(60, ge=1, le=7200, description="of the one in front of us")
    api_pool_size: int = Field(10, ge=2, le=200, description="connections for requests")
    api_lock_timeout_seconds: float | None = Field(None, gt=0, description="of one request")
    api_command_timeout_seconds: float = Field(
        10.0, gt=0, le=300, description="how long one statement may take"
    )
    api_pool_timeout_seconds: float = Field(
        3.0, gt=0, le=60, description="how long a request waits for a connection"
    )
    batch_body_bytes: int = Field(
        8 * 1024 * 1024,
        ge=BODY_LIMIT_BYTES,
        le=64 * 1024 * 1024,
        description="the longest body of a POST /v1/jobs:batch",
    )
    upload_bytes: int = Field(
        1 << 30, ge=1 << 20, le=64 << 30, description="the longest file of a POST /v1/files"
    )
    upload_days: float = Field(7.0, gt=0, le=365, description="how long an uploaded file is kept")
    idempotency_hours: int = Field(
        72, ge=24, le=24 * 365, description="how long the answer to a key is kept"
    )
    idempotency_required: bool = Field(
        False, description="a submit without an Idempotency-Key is refused"
    )
    rate_per_second: float = Field(
        200.0, ge=0, le=100_000, description="requests of an account, for long; 0: no limit"
    )
    rate_burst: int = Field(2000, ge=1, le=1_000_000, description="requests of an account, at once")
    max_pending: int = Field(
        100_000, ge=1, le=10_000_000, description="of a kind, company and brand; kinds may say less"
    )
    trusted_proxies: str = Field(
        "", description="networks whose X-Forwarded-For is believed, comma separated"
    )
    approvals: str = Field(
        "", description="actions that another account has to approve, comma separated"
    )
    approval_minutes: int = Field(60, ge=1, le=7 * 24 * 60, description="how long one is good for")
    key_reaper_seconds: float = Field(
        60.0, gt=0, le=3600, description="from batch to batch of expired idempotency keys"
    )
    watch_seconds: float = Field(60.0, gt=0, le=3600, description="from look to look")
    live_seconds: float = Field(
        0.5, ge=0.05, le=2, description="from look to look at jobs that somebody waits for"
    )
    live_listeners: int = Field(
        1000, ge=1, le=100_000, description="who may wait at once (?wait, /events), an account half"
    )
    live_pages: int = Field(
        100, ge=1, le=100_000, description="pages of one account kept live; more read themselves"
    )
    live_heartbeat_seconds: float | None = Field(
        None, gt=0, le=600, description="between comments in a stream; below the balancer's idle"
    )
    metrics_seconds: float = Field(10.0, gt=0, le=600, description="how old counts may be")
    metrics_timeout_seconds: float = Field(2.0, gt=0, le=60, description="of counting")

    @property
    def request_lock_timeout(self) -> float:
        """How long a request waits for a row (seconds), below the lease's own limit."""
        most = self.timing.lock_timeout
        return min(most, self.api_lock_timeout_seconds or 2.0)

    @property
    def scaled(self) -> dict[str, float]:
        """Those of this process, too."""
        return super().scaled | {
            "api_lock_timeout_seconds": self.request_lock_timeout,
            "live_heartbeat_seconds": self.live_heartbeat,
        }

    @property
    def approved_actions(self) -> frozenset[Action]:
        """The actions that ask for an approval."""
        return read_actions(self.approvals)

    @field_validator("trusted_proxies")
    @classmethod
    def _sound_networks(cls, said: str) -> str:
        read_networks(said)
        return said

    @field_validator("approvals")
    @classmethod
    def _known_actions(cls, said: str) -> str:
        read_actions(said)
        return said

    @field_validator("token")
    @classmethod
    def _printable_token(cls, token: SecretStr | None) -> SecretStr | None:
        if token is None or not token.get_secret_value():
            return None
        said = token.get_secret_value()
        if not (said.isascii() and said.isprintable() and " " not in said):
            raise ValueError("must be printable ASCII without spaces, or no client could send it")
        return token

    @model_validator(mode="after")
    def _open_to_loopback_only(self) -> Self:
        if self.api_open and not is_loopback(self.api_host):
            raise ValueError(
                f"CHOT_API_HOST={self.api_host} and CHOT_API_OPEN=true disagree: an api that asks "
                "for no token binds to a loopback address only"
            )
        if self.api_open and self.token is not None:
            raise ValueError(
                "CHOT_TOKEN (set) and CHOT_API_OPEN=true disagree: an open api asks for no token"
            )
        return self

    @model_validator(mode="after")
    def _somebody_to_approve(self) -> Self:
        if self.api_open and self.approvals:
            raise ValueError(
                f"CHOT_APPROVALS={self.approvals} and CHOT_API_OPEN=true disagree: an open api "
                "knows one account, and nobody approves what he asks for himself"
            )
        return self

    @property
    def longest_wait(self) -> float:
        """How long `?wait` may hold an answer back (seconds) before a balancer calls it silence."""
        return self.balancer_idle_seconds / 2

    @property
    def live_heartbeat(self) -> float:
        """How long a stream of events is silent (seconds): 15, or a quarter of what is allowed."""
        return self.live_heartbeat_seconds or min(15.0, self.balancer_idle_seconds / 4)

    @model_validator(mode="after")
    def _streams_are_never_idle(self) -> Self:
        if self.live_heartbeat_seconds and self.live_heartbeat_seconds >= (
            self.balancer_idle_seconds / 2
        ):
            raise ValueError(
                f"CHOT_LIVE_HEARTBEAT_SECONDS={self.live_heartbeat_seconds:g} and "
                f"CHOT_BALANCER_IDLE_SECONDS={self.balancer_idle_seconds} disagree: two heartbeats "
                "must fit, or a balancer cuts a stream that is alive"
            )
        return self

    @model_validator(mode="after")
    def _balancer_closes_first(self) -> Self:
        if self.api_keep_alive_seconds <= self.balancer_idle_seconds:
            raise ValueError(
                f"CHOT_API_KEEP_ALIVE_SECONDS={self.api_keep_alive_seconds} and "
                f"CHOT_BALANCER_IDLE_SECONDS={self.balancer_idle_seconds} disagree: keep-alive "
                "must be longer, or a request meets a connection that is being closed: 502"
            )
        return self

    @model_validator(mode="after")
    def _commands_outlast_locks(self) -> Self:
        if self.api_command_timeout_seconds <= self.request_lock_timeout:
            raise ValueError(
                f"CHOT_API_COMMAND_TIMEOUT_SECONDS={self.api_command_timeout_seconds:g} and "
                f"CHOT_API_LOCK_TIMEOUT_SECONDS={self.request_lock_timeout:g} disagree: "
                "a command must outlast the lock it waits for"
            )
        return self


def load_settings() -> ApiSettings:
    """Settings from the environment; ConfigRefused has one line for each that is wrong."""
    settings = load(ApiSettings)
    settings.timing.refuse_unsafe()
    return settings


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach a socket bound to `host`."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
