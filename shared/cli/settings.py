"""What the command line itself reads from its environment."""

from typing import TypeVar

from pydantic import Field, SecretStr, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from shared.cli.exits import Exit, Failure
from shared.client.address import checked_token, checked_url
from shared.errors import ConfigRefused
from shared.settings import load

S = TypeVar("S", bound=BaseSettings)


class ClientSettings(BaseSettings):
    """Where the api is, and who we are."""

    model_config = SettingsConfigDict(env_prefix="CHOT_", extra="ignore")

    api_url: str = Field("http://127.0.0.1:8000", description="the api, without /v1")
    token: SecretStr | None = Field(None, description="bearer token for the api")

    @field_validator("api_url")
    @classmethod
    def _absolute(cls, url: str) -> str:
        return checked_url(url)

    @field_validator("token")
    @classmethod
    def _a_key(cls, token: SecretStr | None) -> SecretStr | None:
        """Set to nothing is not set, as everywhere in a shell."""
        said = "" if token is None else token.get_secret_value()
        return SecretStr(checked_token(said)) if said else None


def settings_of(kind: type[S]) -> S:
    """Read settings; a Failure with exit code 78 names each one that is wrong."""
    try:
        return load(kind)
    except ConfigRefused as refusal:
        raise Failure(str(refusal), code=Exit.CONFIG) from None
