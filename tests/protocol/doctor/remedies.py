"""Remedies, carried out: what a finding says is to be run is run as it stands there."""

import json
import shlex
from typing import Any

from sqlalchemy.ext.asyncio import AsyncConnection

from shared.doctor.finding import Finding


def statements_of(finding: Finding) -> list[str]:
    """The SQL of the remedy's psql commands."""
    found = []
    for command in finding.remedy:
        words = shlex.split(command, comments=True)
        assert words[:3:2] == ["psql", "-c"], command
        found.append(words[3])
    return found


async def mend(conn: AsyncConnection, finding: Finding) -> None:
    """Run the remedy's SQL on this connection."""
    for statement in statements_of(finding):
        await conn.exec_driver_sql(statement)


def mend_queue(sqs: Any, finding: Finding) -> None:
    """Run the remedy's `aws sqs` commands by boto3."""
    for command in finding.remedy:
        words = shlex.split(command, comments=True)
        assert words[:2] == ["aws", "sqs"], command
        options = dict(zip(words[3::2], words[4::2], strict=True))
        attributes = json.loads(options.get("--attributes", "{}"))
        if words[2] == "create-queue":
            sqs.create_queue(QueueName=options["--queue-name"], Attributes=attributes)
        else:
            assert words[2] == "set-queue-attributes", command
            sqs.set_queue_attributes(QueueUrl=options["--queue-url"], Attributes=attributes)


def codes(findings: Any) -> list[str]:
    """The codes of findings, sorted."""
    return sorted(each.code for each in findings)
