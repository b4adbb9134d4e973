"""The templates applied to an emulated account, and what stands in it afterwards."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from dev.sqs import QUEUES, REGION, QueueAttributes, aws_environment
from shared.kinds.registry import load_kinds
from shared.settings import load
from shared.sqs import open_sqs
from tests.deploy.templates import CERTIFICATE, IMAGE, Account, emulated_account
from worker.settings import WorkerSettings, refuse_queue

OWN = "nightly"
ACCOUNT = "000000000000"
ALERTS = f"arn:aws:sns:{REGION}:{ACCOUNT}:chot-alerts"
BUCKET = f"chot-files-{ACCOUNT}-{REGION}"


@pytest.fixture(scope="module")
def account(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Account]:
    """All stacks, in their order, with one queue of a team's own."""
    queues = ",".join([*QUEUES, OWN])
    with emulated_account(tmp_path_factory.mktemp("account") / "log") as opened:
        base = opened.apply("base", VpcId=opened.vpc, Queues=queues)
        assert base["AlertTopicArn"] == ALERTS
        opened.apply("roles", Queues=queues)
        opened.apply("migrate", ApiImage=f"{IMAGE}-api:0.1.0-abc")
        opened.apply(
            "chot",
            ApiImage=f"{IMAGE}-api:0.1.0-abc",
            WorkerImage=f"{IMAGE}-worker:0.1.0-abc",
            VpcId=opened.vpc,
            BalancerSubnets=opened.subnets,
            TaskSubnets=opened.subnets,
            BalancerNetworks="10.20.0.0/16",
            CertificateArn=CERTIFICATE,
        )
        opened.apply("alarms", QueuePrefix="chot", AlarmTopic=ALERTS)
        yield opened


