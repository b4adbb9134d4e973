"""The templates before anybody applies them: clean, and by the application's own rules."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from botocore.model import ServiceModel
from botocore.session import Session
from botocore.validate import ParamValidator

from api.settings import ApiSettings, load_settings
from dev.sqs import QUEUES
from shared.alerts import load_rules
from shared.alerts.cloudwatch import metrics_of
from shared.errors import ConfigRefused
from shared.kinds.registry import load_kinds
from shared.settings import MigrateSettings, load
from tests.deploy.templates import PLACE, STACKS, every_value, of_type, resources, template
from tests.services import ROOT
from worker.settings import FARGATE_LONGEST_STOP_SECONDS, WorkerSettings

URLS = {
    "CHOT_DATABASE_URL": "postgresql://chot_app:secret@database:5432/chot",
    "CHOT_READ_DATABASE_URL": "postgresql://chot_read:secret@database:5432/chot",
    "CHOT_MIGRATE_DATABASE_URL": "postgresql://owner:secret@database:5432/chot",
    "CHOT_TOKEN": "until-there-are-keys",
}
IMPORTED = {
    "${Deployment}-files": "chot-files",
    "${Deployment}-alerts": "arn:aws:sns:ap-southeast-1:000000000000:chot-alerts",
}
GIVEN = {"BalancerNetworks": "10.0.1.0/24,10.0.2.0/24", "AWS::Region": "ap-southeast-1"}
GRACE_SECONDS = 10
CFN_LINT = str(Path(sys.executable).with_name("cfn-lint"))
# CloudFormation's lines are counted as code's are; each stack is read in one go.
LONGEST_TEMPLATE = 400


def task(name: str, stack: str = "chot") -> dict[str, Any]:
    """A task definition's properties."""
    found: dict[str, Any] = of_type(stack, "AWS::ECS::TaskDefinition")[name]
    return found


def container(name: str, stack: str = "chot") -> dict[str, Any]:
    """Its one container."""
    (only,) = task(name, stack)["ContainerDefinitions"]
    return dict(only)


def resolved(value: Any, stack: str = "chot", **chosen: str) -> str:
    """What a value is when nothing but the defaults is given."""
    if not isinstance(value, dict):
        return str(value)
    if "Ref" in value:
        name = value["Ref"]
        default = template(stack)["Parameters"].get(name, {}).get("Default", "")
        return str(chosen.get(name, GIVEN.get(name, default)))
    return IMPORTED[value["Fn::ImportValue"]["Fn::Sub"]]


def environment(name: str, stack: str = "chot", **chosen: str) -> dict[str, str]:
    """What the container's process would find in its environment."""
    said = container(name, stack)
    found = {each["Name"]: resolved(each["Value"], stack, **chosen) for each in said["Environment"]}
    for each in said["Secrets"]:
        secret = each["Fn::If"][1] if "Fn::If" in each else each
        assert secret["ValueFrom"]["Fn::Sub"].startswith("arn:${AWS::Partition}:ssm:")
        found[secret["Name"]] = URLS[secret["Name"]]
    return found


