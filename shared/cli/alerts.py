"""`chot alerts`: the rules in force, in three forms; what fires now; silence for a while."""

import json
from typing import Any

import click

from shared.alerts import Rule, load_rules
from shared.alerts.generated import RUNBOOK, cloudwatch, prometheus
from shared.alerts.judging import refuse_unknown, said
from shared.alerts.settings import AlertSettings
from shared.cli import show
from shared.cli.exits import Exit
from shared.cli.http import Api
from shared.cli.options import as_json, calls_api, print_json
from shared.cli.plain import visible
from shared.cli.settings import settings_of
from shared.cli.tables import table


@click.group()
def alerts() -> None:
    """The rules that call somebody, and what they call for now."""


@alerts.command("list")
@as_json
def list_(*, as_json: bool) -> None:
    """Show the rules in force: shared/alerts/rules.toml with the changes of CHOT_ALERT_RULES."""
    rules = _rules()
    if as_json:
        print_json({"rules": [rule.model_dump(mode="json") for rule in rules]})
        return
    rows = [
        (rule.name, rule.severity, _when(rule), f"{rule.for_seconds} s", rule.summary)
        for rule in rules
    ]
    columns = ("rule", "severity", "when", "for", "summary")
    show.console().print(table("", columns, rows, below=("summary",)))


@alerts.command("prometheus")
@click.option("--runbook", default=RUNBOOK, show_default=True, help="Address of the runbook.")
def prometheus_(*, runbook: str) -> None:
    """Print the rules as a file of alerting rules for Prometheus."""
    click.echo(prometheus(_rules(), runbook=runbook), nl=False)


@alerts.command("cloudwatch")
def cloudwatch_() -> None:
    """Print the rules as a CloudFormation template of CloudWatch alarms."""
    click.echo(cloudwatch(_rules()), nl=False)


@alerts.command()
@click.option("--resolved", is_flag=True, help="Also what fired in the last 7 days.")
@calls_api
def firing(*, resolved: bool, as_json: bool, retry_for: float) -> None:
    """Show what fires now, and the ways out; exit code 1 when something fires."""
    with Api(retry_for) as api:
        found = api.get("/v1/alerts", {"resolved": "true" if resolved else None}).body
    if as_json:
        print_json(found)
    else:
        _print(found)
    if any(each["resolved_at"] is None for each in found["alerts"]):
        click.get_current_context().exit(Exit.NO)


@alerts.command()
@click.argument("rule")
@click.option(
    "--hours", type=click.FloatRange(0, 168), default=4, show_default=True, help="0 ends it."
)
@click.option("--reason", help="Shown with the alert, and in the audit.")
@calls_api
def silence(
    *, rule: str, hours: float, reason: str | None, as_json: bool, retry_for: float
) -> None:
    """Tell nobody of a rule for some hours; it is still judged and shown."""
    body = {"rule": rule, "hours": hours} | ({} if reason is None else {"reason": reason})
    with Api(retry_for) as api:
        found = api.post("/v1/alerts/silence", json.dumps(body)).body
    if as_json:
        print_json(found)
    else:
        click.echo(visible(f"{rule}: nobody is told until {show.clock(found['until'])}"))


def _rules() -> tuple[Rule, ...]:
    rules = load_rules(settings_of(AlertSettings).alert_rules)
    refuse_unknown(rules)
    return rules


def _when(rule: Rule) -> str:
    if rule.missing:
        return f"no {rule.metric}"
    wanted = ", ".join(f"{name} {value}" for name, value in rule.where.items())
    by = ", ".join(rule.by)
    return " ".join(
        part
        for part in (
            rule.metric,
            f"({wanted})" if wanted else "",
            f"by {by}" if by else "",
            f"{rule.comparison} {rule.threshold:g}",
        )
        if part
    )


def _print(found: dict[str, Any]) -> None:
    rows = [_row(each) for each in found["alerts"]]
    columns = ("rule", "severity", "of", "value#", "since", "state", "what to do")
    console = show.console()
    console.print(table("", columns, rows, below=("what to do",)) if rows else "nothing fires")
    for each in found["channels"]:
        last = f"last delivered {show.clock(each['delivered_at'])}" if each["delivered_at"] else ""
        waits = f"{each['waiting']} wait" if each["waiting"] else ""
        failed = f"last error: {each['last_error']}" if each["last_error"] else ""
        told = "; ".join(part for part in (last, waits, failed) if part) or "nothing sent yet"
        click.echo(visible(f"{each['channel']}: {told}"), err=True)
    if not found["channels"]:
        click.echo(
            "nobody is told: no process has CHOT_ALERT_WEBHOOK_URL or CHOT_ALERT_SNS_TOPIC_ARN",
            err=True,
        )


def _row(each: dict[str, Any]) -> tuple[Any, ...]:
    state = "firing" if each["resolved_at"] is None else f"over {show.clock(each['resolved_at'])}"
    if each["silenced_until"] is not None:
        state += f", silenced until {show.clock(each['silenced_until'])}"
    return (
        each["rule"],
        show.plain(each["severity"], "red" if each["severity"] == "critical" else "yellow"),
        each["subject"],
        said(each["value"]),
        show.clock(each["since"]),
        state,
        each["remedy"],
    )
