"""What goes into the images: locks without holes, and Dockerfiles that a signal gets through."""

import re
import tomllib
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement

from shared.settings import load
from tests.architecture.locks import ROOT, lock_text, locked_names, normal, pins, project
from worker.settings import WorkerSettings

SIDES = ("api", "worker")
OTHER_SIDE = {"api": "worker", "worker": "api"}


def wanted(side: str) -> list[Requirement]:
    declared = project()
    return [Requirement(each) for each in declared["dependencies"]] + [
        Requirement(each) for each in declared["optional-dependencies"][side]
    ]


def numeric_libraries() -> list[str]:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    named = [
        each for each in contracts["contracts"] if each["name"] == "numbers stay in the worker"
    ]
    return [*named[0]["forbidden_modules"], "scipy", "numba", "duckdb"]


def dockerfile(side: str) -> str:
    return (ROOT / f"Dockerfile.{side}").read_text()


@pytest.mark.parametrize("side", SIDES)
def test_a_lock_pins_and_hashes_everything_it_names(side: str) -> None:
    text = re.sub(r"\\\n\s*", " ", lock_text(side))
    lines = [line for line in text.splitlines() if line and not line.lstrip().startswith("#")]
    assert lines
    for line in lines:
        assert re.match(r"[A-Za-z0-9._-]+==\S+ .*--hash=sha256:[0-9a-f]{64}", line), line


@pytest.mark.parametrize("side", SIDES)
def test_a_lock_names_no_index_and_no_option(side: str) -> None:
    text = lock_text(side)
    assert "://" not in text
    assert not re.search(r"^\s*-", text.replace("    --hash=", ""), re.MULTILINE)
    assert not re.search(r"index-url|find-links|trusted-host", text)


@pytest.mark.parametrize("side", SIDES)
def test_a_lock_still_answers_what_pyproject_asks(side: str) -> None:
    """Fails when a dependency was added or moved without `make lock`."""
    locked = pins(side)
    for requirement in wanted(side):
        version = locked.get(normal(requirement.name))
        assert version is not None, f"{requirement} is missing: make lock"
        assert requirement.specifier.contains(version), f"{requirement}, locked {version}"


def test_both_images_share_one_version_of_each_library() -> None:
    api, worker = pins("api"), pins("worker")
    assert {name: api[name] for name in api.keys() & worker.keys()} == {
        name: worker[name] for name in api.keys() & worker.keys()
    }


def test_the_api_image_holds_no_numeric_library() -> None:
    assert not set(locked_names("api")) & {normal(name) for name in numeric_libraries()}


def test_the_api_image_holds_no_dependency_of_the_worker_alone() -> None:
    declared = project()["optional-dependencies"]["worker"]
    ours = {normal(each.name) for each in wanted("api")}
    alone = {normal(Requirement(each).name) for each in declared} - ours
    assert not set(locked_names("api")) & alone


@pytest.mark.parametrize("side", SIDES)
def test_an_image_installs_by_hash_and_drops_root(side: str) -> None:
    text = dockerfile(side)
    assert f"--require-hashes --only-binary :all: -r requirements/{side}.txt" in text
    assert re.search(r"^USER [1-9][0-9]*:[1-9][0-9]*$", text, re.MULTILINE)


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.scenario("F16")
def test_sigterm_reaches_python_itself(side: str) -> None:
    """In shell form a shell is pid 1 and the drain never starts."""
    text = dockerfile(side)
    assert "\nSTOPSIGNAL SIGTERM\n" in text
    assert text.rstrip().endswith(f'ENTRYPOINT ["python", "-m", "{side}"]')


@pytest.mark.parametrize("side", SIDES)
def test_an_image_holds_only_its_own_side(side: str) -> None:
    copied = re.findall(r"^COPY (?!--from)(\S+)", dockerfile(side), re.MULTILINE)
    assert side in copied
    assert "shared" in copied
    assert OTHER_SIDE[side] not in copied
    assert ("alembic" in copied) == (side == "api"), "the api image migrates"


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((ROOT / "compose.yaml").read_text())
    return loaded


@pytest.mark.scenario("F16")
def test_compose_gives_a_worker_time_to_drain(
    compose: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in compose["services"]["worker"]["environment"].items():
        monkeypatch.setenv(name, value)
    settings = load(WorkerSettings)
    grace = float(compose["services"]["worker"]["stop_grace_period"].removesuffix("s"))
    assert grace >= settings.drain_seconds + settings.timing.margin
    assert grace >= settings.stop_timeout_seconds


def test_compose_starts_nothing_before_the_schema_is_there(compose: dict[str, Any]) -> None:
    done = {"condition": "service_completed_successfully"}
    for side in SIDES:
        assert compose["services"][side]["depends_on"] == {"migrate": done, "queues": done}


def test_compose_builds_the_dockerfiles_of_this_tree(compose: dict[str, Any]) -> None:
    named = {
        each["build"].get("dockerfile") for each in compose["services"].values() if "build" in each
    }
    assert {"Dockerfile.api", "Dockerfile.worker"} <= named
