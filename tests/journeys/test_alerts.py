"""With real processes: an api tells that there is no worker, and that there is one again."""

import asyncio
from pathlib import Path

import httpx
from sqlalchemy.ext.asyncio import AsyncEngine

from tests.factories import eventually, make_job
from tests.fleet import Fleet
from tests.protocol.alerts.listening import receiving

# As shipped, but without the minutes that a rule has to be broken for.
HURRY = """
[[rule]]
name = "no_worker_for_kind"
for_seconds = 0
resolve_seconds = 0
"""


async def test_an_api_tells_that_no_worker_is_there_until_one_is(
    fleet: Fleet, probes: AsyncEngine, tmp_path: Path
) -> None:
    """Two apis look, one tells; a worker comes, and it is over."""
    rules = tmp_path / "rules.toml"
    rules.write_text(HURRY)
    with receiving() as receiver:
        settings = {
            "CHOT_ALERT_RULES": str(rules),
            "CHOT_ALERT_SECONDS": "0.2",
            "CHOT_ALERT_WEBHOOK_URL": receiver.url,
        }
        (_, url), _ = [await asyncio.to_thread(lambda: fleet.api(**settings)) for _ in range(2)]
        await make_job(probes)
        fires, over = (("no_worker_for_kind", said) for said in ("firing", "resolved"))

        async def told() -> bool:
            return fires in receiver.told()

        await eventually(told)
        async with httpx.AsyncClient() as client:
            shown = (await client.get(f"{url}/v1/alerts")).json()
            numbers = (await client.get(f"{url}/metrics")).text
        (alert,) = [each for each in shown["alerts"] if each["rule"] == "no_worker_for_kind"]
        assert (alert["subject"], alert["severity"]) == ("kind=probe.write", "critical")
        assert [each["channel"] for each in shown["channels"]] == ["webhook"]
        assert 'chot_unserved_due{kind="probe.write"} 1.0' in numbers
        fleet.worker(**settings)

        async def is_over() -> bool:
            return over in receiver.told()

        await eventually(is_over, seconds=30)
        mine = [each for each in receiver.told() if each[0] == "no_worker_for_kind"]
        assert mine == [fires, over]
