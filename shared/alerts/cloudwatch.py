"""CloudWatch: which numbers go there, and under which names."""

from collections.abc import Iterable
from typing import Any

from shared.alerts.judging import values
from shared.alerts.readings import Counts
from shared.alerts.rules import Rule

PERIOD_SECONDS = 60


def metrics_of(rules: Iterable[Rule], counts: Counts, deployment: str) -> list[dict[str, Any]]:
    """One number a rule with dimension Deployment: the largest of its subjects.

    A rule by queue has one a queue as well, with dimensions Deployment and Queue. Kinds are no
    dimension: they would be a custom metric each, and each is paid for.
    """
    found: list[dict[str, Any]] = []
    for rule in rules:
        of_rule = values(rule, counts)
        worst = (max if rule.comparison == ">" else min)(of_rule.values(), default=0.0)
        found.append(_datum(rule, worst, {"Deployment": deployment}))
        if rule.by == ("queue",):
            for subject, value in of_rule.items():
                queue = subject.removeprefix("queue=")
                dimensions = {"Deployment": deployment, "Queue": queue}
                found.append(_datum(rule, value, dimensions))
    return found


def unit_of(rule: Rule) -> str:
    """CloudWatch's word for what is counted."""
    if rule.metric.endswith("_seconds"):
        return "Seconds"
    return "None" if rule.metric.endswith("_ratio") else "Count"


def _datum(rule: Rule, value: float, dimensions: dict[str, str]) -> dict[str, Any]:
    return {
        "MetricName": rule.cloudwatch_metric,
        "Dimensions": [{"Name": name, "Value": said} for name, said in dimensions.items()],
        "Value": value,
        "Unit": unit_of(rule),
    }
