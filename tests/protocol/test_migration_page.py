"""docs/migrations.md: the task that it shows does what the page says, as it stands there."""

import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from shared.kinds.migration import MigrationRunPayload
from shared.migrations.books import TASKS
from shared.migrations.registry import load_tasks
from tests.factories import execute, fetch
from tests.migrating import Migrating
from worker.migrations.registry import load_migrations
from worker.settings import MigrationSettings

PAGE = (Path(__file__).parents[2] / "docs" / "migrations.md").read_text()
TABLES = (
    "CREATE SCHEMA crm AUTHORIZATION chot_owner",
    "GRANT USAGE ON SCHEMA crm TO chot_app, chot_read",
    """CREATE TABLE crm.customers (
        id uuid PRIMARY KEY DEFAULT gen_random_uuid(), company text NOT NULL, city text)""",
    "GRANT SELECT, UPDATE ON crm.customers TO chot_app",
    "GRANT SELECT ON crm.customers TO chot_read",
    """INSERT INTO crm.customers (company, city)
       SELECT CASE WHEN n % 10 = 0 THEN 'OTHER' ELSE 'ACME' END,
              CASE WHEN n % 2 = 0 THEN 'Saigon' ELSE 'Huế' END FROM generate_series(1, 1000) AS n""",
)


def modules_of_the_page(patch: pytest.MonkeyPatch) -> None:
    """Both blocks of code as modules, named by the settings."""
    spec, code = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    names: dict[str, Any] = {}
    for name, source in (("page_tasks", spec), ("page_code", code)):
        module = ModuleType(name)
        module.__dict__.update(names)
        exec(compile(source, "migrations.md", "exec"), module.__dict__)  # noqa: S102 - our page
        names["RENAME"] = module.__dict__["RENAME"]
        patch.setitem(sys.modules, name, module)
    patch.setenv("CHOT_TASK_MODULES", "page_tasks")
    patch.setenv("CHOT_MIGRATION_MODULES", "page_code")
    load_tasks.cache_clear()
    load_migrations.cache_clear()


async def test_the_task_of_the_page_runs(
    migrating: Migrating, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A key of uuids, of one company, in several batches."""
    modules_of_the_page(monkeypatch)
    for statement in TABLES:
        await execute(migrating.owner, statement)
    params = {"old": "Saigon", "new": "TP.HCM"}
    result = await migrating.succeed("cities.rename", params=params, batch_size=100)
    assert result["counts"] == {"renamed": 400}
    assert result["batches"] >= 3
    cities = "SELECT company, city, count(*) AS n FROM crm.customers GROUP BY 1, 2"
    found = {(row.company, row.city): row.n for row in await fetch(migrating.app, cities)}
    assert found == {("ACME", "TP.HCM"): 400, ("ACME", "Huế"): 500, ("OTHER", "Saigon"): 100}


def test_the_page_names_every_task_and_every_setting() -> None:
    """And the members of the payload with their defaults."""
    for spec in TASKS:
        assert f"| `{spec.name}` |" in PAGE
        for parameter in spec.params.model_fields:
            assert f"`{parameter}`" in PAGE, (spec.name, parameter)
    for setting in MigrationSettings.model_fields:
        assert f"CHOT_{setting.upper()}" in PAGE
    for member, info in MigrationRunPayload.model_fields.items():
        assert f"`{member}`" in PAGE
        if isinstance(info.default, int) and not isinstance(info.default, bool):
            assert f"`{member}` ({info.default:,})" in PAGE
