"""Checks: everything that an api's start would refuse, without starting it."""

from api.settings import BACKGROUND_POOL_SIZE, load_settings
from shared.kinds.registry import load_kinds
from shared.migrations.registry import load_tasks


def refuse_config() -> int:
    """Answer the connections that such an api opens at most; ConfigRefused as its start would."""
    settings = load_settings()
    load_kinds(settings.kind_modules)
    load_tasks(settings.task_modules)
    return settings.api_pool_size + BACKGROUND_POOL_SIZE
