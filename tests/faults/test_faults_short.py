"""The fault suite in its everyday size: one seed, every check. `make faults` is the long form."""

import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.faults.backing import Backing, open_backing
from tests.faults.runner import Plan, Verdict, numbers, run_one


@pytest.fixture
async def backing() -> AsyncIterator[Backing]:
    """Servers of this test's own: they are crashed."""
    chosen = os.environ.get("CHOT_TEST_POSTGRES_BIN")
    async with open_backing(Path(chosen) if chosen else None) as opened:
        yield opened


def hold(verdict: Verdict) -> None:
    """Nothing was violated; the evidence is where the message says."""
    print(numbers(verdict))  # noqa: T201 - the numbers of a run are its result
    assert verdict.violations == [], f"evidence in {verdict.home}"
    assert verdict.failures == []


async def test_a_short_storm_of_faults_breaks_no_promise(backing: Backing, tmp_path: Path) -> None:
    plan = Plan(seed=20261129, seconds=12, drain_seconds=90)
    verdict = await run_one(backing, plan, tmp_path / "run")
    hold(verdict)
    assert len(verdict.evidence.windows) >= 5, "there were faults"
    assert len(verdict.evidence.effects) >= 20, "there was work"
    assert verdict.evidence.groups, "there were groups"
    assert numbers(verdict)["met"] > 0, "some had to wait for others' locks"


@pytest.mark.long
@pytest.mark.parametrize("seed", [101, 102])
async def test_a_long_storm_of_faults_breaks_no_promise(
    backing: Backing, tmp_path: Path, seed: int
) -> None:
    hold(await run_one(backing, Plan(seed=seed, seconds=90), tmp_path / "run"))


@pytest.mark.long
async def test_a_restored_backup_breaks_no_promise(backing: Backing, tmp_path: Path) -> None:
    plan = Plan(seed=103, seconds=60, restores=True)
    verdict = await run_one(backing, plan, tmp_path / "run")
    hold(verdict)
    assert any(window.fault == "restored" for window in verdict.evidence.windows)
