"""What a development stack is made of, and the environment its processes run in."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from dev.sqs import aws_environment, bucket_name
from shared.api_keys import key_id_of, new_key

ROOT = Path(__file__).parents[1]
# Ctrl-C should be quick, and nobody waits for a developer's long poll. Both may be overridden.
DEFAULTS = {"CHOT_POLL_SECONDS": "2", "CHOT_DRAIN_SECONDS": "5"}


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseUrls:
    """A migrated database as its three users see it; plain postgresql:// URLs."""

    superuser: str
    app: str
    read: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StackConfig:
    """What to start, and what is there already (`database`, `sqs_endpoint`).

    `port` 0 takes any free port; further apis get ports of their own. `env` goes to every api and
    worker and wins over everything else. `movements` 0 loads no sample company. `token` is a key,
    which the stack stores; any other text becomes the apis' CHOT_TOKEN.
    """

    home: Path
    workers: int = 2
    apis: int = 1
    port: int = 0
    movements: int = 0
    fresh: bool = False
    supervise: bool = True
    token: str = field(default_factory=new_key)
    queue_prefix: str = "chot"
    env: Mapping[str, str] = field(default_factory=dict)
    database: DatabaseUrls | None = None
    sqs_endpoint: str | None = None
    bin_dir: Path | None = None

    @property
    def logs(self) -> Path:
        """Where each child's output goes, one file a child."""
        return self.home / "logs"

    @property
    def has_key(self) -> bool:
        """Whether the token is a key, and not the apis' own setting."""
        return key_id_of(self.token) is not None

    def setting(self, name: str) -> str | None:
        """The value of a CHOT_* setting as the children will see it, if it is set at all."""
        return self.env.get(name) or os.environ.get(name) or DEFAULTS.get(name)


def base_environment(config: StackConfig) -> dict[str, str]:
    """Return the environment of every process of ours: inherited, with our own packages first.

    The working directory is importable, so that a user's own kinds are found, but after our
    packages: a project may have an `api` of its own.
    """
    inherited = {
        name: value for name, value in os.environ.items() if not name.startswith("AWS_ENDPOINT_URL")
    }
    inherited.pop("CHOT_MIGRATE_DATABASE_URL", None)
    paths = [str(ROOT), str(Path.cwd()), *filter(None, [inherited.get("PYTHONPATH")])]
    ours = {
        "PYTHONPATH": os.pathsep.join(paths),
        "PYTHONSAFEPATH": "1",
        "PYTHONUNBUFFERED": "1",
    }
    return {**DEFAULTS, **inherited, **ours, **config.env}


def child_environment(config: StackConfig, urls: DatabaseUrls, sqs_endpoint: str) -> dict[str, str]:
    """Return the environment of every api and worker, but for the api's port.

    Inherited CHOT_* settings pass through (kind modules, lease times); where the servers are and
    who may call is set here, and `config.env` wins over all.
    """
    ours = {
        "CHOT_DATABASE_URL": urls.app,
        "CHOT_READ_DATABASE_URL": urls.read,
        "CHOT_QUEUE_PREFIX": config.queue_prefix,
        "CHOT_FILES_BUCKET": bucket_name(config.queue_prefix),
        "CHOT_API_HOST": "127.0.0.1",
        "CHOT_TOKEN": "" if config.has_key else config.token,
        "CHOT_DOCS_PUBLIC": "true",  # or the printed address of /docs would open in no browser
    }
    return {**base_environment(config), **aws_environment(sqs_endpoint), **ours, **config.env}
