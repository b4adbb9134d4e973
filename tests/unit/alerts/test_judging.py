"""Rules over counts: what breaks which, and for whom; what goes to CloudWatch."""

from typing import Any

import pytest

from shared.alerts import firing, load_rules
from shared.alerts.cloudwatch import metrics_of
from shared.alerts.judging import refuse_unknown, said
from shared.alerts.rules import Rule
from shared.alerts.settings import AlertSettings
from shared.errors import ConfigRefused

EMPTY: dict[str, Any] = {
    "pending": [],
    "others": [],
    "kinds": [],
    "queues": [],
    "unserved": [],
    "starved": {},
    "backlog_seconds": {},
    "outbox_stuck_seconds": None,
    "quarantined": 0,
    "dead_messages": 0,
    "live_workers": 0,
    "workers_lost": 0,
    "leases_lost": 0,
    "heartbeat_used": None,
    "transaction_seconds": None,
    "notice_late_seconds": None,
}


def rule(**changed: Any) -> Rule:
    """A rule about dead messages, otherwise."""
    given: dict[str, Any] = {
        "name": "one",
        "metric": "chot_dead_messages",
        "comparison": ">",
        "threshold": 0,
        "severity": "warning",
        "summary": "s",
        "remedy": "r",
    }
    return Rule.model_validate(given | changed)


def test_nothing_fires_in_a_deployment_without_anything() -> None:
    assert firing(EMPTY) == []


def test_each_subject_fires_apart_and_the_worst_comes_first() -> None:
    counts = EMPTY | {
        "kinds": ["a", "b", "c"],
        "others": [
            {"kind": "a", "state": "dead", "jobs": 2},
            {"kind": "b", "state": "dead", "jobs": 1},
            {"kind": "c", "state": "succeeded", "jobs": 9},
        ],
        "queues": [{"name": "q", "paused": False}],
        "starved": {"q": 1000.5},
    }
    told = [(one.rule.name, one.subject, one.value) for one in firing(counts)]
    assert told == [
        ("oldest_due", "queue=q", 1000.5),
        ("dead_jobs", "kind=a", 2.0),
        ("dead_jobs", "kind=b", 1.0),
    ]


def test_a_backlog_is_judged_by_queue() -> None:
    """The number that workers are scaled by (the rule `backlog`)."""
    counts = EMPTY | {
        "queues": [{"name": "q", "paused": False}, {"name": "r", "paused": False}],
        "backlog_seconds": {"q": 3601.0, "r": 3599.0},
    }
    assert [(one.rule.name, one.subject) for one in firing(counts)] == [("backlog", "queue=q")]


@pytest.mark.parametrize(
    "changed",
    [{"metric": "chot_nothing"}, {"by": ["kind"]}, {"where": {"state": "dead"}}],
)
def test_a_rule_about_what_nobody_counts_is_refused(changed: dict[str, Any]) -> None:
    with pytest.raises(ConfigRefused, match="rule one"):
        refuse_unknown([rule(**changed)])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[[rule]", "Expected"),
        ("[other]\nx = 1", "nothing else"),
        ("rule = 3", "nothing else"),
        ('rule = ["dead_jobs"]', "nothing else"),
        ('[[rule]]\nname = "dead_jobs"\nthreshold = "many"', "dead_jobs"),
        ('[[rule]]\nname = "new"', "new"),
        ('[[rule]]\nname = "dead_jobs"\nwhenever = 3', "whenever"),
        ('[[rule]]\nname = "dead_jobs"\nthreshold = nan', "dead_jobs"),
    ],
)
def test_a_file_that_is_wrong_is_refused_by_name(tmp_path: Any, text: str, said: str) -> None:
    path = tmp_path / "rules.toml"
    path.write_text(text)
    with pytest.raises(ConfigRefused, match=said) as refused:
        load_rules(str(path))
    assert str(path) in str(refused.value)


@pytest.mark.parametrize(
    "url",
    [
        "ftp://a.example/x",
        "file:///etc/passwd",
        "https://",
        "http://169.254.169.254/latest",
        "http://169.254.170.2/",
        "http://[fe80::1]/",
        "http://[::ffff:169.254.169.254]/",
        "http://metadata.google.internal/",
        "http://metadata.google.internal./",
        "http://[fd00:ec2::254]/latest/meta-data/",
        "http://[fd00:ec2:0:0::23]/",
        "http://[fd20:ce::254]/",
        "http://169.254.170.23/v1/credentials",
        "http://100.100.100.200/latest/meta-data/",
        "http://168.63.129.16/machine",
        "http://192.0.0.192/latest/",
        "http://2852039166/",
        "http://0xa9fea9fe/",
        "http://0xa9.0xfe.0xa9.0xfe/",
        "http://0251.0376.0251.0376/",
        "http://169.254.43518/",
        "http://169.254.169.254./",
        "http://[64:ff9b::a9fe:a9fe]/",
        "http://[2002:a9fe:a9fe::]/",
        "http://[::169.254.169.254]/",
        "http://[::ffff:a9fe:aa02]/",
        "https://user:word@a.example/",
        "https://a.example/\u00e9",
    ],
)
def test_an_address_that_is_no_webhook_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="alert_webhook_url"):
        AlertSettings.model_validate({"alert_webhook_url": url})


@pytest.mark.parametrize(
    "url",
    [
        "https://alerts.example.com/chot",
        "http://10.0.0.5:8080/hook",
        "http://127.0.0.1/hook",
        "http://[fd12:3456::1]/hook",
        "http://[2001:db8::1]/hook",
        "https://metadata.example.com/",
        "https://169-254-169-254.example.com/",
        "http://100.100.100.201/",
    ],
)
def test_other_addresses_are_taken_private_ones_too(url: str) -> None:
    settings = AlertSettings.model_validate({"alert_webhook_url": url})
    assert settings.alert_webhook_url is not None


@pytest.mark.parametrize(
    "given",
    [
        {"alert_webhook_url": "https://a.example/", "alert_webhook_secret": "short"},
        {"alert_webhook_secret": "long enough to be one"},
        {"alert_sns_topic_arn": "arn:aws:sqs:ap-southeast-1:123456789012:x"},
        {"alert_sns_topic_arn": "arn:aws:sns:ap-southeast-1:123456789012:x.fifo"},
        {"cloudwatch_namespace": "AWS/SQS"},
        {"alert_seconds": 0},
    ],
)
def test_settings_that_cannot_work_are_refused(given: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"."):
        AlertSettings.model_validate(given)


def test_what_is_empty_is_not_set() -> None:
    """As of a variable that a template leaves empty."""
    names = (
        "alert_webhook_url",
        "alert_webhook_secret",
        "alert_sns_topic_arn",
        "cloudwatch_namespace",
    )
    settings = AlertSettings.model_validate(dict.fromkeys(names, ""))
    assert [getattr(settings, name) for name in names] == [None] * 4


def test_every_rule_is_published_also_where_there_is_nothing() -> None:
    """An alarm over a metric that comes and goes would keep its last state."""
    sent = {each["MetricName"]: each["Value"] for each in metrics_of(load_rules(), EMPTY, "d")}
    assert sent == {each.cloudwatch_metric: 0.0 for each in load_rules()}


def test_numbers_are_written_for_people() -> None:
    assert [said(value) for value in (0, 1, 0.25, 1234.6)] == ["0", "1", "0.25", "1,235"]
