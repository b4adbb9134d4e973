"""The runbook: a section for every alert, and commands that exist."""

import re

import asyncpg
import click
import pytest
from botocore import xform_name
from botocore.model import ServiceModel
from botocore.session import Session

from shared.alerts import load_rules
from shared.cli import chot
from tests.deploy.runbook import TEXT, anchor, blocks, commands, sections
from tests.deploy.templates import PLACE, template
from tests.services import ROOT, Database

PARTS = ("Looks like", "First look", "Causes", "Remedy")
ON_PURPOSE = ("Deploy", "Roll back", "Rotate", "Restore", "Drain", "Dead-letter day")
# Of `aws` itself, and of its one command that is no call of the API.
EVERYWHERE = {"query", "output", "region"}
DEPLOY = {"stack-name", "template-file", "parameter-overrides", "capabilities"}
# `aws` calls this one so, since --endpoint would be taken for --endpoint-url.
RENAMED = {"notification-endpoint": "endpoint"}
COMPLETE = {"base.yaml", "roles.yaml", "alarms.yaml"}


@pytest.mark.parametrize("rule", [each.name for each in load_rules()] + ["api_fails"])
def test_every_alert_has_a_section(rule: str) -> None:
    """Under the very name that the alert links to: how it looks, where to look, why, what to do."""
    text = sections()[rule]
    places = [text.index(f"**{part}**:") for part in PARTS]
    assert places == sorted(places)


@pytest.mark.parametrize("name", ON_PURPOSE)
def test_what_one_does_on_purpose_has_a_section(name: str) -> None:
    assert sections()[name].strip()


def test_every_alarm_of_the_templates_links_to_a_section() -> None:
    linked = {
        name
        for stack in ("chot", "alarms")
        for name in re.findall(r"docs/runbook\.md#(\w+)", (PLACE / f"{stack}.yaml").read_text())
    }
    assert len(linked) >= 10
    assert linked <= set(sections())


def test_every_link_leads_somewhere() -> None:
    anchors = {anchor(each) for each in sections()}
    for target in re.findall(r"\]\(([^)]+)\)", TEXT):
        page, _, place = target.partition("#")
        if not page:
            assert place in anchors, target
            continue
        other = (ROOT / "docs" / page).read_text()
        headings = re.findall(r"^#+ (.+)$", other, re.MULTILINE)
        assert not place or place in {anchor(each) for each in headings}, target


@pytest.mark.parametrize("words", commands("chot"), ids=" ".join)
def test_a_command_of_ours_is_one_that_exists(words: list[str]) -> None:
    """Parsed by the command itself, with every option; nothing is run."""
    command: click.Command = chot
    context = click.Context(chot, info_name="chot")
    rest = list(words)
    while isinstance(command, click.Group):
        found = command.get_command(context, rest[0])
        assert found is not None, rest[0]
        command, rest = found, rest[1:]
        context = click.Context(command, info_name=command.name, parent=context)
    command.make_context(command.name, rest, parent=context.parent)


def parameters_of(service: str, operation: str) -> tuple[set[str], set[str]]:
    """(all, required) parameters of a call, as `aws` spells them."""
    model = ServiceModel(Session().get_service_data(service))
    names = {xform_name(each, "-"): each for each in model.operation_names}
    shape = model.operation_model(names[operation]).input_shape
    assert shape is not None, "every call here takes something"
    spelled = {each: xform_name(each, "-") for each in shape.members}
    return set(spelled.values()), {spelled[each] for each in shape.required_members}


def options_of(words: list[str]) -> set[str]:
    """Without their values."""
    named = {each.removeprefix("--") for each in words if each.startswith("--")}
    return {RENAMED.get(each, each) for each in named}


@pytest.mark.parametrize("words", commands("aws"), ids=lambda words: " ".join(words[:2]))
def test_a_command_of_aws_is_one_that_exists(words: list[str]) -> None:
    """By AWS's own description of the call: its name, its options, those that it wants."""
    service, operation, given = words[0], words[1], options_of(words)
    if (service, operation) == ("cloudformation", "deploy"):
        refuse_strange_deployment(words, given)
        return
    if operation == "wait":
        waiters = Session().create_client(service, region_name="ap-southeast-1").waiter_names
        assert words[2].replace("-", "_") in waiters
        operation = {"tasks-stopped": "describe-tasks", "services-stable": "describe-services"}[
            words[2]
        ]
    known, required = parameters_of(service, operation)
    assert given - EVERYWHERE <= known
    assert required <= given


def refuse_strange_deployment(words: list[str], given: set[str]) -> None:
    """AssertionError unless the template is there and takes these parameters and rights."""
    assert given <= DEPLOY
    file = words[words.index("--template-file") + 1]
    said = template(file.removeprefix("deploy/").removesuffix(".yaml"))
    named = {word.split("=")[0] for word in words if re.match(r"[A-Z]\w+=", word)}
    assert named <= set(said["Parameters"])
    if file.removeprefix("deploy/") in COMPLETE:
        wanted = {name for name, each in said["Parameters"].items() if "Default" not in each}
        assert wanted <= named
    assert ("Transform" in said) == ("CAPABILITY_AUTO_EXPAND" in words)
    makes_roles = any(
        each["Type"].startswith("AWS::IAM::")
        for each in said["Resources"].values()
        if isinstance(each, dict)
    )
    assert makes_roles == ("CAPABILITY_IAM" in words)


@pytest.mark.parametrize("words", commands("buildah"), ids=lambda words: " ".join(words[-2:]))
def test_an_image_is_built_from_what_is_there(words: list[str]) -> None:
    assert words[0] in {"build", "push"}
    if words[0] == "build":
        text = (ROOT / words[words.index("-f") + 1]).read_text()
        for argument in re.findall(r"--build-arg (\w+)=", " ".join(words)):
            assert f"ARG {argument}" in text
        assert words[words.index("--format") + 1] == "docker", "OCI's knows no health check"


@pytest.mark.parametrize("statement", blocks("sql"))
async def test_a_statement_is_one_that_the_database_takes(
    statement: str, database: Database
) -> None:
    """Run as its owner would, and rolled back."""
    connection = await asyncpg.connect(database.superuser_url)
    running = connection.transaction()
    await running.start()
    await connection.execute(statement)
    await running.rollback()
    await connection.close()
