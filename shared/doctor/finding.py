"""Findings, and the report they stand in."""

import shlex
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Literal

Severity = Literal["critical", "warning", "note"]
ORDER: dict[Severity, int] = {"critical": 0, "warning": 1, "note": 2}


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that is not as it should be.

    `code` is stable, for scripts and --ignore. critical: jobs are, or will be, lost, stuck or
    unsafe; warning: will hurt one day; note: worth knowing, and no reason for an exit code.
    `remedy` are commands, in order.
    """

    code: str
    severity: Severity
    seen: str
    why: str
    remedy: tuple[str, ...]

    def as_json(self) -> dict[str, Any]:
        """As `chot doctor --json` has it."""
        return {
            "code": self.code,
            "severity": self.severity,
            "seen": self.seen,
            "why": self.why,
            "remedy": list(self.remedy),
        }


@dataclass(slots=True)
class Report:
    """What was found, and what could not be looked at."""

    findings: list[Finding] = field(default_factory=list)
    unchecked: list[str] = field(default_factory=list)
    signs: dict[str, int] = field(default_factory=dict)
    database_away: bool = False

    def add(self, found: Iterable[Finding]) -> None:
        """Take the findings of one check; what several checks see is told once."""
        self.findings += [each for each in found if each not in self.findings]

    def ordered(self, ignored: Iterable[str] = ()) -> list[Finding]:
        """Worst first, without those whose codes are ignored."""
        left_out = set(ignored)
        kept = (each for each in self.findings if each.code not in left_out)
        return sorted(kept, key=lambda each: (ORDER[each.severity], each.code, each.seen))


def sql(statement: str, *, url: str = "CHOT_MIGRATE_DATABASE_URL") -> str:
    """The command that runs one statement as the database's owner (or whoever `url` is)."""
    return f'psql "${url}" -c {shlex.quote(statement)}'


def name_of(identifier: str) -> str:
    """An identifier as SQL takes it."""
    return '"' + identifier.replace('"', '""') + '"'
