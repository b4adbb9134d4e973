"""compose.yaml is what Compose reads, and confines what it starts."""

from typing import Any

import pytest
import yaml
from compose_spec import PyOptions

from api.settings import ApiSettings
from shared.settings import MigrateSettings
from tests.deploy.composed import check_of, image_of, in_order, words_of
from tests.deploy.test_templates import names_of
from tests.services import ROOT
from worker.settings import WorkerSettings

TEXT = (ROOT / "compose.yaml").read_text()
SERVICES: dict[str, dict[str, Any]] = yaml.safe_load(TEXT)["services"]
OURS = ("sqs", "queues", "migrate", "api", "worker")
# What its own start needs to hand its directory to its account and become it.
POSTGRES_MAY = {"CHOWN", "DAC_OVERRIDE", "FOWNER", "SETGID", "SETUID"}
SETTINGS = {"api": ApiSettings, "worker": WorkerSettings, "migrate": MigrateSettings}


def parsed(text: str) -> Any:
    """By the rules of the Compose specification; ValueError says which is broken."""
    options = PyOptions()
    options.apply_merge = True
    return options.from_yaml(text)


def test_it_is_as_the_specification_says() -> None:
    assert set(parsed(TEXT).service_names()) == set(SERVICES)


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("cap_drop: [ALL]", "cap_dropped: [ALL]"),
        ("condition: service_healthy", "condition: service_fine"),
        ("interval: 5s", "interval: five"),
    ],
)
def test_the_parser_sees_what_is_wrong(right: str, wrong: str) -> None:
    assert right in TEXT
    with pytest.raises(ValueError, match=r"."):
        parsed(TEXT.replace(right, wrong))


@pytest.mark.parametrize("name", SERVICES)
def test_a_container_is_confined(name: str) -> None:
    said = SERVICES[name]
    assert said["read_only"] is True
    assert said["cap_drop"] == ["ALL"]
    assert said["security_opt"] == ["no-new-privileges:true"]
    assert any(each.startswith("/tmp") for each in said["tmpfs"])  # noqa: S108
    assert set(said.get("cap_add", [])) == (POSTGRES_MAY if name == "postgres" else set())
    assert not {"privileged", "network_mode", "pid", "userns_mode", "devices"} & set(said)


@pytest.mark.parametrize("name", ["postgres", "sqs", "api", "worker"])
def test_what_stays_up_says_whether_it_is_well(name: str) -> None:
    check = SERVICES[name]["healthcheck"]
    assert check["test"][0] == "CMD", "no shell between"
    assert set(check) >= {"interval", "timeout"}


@pytest.mark.parametrize("name", sorted(SETTINGS))
def test_every_variable_is_one_that_the_process_reads(name: str) -> None:
    said = SERVICES[name]["environment"]
    ours = {each for each in said if each.startswith("CHOT_")}
    assert ours
    assert ours <= names_of(SETTINGS[name])


def test_only_the_api_can_be_reached_and_from_this_machine_only() -> None:
    ports = {name: said["ports"] for name, said in SERVICES.items() if "ports" in said}
    assert ports == {"api": ["127.0.0.1:8000:8000"]}


def test_nothing_waits_for_itself_and_what_is_waited_for_can_come() -> None:
    """Healthy is only what has a health check, and ended only what ends by itself."""
    order = in_order()
    assert order.index("migrate") < order.index("api")
    for name, said in SERVICES.items():
        for needed, how in said.get("depends_on", {}).items():
            if how["condition"] == "service_healthy":
                assert "healthcheck" in SERVICES[needed], f"{name} would wait for ever"
            else:
                assert how["condition"] == "service_completed_successfully"
                assert "restart" not in SERVICES[needed], f"{needed} never ends"


@pytest.mark.parametrize("name", OURS)
def test_what_a_container_runs_is_in_its_image(name: str) -> None:
    """Modules that were copied or installed into it; the whole is run by journeys/test_compose."""
    image = image_of(name)
    commands = [words_of(name)]
    if "healthcheck" in SERVICES[name]:
        commands.append(check_of(name))
    for first, *rest in commands:
        if first == "chot":
            assert "shared" in image.copied
            assert "deploy/install_here.py" in image.copied, "it puts the command on the PATH"
            continue
        assert first == "python"
        if rest[0] == "-m":
            module = rest[1].partition(".")[0]
            place = ROOT.joinpath(*rest[1].split("."))
            assert module in image.copied or module == "ministack"
            assert module == "ministack" or place.with_suffix(".py").exists() or place.is_dir()
        else:
            assert rest[0] == "-c"
