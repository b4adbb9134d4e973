"""The CloudFormation templates as Python values, and an emulator that they are applied to."""

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import boto3
import yaml

from dev.processes import Command, answers, free_port, start, wait_until
from dev.sqs import CREDENTIALS, HEALTH_PATHS, REGION, _ministack
from tests.services import ROOT

PLACE = ROOT / "deploy"
# In the order in which they are applied.
STACKS = ("base", "roles", "migrate", "chot", "alarms")
SERVICES = "sqs,s3,cloudformation,iam,ecs,elbv2,logs,cloudwatch,sns,ec2,ecr,sts,ssm,kms"
STACK_SECONDS = 30.0
IMAGE = "123456789012.dkr.ecr.ap-southeast-1.amazonaws.com/chot"
CERTIFICATE = f"arn:aws:acm:{REGION}:000000000000:certificate/11111111-2222-3333-4444-555555555555"


class TemplateLoader(yaml.SafeLoader):  # type: ignore[misc] # yaml has no types
    """YAML with CloudFormation's short forms."""


def _short_form(loader: TemplateLoader, suffix: str, node: yaml.Node) -> dict[str, Any]:
    if isinstance(node, yaml.ScalarNode):
        value: Any = loader.construct_scalar(node)
    elif isinstance(node, yaml.SequenceNode):
        value = loader.construct_sequence(node, deep=True)
    else:
        assert isinstance(node, yaml.MappingNode)
        value = loader.construct_mapping(node, deep=True)
    if suffix == "GetAtt" and isinstance(value, str):
        value = value.split(".", 1)
    return {suffix if suffix in {"Ref", "Condition"} else f"Fn::{suffix}": value}


TemplateLoader.add_multi_constructor("!", _short_form)


def template(name: str) -> dict[str, Any]:
    """One template with its short forms written out."""
    text = (PLACE / f"{name}.yaml").read_text()
    loaded: dict[str, Any] = yaml.load(text, Loader=TemplateLoader)  # noqa: S506 - a safe one
    return loaded


def resources(name: str) -> dict[str, Any]:
    """Its resources; those of a loop under the name that they have in it."""
    found: dict[str, Any] = {}
    for key, value in template(name)["Resources"].items():
        found |= value[2] if key.startswith("Fn::ForEach") else {key: value}
    return found


def of_type(name: str, kind: str) -> dict[str, Any]:
    """Properties of the resources of one type, by their names."""
    return {
        key: each.get("Properties", {})
        for key, each in resources(name).items()
        if each["Type"] == kind
    }


def every_value(node: Any) -> Iterator[Any]:
    """The node and all that is in it."""
    yield node
    if isinstance(node, Mapping):
        for value in node.values():
            yield from every_value(value)
    elif isinstance(node, list):
        for value in node:
            yield from every_value(value)


@dataclass(frozen=True, slots=True)
class Account:
    """An emulated account with a network in it."""

    endpoint: str
    vpc: str
    subnets: str

    def client(self, service: str) -> Any:
        """boto3's client of a service; it has no types of its own."""
        return _client(self.endpoint, service)

    def apply(self, name: str, *, stack_name: str = "", **given: str) -> dict[str, str]:
        """Create the stack; answers its outputs, AssertionError with what failed."""
        stack_name = stack_name or name
        formation = self.client("cloudformation")
        formation.create_stack(
            StackName=stack_name,
            TemplateBody=json.dumps(for_emulator(template(name))),
            Parameters=[
                {"ParameterKey": key, "ParameterValue": value} for key, value in given.items()
            ],
            Capabilities=["CAPABILITY_IAM", "CAPABILITY_AUTO_EXPAND"],
        )
        until = monotonic() + STACK_SECONDS
        while True:
            stack = formation.describe_stacks(StackName=stack_name)["Stacks"][0]
            if not stack["StackStatus"].endswith("_IN_PROGRESS"):
                break
            assert monotonic() < until, f"{stack_name} is still {stack['StackStatus']}"
            sleep(0.1)
        events = formation.describe_stack_events(StackName=stack_name)["StackEvents"]
        failed = [
            (each["LogicalResourceId"], each.get("ResourceStatusReason"))
            for each in events
            if each["ResourceStatus"].endswith("FAILED")
        ]
        assert stack["StackStatus"] == "CREATE_COMPLETE", failed
        return {each["OutputKey"]: each["OutputValue"] for each in stack.get("Outputs", [])}


def for_emulator(body: dict[str, Any]) -> dict[str, Any]:
    """What ministack cannot: scaling (cfn-lint looks at it), and numbers of a parameter."""
    kept = {
        key: value
        for key, value in body["Resources"].items()
        if not str(value["Type"] if isinstance(value, dict) else "").startswith(
            "AWS::ApplicationAutoScaling::"
        )
    }
    for each in kept.values():
        if isinstance(each, dict) and "DesiredCount" in each.get("Properties", {}):
            wanted = each["Properties"]["DesiredCount"]["Ref"]
            each["Properties"]["DesiredCount"] = body["Parameters"][wanted]["Default"]
    return body | {"Resources": kept}


@contextmanager
def emulated_account(log: Path) -> Iterator[Account]:
    """An empty account with one network of two subnets, on an emulator of its own."""
    port = free_port()
    argv, extra = _ministack(port)
    env = {**os.environ, **extra, "SERVICES": SERVICES}
    child = start(Command(name="account", argv=argv, env=env, log=log))
    try:
        wait_until(
            lambda: answers(port, HEALTH_PATHS["ministack"]),
            child,
            deadline_seconds=30,
            what="answering",
        )
        endpoint = f"http://127.0.0.1:{port}"
        ec2 = _client(endpoint, "ec2")
        vpc = ec2.create_vpc(CidrBlock="10.20.0.0/16")["Vpc"]["VpcId"]
        subnets = [
            ec2.create_subnet(
                VpcId=vpc, CidrBlock=f"10.20.{number}.0/24", AvailabilityZone=f"{REGION}{zone}"
            )["Subnet"]["SubnetId"]
            for number, zone in enumerate("ab")
        ]
        yield Account(endpoint, vpc, ",".join(subnets))
    finally:
        child.stop(grace=2.0)


def _client(endpoint: str, service: str) -> Any:
    return boto3.client(
        service,
        endpoint_url=endpoint,
        region_name=REGION,
        aws_access_key_id=CREDENTIALS["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=CREDENTIALS["AWS_SECRET_ACCESS_KEY"],
    )
