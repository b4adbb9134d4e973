"""Generated: the same rules in the languages of Prometheus and CloudWatch.

Printed by `chot alerts prometheus` and `chot alerts cloudwatch`; deploy/ holds what they print of
the rules as shipped, and a test compares. Strings are written as JSON, which every YAML reads.
"""

import json
import math
from collections.abc import Iterable

from shared.alerts.cloudwatch import PERIOD_SECONDS
from shared.alerts.rules import Rule

HEAD = "# Generated from shared/alerts/rules.toml by `chot alerts {command}`; do not edit.\n"
RUNBOOK = "docs/runbook.md"

CLOUDWATCH_HEAD = """\
AWSTemplateFormatVersion: "2010-09-09"
Description: Alarms of a Chot deployment, over what it publishes to CloudWatch each minute
Parameters:
  QueuePrefix:
    Type: String
    Description: CHOT_QUEUE_PREFIX of the deployment
  AlarmTopic:
    Type: String
    Description: ARN of the SNS topic that alarms are sent to
  Namespace:
    Type: String
    Default: Chot
    Description: CHOT_CLOUDWATCH_NAMESPACE of the deployment
Resources:
"""


def prometheus(rules: Iterable[Rule], *, runbook: str = RUNBOOK) -> str:
    """A file of alerting rules. Numbers from the database are alike from every api: the largest."""
    parts = [HEAD.format(command="prometheus"), "groups:\n  - name: chot\n    rules:\n"]
    parts += [_prometheus_rule(rule, runbook) for rule in rules]
    return "".join(parts)


def expression(rule: Rule) -> str:
    """The rule in PromQL."""
    if rule.missing:
        return f"absent({rule.metric})"
    wanted = ",".join(f"{name}={json.dumps(value)}" for name, value in rule.where.items())
    series = rule.metric + (f"{{{wanted}}}" if wanted else "")
    return f"max without (instance) ({series}) {rule.comparison} {rule.threshold:g}"


def _prometheus_rule(rule: Rule, runbook: str) -> str:
    labels = "".join(f" {{{{ $labels.{name} }}}}" for name in rule.by)
    value = "" if rule.missing else "{{ $value | humanize }} "
    lines = [
        f"- alert: Chot{camel(rule.name)}",
        f"  expr: {json.dumps(expression(rule))}",
        f"  for: {rule.for_seconds}s",
    ]
    if rule.resolve_seconds and not rule.missing:
        lines.append(f"  keep_firing_for: {rule.resolve_seconds}s")
    lines += [
        "  labels:",
        f"    severity: {rule.severity}",
        "  annotations:",
        f"    summary: {_text(value + rule.summary + (':' + labels if labels else ''))}",
        f"    description: {_text(rule.remedy)}",
        f"    runbook_url: {_text(f'{runbook}#{rule.name}')}",
    ]
    return "".join(f"      {line}\n" for line in lines)


def cloudwatch(rules: Iterable[Rule]) -> str:
    """A CloudFormation template of alarms, each on its topic when it fires and when it is over."""
    parts = [HEAD.format(command="cloudwatch"), CLOUDWATCH_HEAD]
    parts += [_alarm(rule) for rule in rules]
    return "".join(parts)


def _alarm(rule: Rule) -> str:
    over = "GreaterThanThreshold" if rule.comparison == ">" else "LessThanThreshold"
    minutes = max(1, math.ceil(rule.for_seconds / PERIOD_SECONDS))
    said = f"{rule.severity}: {rule.summary}. {rule.remedy} ({rule.runbook})"
    lines = [
        f"Alarm{camel(rule.name)}:",
        "  Type: AWS::CloudWatch::Alarm",
        "  Properties:",
        f'    AlarmName: !Sub "${{QueuePrefix}}-{rule.name}"',
        f"    AlarmDescription: {_text(said)}",
        "    Namespace: !Ref Namespace",
        f"    MetricName: {rule.cloudwatch_metric}",
        "    Dimensions: [{Name: Deployment, Value: !Ref QueuePrefix}]",
        f"    Statistic: {'Maximum' if rule.comparison == '>' else 'Minimum'}",
        f"    Period: {PERIOD_SECONDS}",
        f"    EvaluationPeriods: {minutes}",
        f"    ComparisonOperator: {over}",
        f"    Threshold: {rule.threshold:g}",
        f"    TreatMissingData: {'breaching' if rule.missing else 'ignore'}",
        "    AlarmActions: [!Ref AlarmTopic]",
        "    OKActions: [!Ref AlarmTopic]",
    ]
    return "".join(f"  {line}\n" for line in lines)


def camel(name: str) -> str:
    """dead_jobs → DeadJobs."""
    return "".join(part.capitalize() for part in name.split("_"))


def _text(said: str) -> str:
    return json.dumps(said, ensure_ascii=False)