async def test_a_worker_takes_every_queue(
    account: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the very check of its start, for each kind's budget of attempts."""
    for name, value in aws_environment(account.endpoint).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("CHOT_DATABASE_URL", "postgresql://chot_app@database:5432/chot")
    settings, wanted = load(WorkerSettings), QueueAttributes()
    most = max(
        kind.retry.max_attempts_cap or settings.max_attempts for kind in load_kinds("").values()
    )
    async with open_sqs("chot", pool=2) as sqs:
        for queue in (*QUEUES, OWN):
            facts = await sqs.facts(queue)
            refuse_queue(settings, queue, facts, max(most, 100))
            assert facts.visibility_seconds == wanted.visibility == settings.visibility_seconds
            assert facts.retention_seconds == wanted.retention
            assert facts.dead_letter_retention_seconds == wanted.dead_retention
            assert facts.max_receive_count == wanted.max_receives


def test_queues_are_polled_long_encrypted_and_wired_to_their_own_dead_letters(
    account: Account,
) -> None:
    sqs = account.client("sqs")
    assert len(sqs.list_queues()["QueueUrls"]) == 2 * (len(QUEUES) + 1)
    for queue in (*QUEUES, OWN):
        url = sqs.get_queue_url(QueueName=f"chot-{queue}")["QueueUrl"]
        dead = sqs.get_queue_url(QueueName=f"chot-{queue}-dead")["QueueUrl"]
        said, kept = (
            sqs.get_queue_attributes(QueueUrl=each, AttributeNames=["All"])["Attributes"]
            for each in (url, dead)
        )
        assert json.loads(said["RedrivePolicy"])["deadLetterTargetArn"] == kept["QueueArn"]
        allowed = json.loads(kept["RedriveAllowPolicy"])
        assert allowed == {"redrivePermission": "byQueue", "sourceQueueArns": [said["QueueArn"]]}
        for each in (said, kept):
            assert (each["ReceiveMessageWaitTimeSeconds"], each["SqsManagedSseEnabled"]) == (
                "20",
                "true",
            )


def test_nobody_else_reads_the_bucket(account: Account) -> None:
    s3 = account.client("s3")
    block = s3.get_public_access_block(Bucket=BUCKET)["PublicAccessBlockConfiguration"]
    assert set(block.values()) == {True}
    assert len(block) == 4
    (denied,) = json.loads(s3.get_bucket_policy(Bucket=BUCKET)["Policy"])["Statement"]
    assert denied["Effect"] == "Deny"
    assert denied["Condition"] == {"Bool": {"aws:SecureTransport": "false"}}


def rights(account: Account, role: str) -> dict[str, set[str]]:
    """Of a role by its logical name: resource, shortened, → actions."""
    iam = account.client("iam")
    (name,) = [
        each["RoleName"]
        for each in iam.list_roles()["Roles"]
        if each["RoleName"].startswith(f"roles-{role}-")
    ]
    found: dict[str, set[str]] = {}
    for policy in iam.list_role_policies(RoleName=name)["PolicyNames"]:
        document = iam.get_role_policy(RoleName=name, PolicyName=policy)["PolicyDocument"]
        for each in document["Statement"]:
            assert each["Effect"] == "Allow"
            for resource in _listed(each["Resource"]):
                found.setdefault(_short(resource), set()).update(_listed(each["Action"]))
    assert iam.list_attached_role_policies(RoleName=name)["AttachedPolicies"] == []
    return found


def _listed(value: Any) -> list[str]:
    return [value] if isinstance(value, str) else list(value)


def _short(resource: str) -> str:
    return resource.removeprefix("arn:aws:").replace(f":{REGION}:{ACCOUNT}:", ":")


TELL = {"*": {"cloudwatch:PutMetricData"}, "sns:chot-alerts": {"sns:Publish"}}
SEND = {"sqs:GetQueueUrl", "sqs:SendMessage"}
TAKE = {"sqs:DeleteMessage", "sqs:GetQueueAttributes", "sqs:ReceiveMessage"}
ALL_QUEUES = (*QUEUES, OWN)


def test_the_api_may_send_keep_files_and_tell(account: Account) -> None:
    """Not receive, not delete, nothing of ECS, no secret."""
    assert rights(account, "ApiTask") == TELL | {
        f"sqs:chot-{queue}": SEND for queue in ALL_QUEUES
    } | {
        f"s3:::{BUCKET}/uploads/*": {
            "s3:AbortMultipartUpload",
            "s3:GetObject",
            "s3:PutObject",
        },
        f"s3:::{BUCKET}": {"s3:ListBucket"},
    }


def test_a_worker_may_consume_protect_itself_and_remove_files(account: Account) -> None:
    """Not write files, no secret."""
    assert rights(account, "WorkerTask") == TELL | {
        f"sqs:chot-{queue}": SEND | TAKE | {"sqs:ChangeMessageVisibility"} for queue in ALL_QUEUES
    } | {f"sqs:chot-{queue}-dead": TAKE | {"sqs:GetQueueUrl"} for queue in ALL_QUEUES} | {
        f"s3:::{BUCKET}/uploads/*": {
            "s3:AbortMultipartUpload",
            "s3:DeleteObject",
            "s3:GetObject",
        },
        f"s3:::{BUCKET}": {"s3:ListBucket", "s3:ListBucketMultipartUploads"},
        "ecs:task/chot/*": {"ecs:GetTaskProtection", "ecs:UpdateTaskProtection"},
    }


@pytest.mark.parametrize(
    ("role", "image", "log", "secrets"),
    [
        ("ApiExecution", "api", "api", {"database-url", "token"}),
        ("WorkerExecution", "worker", "worker", {"database-url", "read-database-url"}),
        ("MigrateExecution", "api", "migrate", {"migrate-database-url"}),
    ],
)
def test_a_task_is_given_its_own_secrets_only(
    account: Account, role: str, image: str, log: str, secrets: set[str]
) -> None:
    """No service can read the owner's password."""
    assert rights(account, role) == {
        "*": {"ecr:GetAuthorizationToken"},
        f"ecr:repository/chot-{image}": {
            "ecr:BatchCheckLayerAvailability",
            "ecr:BatchGetImage",
            "ecr:GetDownloadUrlForLayer",
        },
        f"logs:log-group:/chot/{log}:*": {"logs:CreateLogStream", "logs:PutLogEvents"},
    } | {f"ssm:parameter/chot/{secret}": {"ssm:GetParameters"} for secret in secrets}


def test_only_ecs_of_this_account_takes_a_role(account: Account) -> None:
    roles = account.client("iam").list_roles()["Roles"]
    ours = [each for each in roles if each["RoleName"].startswith("roles-")]
    assert len(ours) == 5
    for each in ours:
        (trusted,) = each["AssumeRolePolicyDocument"]["Statement"]
        assert trusted["Principal"] == {"Service": "ecs-tasks.amazonaws.com"}
        assert trusted["Condition"]["StringEquals"] == {"aws:SourceAccount": ACCOUNT}


def test_the_services_stand_behind_and_beside_the_balancer(account: Account) -> None:
    ecs = account.client("ecs")
    api, worker = ecs.describe_services(cluster="chot", services=["api", "worker"])["services"]
    assert [each["containerName"] for each in api["loadBalancers"]] == ["api"]
    assert worker["loadBalancers"] == []
    for each in (api, worker):
        breaker = each["deploymentConfiguration"]["deploymentCircuitBreaker"]
        assert breaker == {"enable": True, "rollback": True}
    assert api["deploymentConfiguration"]["alarms"]["alarmNames"] == ["chot-api-fails"]
    elb = account.client("elbv2")
    (group,) = elb.describe_target_groups()["TargetGroups"]
    assert (group["HealthCheckPath"], group["TargetType"]) == ("/healthz", "ip")
    attributes = elb.describe_target_group_attributes(TargetGroupArn=group["TargetGroupArn"])
    said = {each["Key"]: each["Value"] for each in attributes["Attributes"]}
    assert said["deregistration_delay.timeout_seconds"] == "35"
    (listener,) = elb.describe_listeners(
        LoadBalancerArn=elb.describe_load_balancers()["LoadBalancers"][0]["LoadBalancerArn"]
    )["Listeners"]
    assert (listener["Port"], listener["Protocol"]) == (443, "HTTPS")


def test_the_tasks_are_as_they_were_written(account: Account) -> None:
    ecs = account.client("ecs")
    for family in ("chot-api", "chot-worker", "chot-migrate"):
        said = ecs.describe_task_definition(taskDefinition=family)["taskDefinition"]
        (only,) = said["containerDefinitions"]
        assert only["readonlyRootFilesystem"] is True
        assert only["user"] == "10001:10001"
        assert bool(said.get("taskRoleArn")) == (family != "chot-migrate")
    worker = ecs.describe_task_definition(taskDefinition="chot-worker")["taskDefinition"]
    (only,) = worker["containerDefinitions"]
    assert only["stopTimeout"] == 120


def test_logs_are_kept_for_a_time(account: Account) -> None:
    groups = account.client("logs").describe_log_groups(logGroupNamePrefix="/chot/")["logGroups"]
    assert {each["logGroupName"]: each["retentionInDays"] for each in groups} == {
        "/chot/api": 90,
        "/chot/worker": 90,
        "/chot/migrate": 90,
    }


def test_every_alarm_tells_the_topic(account: Account) -> None:
    alarms = account.client("cloudwatch").describe_alarms()["MetricAlarms"]
    assert len(alarms) > 10
    for each in alarms:
        assert each["AlarmActions"] == [ALERTS], each["AlarmName"]
    ours = [each for each in alarms if each["Namespace"] == "Chot"]
    assert {"dead_jobs", "outbox_lag", "oldest_due"} <= {each["MetricName"] for each in ours}
    for each in ours:
        named = {one["Name"]: one["Value"] for one in each["Dimensions"]}
        assert named["Deployment"] == "chot"


def test_who_reaches_what(account: Account) -> None:
    """The balancer an api; who reads metrics each task, at that port; nobody else anything."""
    groups = account.client("ec2").describe_security_groups()["SecurityGroups"]
    said = {each["Description"]: each for each in groups}
    ids = {each["GroupId"]: text for text, each in said.items()}

    def reached(text: str) -> dict[int, set[str]]:
        found: dict[int, set[str]] = {}
        for each in said[text]["IpPermissions"]:
            assert each["FromPort"] == each["ToPort"]
            assert not each["IpRanges"], "by group, not by address"
            pairs = {ids[pair["GroupId"]] for pair in each["UserIdGroupPairs"]}
            found.setdefault(each["FromPort"], set()).update(pairs)
        return found

    balancer, readers = "The balancer of Chot", "Whoever reads the metrics of Chot"
    assert [each["FromPort"] for each in said[balancer]["IpPermissions"]] == [443]
    assert reached("The api of Chot") == {8000: {balancer, readers}}
    assert reached("Workers and migration of Chot") == {9464: {readers}}
    assert said[readers]["IpPermissions"] == []
