"""Settings: every rule that a start would refuse, without starting anything."""

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec

from shared.doctor.finding import Finding
from shared.errors import ConfigRefused

# Named, not imported: an image holds one side only, and shared stands below both.
PROCESSES = {"api": "api.checks", "worker": "worker.checks"}
NOT_SET = "CHOT_DATABASE_URL is not set"


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """What the settings say: findings, what could not be checked, connections by process."""

    findings: list[Finding]
    unchecked: list[str]
    connections: Mapping[str, int]


def check_settings() -> Checked:
    """Ask both sides, as far as they are installed here."""
    findings: list[Finding] = []
    unchecked: list[str] = []
    connections: dict[str, int] = {}
    for process, module in PROCESSES.items():
        if find_spec(process) is None:
            unchecked.append(f"settings of {process}: it is not installed here")
            continue
        try:
            connections[process] = importlib.import_module(module).refuse_config()
        except ImportError as error:
            unchecked.append(f"settings of {process}: its libraries are not installed ({error})")
        except ConfigRefused as refusal:
            for line in str(refusal).split("\n"):
                if line == NOT_SET:
                    unchecked.append(f"settings of {process}: {NOT_SET} here")
                else:
                    findings.append(_wrong(process, line, findings))
    return Checked(
        findings=list(dict.fromkeys(findings)),
        unchecked=list(dict.fromkeys(unchecked)),
        connections=connections,
    )


def _wrong(process: str, line: str, before: list[Finding]) -> Finding:
    """One for both processes where both refuse the same."""
    for each in before:
        if each.seen == line:
            return each
    return Finding(
        code="settings",
        severity="critical",
        seen=line,
        why=f"`chot {process}` refuses to start with it",
        remedy=(f"chot config {process}   # names the setting, its value and its meaning",),
    )
