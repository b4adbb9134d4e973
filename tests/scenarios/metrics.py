"""What /metrics says, and what a count of every row says."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import httpx
from prometheus_client.parser import text_string_to_metric_families
from sqlalchemy import text as sql
from sqlalchemy.ext.asyncio import AsyncConnection

GAUGES = ("pending", "running", "dead")
FINAL = ("succeeded", "cancelled")
STATES = (*GAUGES, *FINAL)


@dataclass(slots=True)
class Scraped:
    """One scrape: every sample by name and labels, in the order of their names."""

    samples: dict[tuple[str, tuple[tuple[str, str], ...]], float] = field(default_factory=dict)

    def value(self, name: str, **labels: str) -> float:
        """One sample; KeyError when it is not there."""
        return self.samples[name, tuple(sorted(labels.items()))]

    def total(self, name: str, **labels: str) -> float:
        """The sum of the samples that have these labels."""
        wanted = set(labels.items())
        return sum(
            value
            for (each, found), value in self.samples.items()
            if each == name and wanted <= set(found)
        )

    @property
    def states(self) -> dict[str, int]:
        """Jobs by state, of all kinds."""
        gauges = {state: int(self.total("chot_jobs", state=state)) for state in GAUGES}
        ended = {state: int(self.total("chot_jobs_ended_total", state=state)) for state in FINAL}
        return gauges | ended

    @property
    def submitted(self) -> int:
        """Jobs there have ever been."""
        return int(self.total("chot_jobs_submitted_total"))


async def scrape(http: httpx.AsyncClient) -> Scraped:
    """Ask /metrics, as Prometheus does; its parser reads the answer."""
    answer = await http.get("/metrics")
    assert answer.status_code == 200, answer.text
    return read_text(answer.text)


def read_text(text: str) -> Scraped:
    """What a scrape has said."""
    scraped = Scraped()
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            scraped.samples[sample.name, tuple(sorted(sample.labels.items()))] = sample.value
    return scraped


COUNT_ALL = sql("""
    SELECT state, count(*) AS jobs FROM (
        SELECT state FROM chot.jobs
        UNION ALL SELECT job ->> 'state' FROM chot.archived_jobs) AS j GROUP BY state""")


async def count_all(conn: AsyncConnection) -> dict[str, int]:
    """Jobs by state, counted one by one, the archive included."""
    found = {row.state: row.jobs for row in await conn.execute(COUNT_ALL)}
    return {state: found.get(state, 0) for state in STATES}


def states_of(counts: Mapping[str, Any]) -> dict[str, int]:
    """Jobs by state as shared.jobs.counts.read_counts has them."""
    found: Counter[str] = Counter({"pending": sum(row["jobs"] for row in counts["pending"])})
    for row in counts["others"]:
        found[row["state"]] += row["jobs"]
    return {state: found[state] for state in STATES}
