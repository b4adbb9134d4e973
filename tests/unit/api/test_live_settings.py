"""Heartbeats of a stream and the balancer in front of it agree, or the api does not start."""

from typing import Any

import pytest
from pydantic import ValidationError

from api.__main__ import files_wanted
from api.settings import BACKGROUND_POOL_SIZE, ApiSettings


def settings(**given: Any) -> ApiSettings:
    """Settings with nothing but these."""
    return ApiSettings.model_validate({"database_url": "postgresql://x@y/z"} | given)


@pytest.mark.parametrize(("idle", "heartbeat"), [(60, 15.0), (3600, 15.0), (20, 5.0), (1, 0.25)])
def test_a_heartbeat_follows_the_balancer(idle: int, heartbeat: float) -> None:
    """Fifteen seconds, or four in its idle time-out."""
    chosen = settings(balancer_idle_seconds=idle, api_keep_alive_seconds=7200)
    assert chosen.live_heartbeat == heartbeat


@pytest.mark.parametrize("heartbeat", [30, 60, 100])
def test_a_heartbeat_that_a_balancer_would_miss_is_refused(heartbeat: float) -> None:
    """Both settings, their values and the rule are named."""
    with pytest.raises(ValidationError) as refused:
        settings(live_heartbeat_seconds=heartbeat)
    said = str(refused.value)
    assert f"CHOT_LIVE_HEARTBEAT_SECONDS={heartbeat}" in said
    assert "CHOT_BALANCER_IDLE_SECONDS=60" in said
    assert "two heartbeats must fit" in said
    assert settings(live_heartbeat_seconds=29.9).live_heartbeat == 29.9


def test_there_are_files_for_all_who_wait_for_jobs_and_all_who_follow_pages() -> None:
    """Both have as many places; without a file for each nobody is served, nor the database asked."""
    chosen = settings(live_listeners=5000)
    pools = chosen.api_pool_size + BACKGROUND_POOL_SIZE
    assert files_wanted(chosen) >= 2 * 5000 + pools
