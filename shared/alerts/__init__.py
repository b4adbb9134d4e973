"""Alerts: rules over the counts of the database, who is told when one is broken, and once.

rules.toml says when. The evaluator (evaluator.py) runs in every api and worker process and works
in one of them at a time; what it has found and told stands in PostgreSQL.
"""

from shared.alerts.judging import Firing, firing
from shared.alerts.rules import Rule, load_rules

__all__ = ["Firing", "Rule", "firing", "load_rules"]
