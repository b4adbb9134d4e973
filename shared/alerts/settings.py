"""Settings of alerts: who is told, and how often is looked."""

from typing import Self
from urllib.parse import urlsplit

from pydantic import Field, SecretStr, field_validator, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from shared.alerts.addresses import is_metadata
from shared.alerts.judging import refuse_unknown
from shared.alerts.rules import load_rules
from shared.errors import ConfigRefused

SHORTEST_SECRET = 16


class AlertSettings(BaseSettings):
    """What api and worker read about alerts; the same in both, or some are told less."""

    model_config = SettingsConfigDict(env_prefix="CHOT_", extra="ignore")

    alert_rules: str = Field(
        "", description="file of changes to the alert rules; unset = as shipped"
    )
    alert_seconds: float = Field(
        15.0, ge=0.05, le=300, description="from look to look at the alert rules, by one process"
    )
    alert_webhook_url: SecretStr | None = Field(
        None, description="alerts are sent there by POST; http or https"
    )
    alert_webhook_secret: SecretStr | None = Field(
        None, description="signs what is sent there (HMAC-SHA256)"
    )
    alert_sns_topic_arn: str | None = Field(
        None,
        pattern=r"^arn:aws[a-z-]*:sns:[a-z0-9-]+:\d{12}:[A-Za-z0-9_-]{1,256}$",
        description="alerts are published to this SNS topic",
    )
    cloudwatch_namespace: str | None = Field(
        None,
        pattern=r"^[A-Za-z0-9._/#:-]{1,255}$",
        description="metrics go to CloudWatch, each minute, by one process; unset = none",
    )

    @field_validator(
        "alert_webhook_url",
        "alert_webhook_secret",
        "alert_sns_topic_arn",
        "cloudwatch_namespace",
        mode="before",
    )
    @classmethod
    def _empty_is_unset(cls, given: object) -> object:
        """As of a variable that a template leaves empty."""
        return None if given == "" else given

    @field_validator("alert_rules")
    @classmethod
    def _sound_rules(cls, path: str) -> str:
        try:
            refuse_unknown(load_rules(path))
        except ConfigRefused as refusal:
            raise ValueError(str(refusal)) from None
        return path

    @field_validator("alert_webhook_url")
    @classmethod
    def _sound_webhook(cls, url: SecretStr | None) -> SecretStr | None:
        if url is not None:
            refuse_strange_address(url.get_secret_value())
        return url

    @field_validator("alert_webhook_secret")
    @classmethod
    def _long_secret(cls, secret: SecretStr | None) -> SecretStr | None:
        if secret is not None and len(secret.get_secret_value()) < SHORTEST_SECRET:
            raise ValueError(
                f"must have {SHORTEST_SECRET} characters at least: openssl rand -hex 24"
            )
        return secret

    @field_validator("cloudwatch_namespace")
    @classmethod
    def _our_own_namespace(cls, name: str | None) -> str | None:
        if name is not None and name.startswith("AWS/"):
            raise ValueError("begins with AWS/, which is for AWS's own metrics")
        return name

    @model_validator(mode="after")
    def _nothing_signed_in_vain(self) -> Self:
        if self.alert_webhook_secret is not None and self.alert_webhook_url is None:
            raise ValueError(
                "CHOT_ALERT_WEBHOOK_SECRET (set) and CHOT_ALERT_WEBHOOK_URL (not set) disagree: "
                "there is nothing to sign"
            )
        return self


def refuse_strange_address(url: str) -> None:
    """ValueError for what is no address of a webhook: other schemes, none, a cloud's own one."""
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"}:
        raise ValueError("must begin with https:// (or http://)")
    if not parts.hostname or not url.isascii() or any(c.isspace() for c in url):
        raise ValueError("names no host: https://alerts.example.com/chot")
    if parts.username is not None or parts.password is not None:
        raise ValueError("holds a user or password; sign with CHOT_ALERT_WEBHOOK_SECRET instead")
    if is_metadata(parts.hostname):
        raise ValueError("is a link-local address, or another where a cloud hands out credentials")
