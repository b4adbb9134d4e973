"""A key of one's own: queues, bucket and secrets are encrypted with it, and nobody may do more."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from dev.sqs import REGION
from tests.deploy.templates import Account, emulated_account, of_type, template

ACCOUNT = "000000000000"
KEY = f"arn:aws:kms:{REGION}:{ACCOUNT}:key/11111111-2222-3333-4444-555555555555"
SENDS = {"kms:Decrypt", "kms:GenerateDataKey"}
READS = {"kms:Decrypt"}
MAY = {
    "ApiTask": {"sqs": SENDS, "s3": SENDS},
    # It sends messages, too (the relay), and writes no file.
    "WorkerTask": {"sqs": SENDS, "s3": READS},
    "ApiExecution": {"ssm": READS},
    "WorkerExecution": {"ssm": READS},
    "MigrateExecution": {"ssm": READS},
}
SECRETS = {
    "ApiExecution": {"database-url", "token"},
    "WorkerExecution": {"database-url", "read-database-url"},
    "MigrateExecution": {"migrate-database-url"},
}


@pytest.fixture(scope="module")
def account(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Account]:
    """What stays and who may do what, once with AWS's own keys and once with one's own."""
    with emulated_account(tmp_path_factory.mktemp("own-key") / "log") as opened:
        for name, given in (("plain", {}), ("own", {"KeyArn": KEY})):
            opened.apply(
                "base", stack_name=f"{name}-base", Deployment=name, VpcId=opened.vpc, **given
            )
            opened.apply("roles", stack_name=f"{name}-roles", Deployment=name, **given)
        yield opened


def about_keys(account: Account, stack: str, role: str) -> list[dict[str, Any]]:
    """The statements of a role that are about a key."""
    iam = account.client("iam")
    (name,) = [
        each["RoleName"]
        for each in iam.list_roles()["Roles"]
        if each["RoleName"].startswith(f"{stack}-roles-{role}-")
    ]
    return [
        statement
        for policy in iam.list_role_policies(RoleName=name)["PolicyNames"]
        for statement in iam.get_role_policy(RoleName=name, PolicyName=policy)["PolicyDocument"][
            "Statement"
        ]
        if "kms" in json.dumps(statement)
    ]


@pytest.mark.parametrize("role", MAY)
def test_without_a_key_nobody_may_use_one(account: Account, role: str) -> None:
    assert about_keys(account, "plain", role) == []


@pytest.mark.parametrize("role", MAY)
def test_a_role_may_use_this_key_only_and_only_by_the_service(account: Account, role: str) -> None:
    """Sending takes GenerateDataKey and Decrypt, receiving and reading Decrypt."""
    found: dict[str, set[str]] = {}
    for each in about_keys(account, "own", role):
        assert each["Effect"] == "Allow"
        assert each["Resource"] == KEY
        conditions = each["Condition"]["StringEquals"]
        service, region = conditions["kms:ViaService"].split(".")[:2]
        assert (region, conditions["kms:ViaService"].endswith(".amazonaws.com")) == (REGION, True)
        actions = [each["Action"]] if isinstance(each["Action"], str) else each["Action"]
        assert service not in found
        found[service] = set(actions)
        if service == "ssm":
            bound = conditions["kms:EncryptionContext:PARAMETER_ARN"]
            bound = [bound] if isinstance(bound, str) else bound
            place = f"arn:aws:ssm:{REGION}:{ACCOUNT}:parameter/own/"
            assert {each.removeprefix(place) for each in bound} == SECRETS[role]
    assert found == MAY[role]


def test_queues_are_encrypted_with_it(account: Account) -> None:
    sqs = account.client("sqs")
    for name in ("own-default", "own-default-dead"):
        said = sqs.get_queue_attributes(
            QueueUrl=sqs.get_queue_url(QueueName=name)["QueueUrl"], AttributeNames=["All"]
        )["Attributes"]
        assert said["KmsMasterKeyId"] == KEY
        assert said.get("SqsManagedSseEnabled", "false") == "false", "SQS takes one or the other"


def test_the_bucket_is_encrypted_with_it() -> None:
    """As it is written: the emulator keeps no encryption of a bucket that a template makes."""
    (bucket,) = of_type("base", "AWS::S3::Bucket").values()
    (rule,) = bucket["BucketEncryption"]["ServerSideEncryptionConfiguration"]
    condition, own, plain = rule["Fn::If"]
    assert condition == "HasKey"
    assert own["ServerSideEncryptionByDefault"] == {
        "SSEAlgorithm": "aws:kms",
        "KMSMasterKeyID": {"Ref": "KeyArn"},
    }
    assert own["BucketKeyEnabled"] is True, "or each file would be a call to KMS"
    assert plain == {"ServerSideEncryptionByDefault": {"SSEAlgorithm": "AES256"}}


def test_both_stacks_take_the_same_key_and_nothing_that_is_none() -> None:
    base, roles = (template(name)["Parameters"]["KeyArn"] for name in ("base", "roles"))
    assert base["AllowedPattern"] == roles["AllowedPattern"]
    assert base["Default"] == roles["Default"] == ""
    for properties in of_type("roles", "AWS::IAM::Policy").values():
        text = json.dumps(properties)
        if "kms:" in text:
            assert '"Resource": {"Ref": "KeyArn"}' in text
            assert "kms:ViaService" in text
