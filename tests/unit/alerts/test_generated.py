"""What is generated of the rules: the committed copies, read by other people's readers."""

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import promql_parser
import pytest
import yaml

from shared.alerts import load_rules
from shared.alerts.generated import camel, cloudwatch, expression, prometheus
from shared.alerts.readings import METRICS
from tests.architecture.locks import ROOT

RULES = {rule.name: rule for rule in load_rules()}
ALERTS = yaml.safe_load(prometheus(RULES.values()))["groups"][0]["rules"]
COPIES = {"prometheus-rules.yaml": prometheus, "alarms.yaml": cloudwatch}


@pytest.mark.parametrize("name", COPIES)
def test_the_committed_copy_is_what_the_rules_say(name: str) -> None:
    """`chot alerts … > deploy/…` after each change of a rule."""
    made = COPIES[name](RULES.values())
    assert (ROOT / "deploy" / name).read_text() == made


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: str(alert["alert"]))
def test_an_expression_is_promql_over_metrics_there_are(alert: dict[str, Any]) -> None:
    """Prometheus's grammar, by a parser of its own; every name in it is one of /metrics."""
    tree = promql_parser.parse(alert["expr"])
    names = set(re.findall(r"chot_[a-z_]+", tree.prettify()))
    assert names, "it is about some metric"
    assert names <= set(METRICS)


def test_every_rule_has_a_section_in_the_runbook_and_a_row_on_its_page() -> None:
    runbook = (ROOT / "docs" / "runbook.md").read_text()
    page = (ROOT / "docs" / "alerts.md").read_text()
    assert set(RULES) <= set(re.findall(r"^## (\w+)$", runbook, re.MULTILINE))
    listed = re.findall(r"^\| `(\w+)` \| (critical|warning) \|", page, re.MULTILINE)
    assert listed == [(rule.name, rule.severity) for rule in RULES.values()]


def test_a_broken_expression_would_be_seen() -> None:
    with pytest.raises(ValueError, match=r".+"):
        promql_parser.parse("max without (instance) (chot_jobs{state=dead}) > 0")


def test_every_rule_is_an_alert_with_all_that_prometheus_asks_for() -> None:
    """Name, duration, labels and annotations; templates name labels that the series has."""
    assert [each["alert"] for each in ALERTS] == [f"Chot{camel(name)}" for name in RULES]
    for rule, alert in zip(RULES.values(), ALERTS, strict=True):
        assert set(alert) <= {"alert", "expr", "for", "keep_firing_for", "labels", "annotations"}
        assert re.fullmatch(r"\d+s", alert["for"])
        assert alert["labels"] == {"severity": rule.severity}
        told = alert["annotations"]
        assert told["runbook_url"] == f"docs/runbook.md#{rule.name}"
        assert set(re.findall(r"\$labels\.(\w+)", told["summary"])) == set(rule.by)


def test_promtool_agrees_where_it_is_installed() -> None:
    """Prometheus's own check; without it the parser above has the last word."""
    promtool = shutil.which("promtool")
    if promtool is None:
        return
    rules = str(ROOT / "deploy" / "prometheus-rules.yaml")
    done = subprocess.run(
        [promtool, "check", "rules", rules], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"SUCCESS: {len(RULES)} rules found" in done.stdout


class _Template(yaml.SafeLoader):  # type: ignore[misc] # yaml has no types
    """CloudFormation's short forms, read as what they name."""


_Template.add_multi_constructor(
    "!", lambda loader, suffix, node: {suffix: loader.construct_scalar(node)}
)


def test_every_rule_is_an_alarm_on_the_metric_that_is_published() -> None:
    """One a rule, on dimension Deployment, told to the topic when it begins and when it ends."""
    template = yaml.load(cloudwatch(RULES.values()), Loader=_Template)  # noqa: S506 - a safe one
    alarms = template["Resources"]
    assert list(alarms) == [f"Alarm{camel(name)}" for name in RULES]
    for rule in RULES.values():
        alarm = alarms[f"Alarm{camel(rule.name)}"]["Properties"]
        assert alarm["MetricName"] == rule.cloudwatch_metric
        assert alarm["Dimensions"] == [{"Name": "Deployment", "Value": {"Ref": "QueuePrefix"}}]
        assert alarm["Threshold"] == rule.threshold
        assert alarm["TreatMissingData"] == ("breaching" if rule.missing else "ignore")
        assert alarm["AlarmActions"] == alarm["OKActions"] == [{"Ref": "AlarmTopic"}]
        assert alarm["Period"] * alarm["EvaluationPeriods"] >= rule.for_seconds
        assert len(alarm["AlarmDescription"]) <= 1024


def test_changes_of_an_operator_reach_both(tmp_path: Path) -> None:
    """A threshold of one's own, a rule that is switched off, one that is new."""
    changes = tmp_path / "rules.toml"
    changes.write_text("""
        [[rule]]
        name = "oldest_due"
        threshold = 60
        [[rule]]
        name = "backlog"
        enabled = false
        [[rule]]
        name = "many_dead"
        metric = "chot_jobs"
        where = { state = "dead" }
        comparison = ">"
        threshold = 100
        severity = "critical"
        summary = "dead jobs"
        remedy = "look"
        """)
    rules = {rule.name: rule for rule in load_rules(str(changes))}
    assert set(rules) == set(RULES) - {"backlog"} | {"many_dead"}
    assert expression(rules["oldest_due"]).endswith("> 60")
    assert rules["oldest_due"].summary == RULES["oldest_due"].summary
    assert (
        expression(rules["many_dead"]) == 'max without (instance) (chot_jobs{state="dead"}) > 100'
    )
    assert "AlarmManyDead" in cloudwatch(rules.values())
    assert "AlarmBacklog" not in cloudwatch(rules.values())
