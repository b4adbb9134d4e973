"""Telling: what receivers read of an alert, for machines and for people."""

from collections.abc import Mapping, Sequence
from typing import Any

from shared.alerts.judging import said
from shared.alerts.notices import Notice
from shared.alerts.rules import Rule
from shared.alerts.steps import Alert, News

LONGEST_SUBJECT = 100
MOST_LINES = 40


def body_of(rule: Rule | None, alert: Alert, news: News) -> dict[str, Any]:
    """One alert as a receiver reads it. `rule` is None for one that is no longer in the file."""
    return {
        "incident": str(alert.incident),
        "rule": alert.rule,
        "subject": alert.subject,
        "status": "resolved" if news == "resolved" else "firing",
        "again": news == "still firing",
        "severity": alert.severity,
        "value": alert.value,
        "comparison": rule.comparison if rule else None,
        "threshold": rule.threshold if rule else None,
        "summary": rule.summary if rule else "a rule that is no longer in the rules file",
        "remedy": rule.remedy if rule else "",
        "runbook": rule.runbook if rule else "docs/runbook.md",
        "since": alert.since.isoformat(),
        "fired_at": alert.fired_at.isoformat() if alert.fired_at else None,
        "resolved_at": alert.resolved_at.isoformat() if alert.resolved_at else None,
    }


def line_of(body: Mapping[str, Any]) -> str:
    """One alert as people read it."""
    whose = f" ({body['subject']})" if body["subject"] else ""
    if body["status"] == "resolved":
        return f"resolved: {body['rule']}{whose}"
    again = "still " if body["again"] else ""
    return (
        f"{again}firing, {body['severity']}: {body['rule']}{whose}: "
        f"{said(body['value'])} {body['summary']}. {body['remedy']} ({body['runbook']})"
    )


def headline(deployment: str, notices: Sequence[Notice]) -> str:
    """All of them in one line of ASCII, 100 characters at most (the subject of an e-mail)."""
    firing = sum(1 for each in notices if each.body["status"] == "firing")
    rules = ", ".join(sorted({each.rule for each in notices}))
    counts = [f"{firing} firing"] if firing else []
    if firing < len(notices):
        counts.append(f"{len(notices) - firing} resolved")
    line = f"Chot {deployment}: {', '.join(counts)}: {rules}"
    return line.encode("ascii", "replace").decode()[:LONGEST_SUBJECT]


def lines(notices: Sequence[Notice]) -> str:
    """All of them for people, a line each."""
    told = [line_of(each.body) for each in notices[:MOST_LINES]]
    if len(notices) > MOST_LINES:
        told.append(f"and {len(notices) - MOST_LINES} more: chot alerts firing")
    return "\n".join(told)