@pytest.fixture
def inside(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Puts a container's environment in the place of ours."""

    def put(found: dict[str, str]) -> None:
        for name, value in found.items():
            monkeypatch.setenv(name, value)

    return put


def names_of(settings: type[Any]) -> set[str]:
    """The variables that these settings read."""
    prefix = str(settings.model_config.get("env_prefix", ""))
    return {f"{prefix}{name}".upper() for name in settings.model_fields}


def test_cfn_lint_finds_nothing() -> None:
    done = subprocess.run(
        [CFN_LINT, *(str(PLACE / f"{name}.yaml") for name in STACKS)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_template_is_one_of_the_stacks_and_can_be_read() -> None:
    found = {path.stem for path in PLACE.glob("*.yaml")}
    assert found - {"prometheus-rules"} == set(STACKS)
    for name in STACKS:
        assert len((PLACE / f"{name}.yaml").read_text().splitlines()) <= LONGEST_TEMPLATE


@pytest.mark.parametrize("drain", ["90", "110"])
def test_a_worker_starts_with_what_its_task_gives_it(inside: Any, drain: str) -> None:
    """And drains before Fargate kills it, with the longest drain that the template allows, too."""
    found = environment("WorkerTask", DrainSeconds=drain)
    assert set(found) - names_of(WorkerSettings) == {"AWS_REGION"}
    inside(found)
    settings = load(WorkerSettings)
    stop = container("WorkerTask")["StopTimeout"]
    assert settings.stop_timeout_seconds == stop == FARGATE_LONGEST_STOP_SECONDS
    assert settings.drain_seconds + settings.timing.margin <= stop
    assert template("chot")["Parameters"]["DrainSeconds"]["MaxValue"] == 110
    assert settings.files_bucket == "chot-files"


def test_a_worker_shows_its_metrics_where_prometheus_is_let_in(inside: Any) -> None:
    """As docs/metrics.md promises it: one port for the process, its container and its group."""
    inside(environment("WorkerTask"))
    settings = load(WorkerSettings)
    (mapped,) = container("WorkerTask")["PortMappings"]
    groups = of_type("base", "AWS::EC2::SecurityGroup")
    (rule,) = groups["WorkerGroup"]["SecurityGroupIngress"]
    assert settings.worker_metrics_host == "0.0.0.0"  # noqa: S104 - one container, one group
    assert settings.worker_metrics_port == mapped["ContainerPort"] == rule["FromPort"]
    assert rule["FromPort"] == rule["ToPort"]
    assert rule["SourceSecurityGroupId"] == {"Ref": "MetricsGroup"}
    (of_api,) = [
        each
        for each in groups["ApiGroup"]["SecurityGroupIngress"]
        if each["SourceSecurityGroupId"] == {"Ref": "MetricsGroup"}
    ]
    assert of_api["FromPort"] == container("ApiTask")["PortMappings"][0]["ContainerPort"]
    page = (ROOT / "docs" / "metrics.md").read_text()
    assert f"{settings.worker_metrics_port}" in page


def test_an_api_starts_with_what_its_task_gives_it(inside: Any) -> None:
    found = environment("ApiTask")
    assert set(found) - names_of(ApiSettings) == {"AWS_REGION"}
    inside(found)
    settings = load_settings()
    assert not settings.api_open
    assert settings.trusted_proxies == GIVEN["BalancerNetworks"]
    assert container("ApiTask")["StopTimeout"] > GRACE_SECONDS


def test_a_worker_is_replaced_for_what_a_restart_mends_only() -> None:
    """As docs/ecs.md says it; the emulator keeps no health check."""
    page = (ROOT / "docs" / "ecs.md").read_text()
    (said,) = re.findall(r"```json\n\"healthCheck\": (\{.*?\})\n```", page, re.DOTALL)
    wanted = {key[0].upper() + key[1:]: value for key, value in json.loads(said).items()}
    assert container("WorkerTask")["HealthCheck"] == wanted


def test_what_was_broken_off_in_the_bucket_goes(inside: Any) -> None:
    """And what nobody knows of any more, but not before the longest time that a file is kept."""
    (bucket,) = of_type("base", "AWS::S3::Bucket").values()
    broken_off, forgotten = bucket["LifecycleConfiguration"]["Rules"]
    assert broken_off["AbortIncompleteMultipartUpload"] == {"DaysAfterInitiation": 1}
    inside(environment("ApiTask") | {"CHOT_UPLOAD_DAYS": "365"})
    assert forgotten["ExpirationInDays"] > load_settings().upload_days
    assert forgotten["Prefix"] == "uploads/"
    inside({"CHOT_UPLOAD_DAYS": "366"})
    with pytest.raises(ConfigRefused):
        load_settings()


def test_a_migration_starts_with_what_its_task_gives_it(inside: Any) -> None:
    found = environment("Migrate", "migrate")
    inside(found)
    url = load(MigrateSettings).migrate_database_url
    assert url is not None
    assert url.get_secret_value() == URLS["CHOT_MIGRATE_DATABASE_URL"]
    assert set(found) == {"CHOT_MIGRATE_DATABASE_URL", "CHOT_KIND_MODULES", "CHOT_LOG_FORMAT"}


def test_the_balancer_lets_long_answers_end(inside: Any) -> None:
    """A ?wait ends within the deregistration delay, a stream is never idle for too long."""
    inside(environment("ApiTask"))
    settings = load_settings()
    (balancer,) = of_type("chot", "AWS::ElasticLoadBalancingV2::LoadBalancer").values()
    (group,) = of_type("chot", "AWS::ElasticLoadBalancingV2::TargetGroup").values()
    said = {each["Key"]: each["Value"] for each in balancer["LoadBalancerAttributes"]}
    delay = {each["Key"]: each["Value"] for each in group["TargetGroupAttributes"]}
    assert int(said["idle_timeout.timeout_seconds"]) == settings.balancer_idle_seconds
    assert float(delay["deregistration_delay.timeout_seconds"]) > settings.longest_wait
    assert group["HealthCheckPath"] == "/healthz", "a restart brings no database back"


@pytest.mark.parametrize(
    ("name", "stack"), [("ApiTask", "chot"), ("WorkerTask", "chot"), ("Migrate", "migrate")]
)
def test_a_container_may_write_nowhere_but_into_tmp(name: str, stack: str) -> None:
    said = container(name, stack)
    assert said["ReadonlyRootFilesystem"] is True
    assert said["User"] == "10001:10001"
    assert said["LinuxParameters"]["Capabilities"] == {"Drop": ["ALL"]}
    assert said["MountPoints"] == [{"SourceVolume": "tmp", "ContainerPath": "/tmp"}]  # noqa: S108
    options = said["LogConfiguration"]["Options"]
    assert options["mode"] == "non-blocking", "or a log that nobody takes stops the process"
    assert task(name, stack)["NetworkMode"] == "awsvpc"


@pytest.mark.parametrize("service", ["Api", "Worker"])
def test_a_deployment_that_fails_goes_back_by_itself(service: str) -> None:
    said = of_type("chot", "AWS::ECS::Service")[service]
    rules = said["DeploymentConfiguration"]
    assert rules["DeploymentCircuitBreaker"] == {"Enable": True, "Rollback": True}
    assert (rules["MinimumHealthyPercent"], rules["MaximumPercent"]) == (100, 200)
    assert said["NetworkConfiguration"]["AwsvpcConfiguration"]["AssignPublicIp"] == "DISABLED"
    if service == "Api":
        assert rules["Alarms"] == {
            "Enable": True,
            "Rollback": True,
            "AlarmNames": [{"Ref": "ApiFails"}],
        }
    else:
        assert "DesiredCount" not in said, "a deployment would undo the scaling"


def test_the_worker_scales_by_the_backlog_of_the_database() -> None:
    (target,) = of_type("chot", "AWS::ApplicationAutoScaling::ScalableTarget").values()
    (policy,) = of_type("chot", "AWS::ApplicationAutoScaling::ScalingPolicy").values()
    assert target["MinCapacity"] == {"Ref": "FewestWorkers"}
    assert template("chot")["Parameters"]["FewestWorkers"]["MinValue"] == 1
    rule = policy["TargetTrackingScalingPolicyConfiguration"]
    metric = rule["CustomizedMetricSpecification"]
    assert (metric["Namespace"], metric["MetricName"]) == ("Chot", "backlog_seconds")
    assert [each["Name"] for each in metric["Dimensions"]] == ["Deployment"]
    assert rule["ScaleOutCooldown"] < rule["ScaleInCooldown"]
    rules = [each for each in load_rules() if each.name == "backlog"]
    backlog = {"default": 60.0, "costing": 900.0}
    counts = {"backlog_seconds": backlog, "queues": [{"name": name} for name in backlog]}
    sent = [each for each in metrics_of(rules, counts, "chot") if len(each["Dimensions"]) == 1]
    assert [each["MetricName"] for each in sent] == ["backlog_seconds"]
    assert (sent[0]["Value"], sent[0]["Dimensions"][0]["Name"]) == (900.0, "Deployment")


def test_aws_would_take_the_scaling() -> None:
    """The emulator knows no scaling: judged by AWS's own description of the calls."""
    model = ServiceModel(Session().get_service_data("application-autoscaling"))
    (target,) = of_type("chot", "AWS::ApplicationAutoScaling::ScalableTarget").values()
    (policy,) = of_type("chot", "AWS::ApplicationAutoScaling::ScalingPolicy").values()
    place = {key: target[key] for key in ("ServiceNamespace", "ScalableDimension")}
    for operation, said in (
        ("RegisterScalableTarget", {**target, "ResourceId": "service/chot/worker"}),
        ("PutScalingPolicy", {**policy, **place, "ResourceId": "service/chot/worker"}),
    ):
        given = {key: literal(value) for key, value in said.items() if key != "ScalingTargetId"}
        shape = model.operation_model(operation).input_shape
        report = ParamValidator().validate(given, shape)
        assert not report.has_errors(), report.generate_report()


def literal(value: Any) -> Any:
    """With every parameter as its default."""
    if isinstance(value, dict) and "Ref" in value:
        return template("chot")["Parameters"][value["Ref"]]["Default"]
    if isinstance(value, dict):
        return {key: literal(each) for key, each in value.items()}
    return [literal(each) for each in value] if isinstance(value, list) else value


@pytest.mark.parametrize("name", ["base", "roles"])
def test_every_queue_of_the_kinds_is_made(name: str) -> None:
    made = template(name)["Parameters"]["Queues"]["Default"].split(",")
    assert made == list(QUEUES), "as on a developer's machine"
    assert {kind.queue for kind in load_kinds("").values()} <= set(made)


# What AWS knows no narrower resource for.
ANYWHERE = {"ecr:GetAuthorizationToken", "cloudwatch:PutMetricData"}


def test_no_right_is_about_everything_but_where_aws_knows_nothing_narrower() -> None:
    anywhere: set[str] = set()
    for name in STACKS:
        for each in every_value(resources(name)):
            if isinstance(each, dict) and each.get("Effect") == "Allow" and "Action" in each:
                actions = [each["Action"]] if isinstance(each["Action"], str) else each["Action"]
                assert not [action for action in actions if "*" in action], each
                assert "NotAction" not in each
                if each.get("Resource") == "*":
                    anywhere |= set(actions)
    assert anywhere == ANYWHERE


def test_no_secret_is_written_into_a_template() -> None:
    """Parameter Store has them, under names; a process gets each by its execution role."""
    for name in STACKS:
        text = (PLACE / f"{name}.yaml").read_text()
        assert not re.search(r"postgres(ql)?://|NoEcho|GenerateSecretString", text)


@pytest.mark.parametrize("parameter", ["ApiImage", "WorkerImage"])
def test_an_image_is_pinned(parameter: str) -> None:
    pattern = template("chot")["Parameters"][parameter]["AllowedPattern"]
    digest = "registry/chot-api@sha256:" + "a" * 64
    for good in (digest, "registry:5000/chot-api:0.1.0-3ae2028", "chot:latest-1"):
        assert re.fullmatch(pattern, good), good
    for bad in ("registry/chot-api", "registry/chot-api:latest", "chot@sha256:aa"):
        assert not re.fullmatch(pattern, bad), bad
