"""What the api reads from its environment; everything is checked before anything is opened."""

import ipaddress
from typing import Self

from pydantic import Field, SecretStr, field_validator, model_validator

from shared.settings import SharedSettings, load

BODY_LIMIT_BYTES = 300 * 1024  # a payload of 256 KiB in its envelope
BACKGROUND_POOL_SIZE = 4  # the relay's parallel batches


class ApiSettings(SharedSettings):
    """Settings of one api process. It opens `api_pool_size` + 4 connections at most."""

    api_host: str = "127.0.0.1"
    api_port: int = Field(8000, ge=0, le=65_535)
    token: SecretStr | None = Field(None, description="one bearer token with every right")
    api_open: bool = Field(False, description="no token asked for, every right; loopback only")
    docs_public: bool = Field(False, description="/docs and /openapi.json ask for no token")
    api_keep_alive_seconds: int = Field(75, ge=2, le=7200, description="of an idle connection")
    balancer_idle_seconds: int = Field(60, ge=1, le=7200, description="of the one in front of us")
    api_pool_size: int = Field(10, ge=2, le=200)
    api_lock_timeout_seconds: float | None = Field(None, gt=0, description="of one request")
    api_command_timeout_seconds: float = Field(10.0, gt=0, le=300)
    api_pool_timeout_seconds: float = Field(3.0, gt=0, le=60)
    idempotency_hours: int = Field(
        72, ge=24, le=24 * 365, description="how long the answer to a key is kept"
    )
    idempotency_required: bool = Field(
        False, description="a submit without an Idempotency-Key is refused"
    )
    key_reaper_seconds: float = Field(60.0, gt=0, le=3600)
    watch_seconds: float = Field(60.0, gt=0, le=3600, description="from look to look")
    metrics_seconds: float = Field(10.0, gt=0, le=600, description="how old counts may be")
    metrics_timeout_seconds: float = Field(2.0, gt=0, le=60, description="of counting")

    @property
    def request_lock_timeout(self) -> float:
        """How long a request waits for a row (seconds), below the lease's own limit."""
        most = self.timing.lock_timeout
        return min(most, self.api_lock_timeout_seconds or 2.0)

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

    @property
    def longest_wait(self) -> float:
        """How long `?wait` may hold an answer back (seconds) before a balancer calls it silence."""
        return self.balancer_idle_seconds / 2

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
