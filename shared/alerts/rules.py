"""Rules: when somebody is called. Read from one file, so that no two places disagree."""

import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from shared.errors import ConfigRefused

RULES_FILE = Path(__file__).with_name("rules.toml")
Name = Annotated[str, Field(pattern=r"^[a-z][a-z_]{1,39}$")]
Line = Annotated[str, Field(min_length=1, max_length=400, pattern=r"^[^\x00-\x1f]+$")]


class Rule(BaseModel):
    """One rule: which number, compared with what, for how long, and what to do about it.

    It fires when `metric` (of `where`, for each value of the labels `by`) has compared true for
    `for_seconds`; it is over when it has not for `resolve_seconds`. While it goes on it is told
    again every `repeat_seconds`. `missing`: that there is no number at all is what it is about.
    `cloudwatch` is its metric's name there, the rule's own where it is empty.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=False)

    name: Name
    metric: Annotated[str, Field(pattern=r"^chot_[a-z_]+$")]
    where: Mapping[str, str] = {}
    by: tuple[Name, ...] = ()
    comparison: Literal[">", "<"]
    threshold: Annotated[float, Field(allow_inf_nan=False)]
    for_seconds: Annotated[int, Field(ge=0, le=86_400)] = 0
    resolve_seconds: Annotated[int, Field(ge=0, le=86_400)] = 120
    repeat_seconds: Annotated[int, Field(ge=300, le=7 * 86_400)] = 14_400
    severity: Literal["critical", "warning"]
    summary: Line
    remedy: Line
    missing: bool = False
    cloudwatch: Annotated[str, Field(pattern=r"^[a-z_]*$")] = ""
    enabled: bool = True

    def breached(self, value: float) -> bool:
        """Whether this value compares true."""
        return value > self.threshold if self.comparison == ">" else value < self.threshold

    @property
    def cloudwatch_metric(self) -> str:
        """What its number is called in CloudWatch."""
        return self.cloudwatch or self.name

    @property
    def runbook(self) -> str:
        """Where the runbook speaks of it, from the repository's root."""
        return f"docs/runbook.md#{self.name}"


def load_rules(changes: str = "") -> tuple[Rule, ...]:
    """The rules in force, in the file's order; those that `changes` switches off are left out.

    `changes` (CHOT_ALERT_RULES) is the path of a file of the same form: a rule in it that has a
    known name changes only the fields it names, another one is a new rule. ConfigRefused for a
    file that cannot be read or holds what is no rule.
    """
    merged = dict(_shipped())
    for raw in _read(Path(changes)) if changes else ():
        name = str(raw.get("name"))
        merged[name] = merged.get(name, {}) | raw
    source = changes or str(RULES_FILE)
    rules = [_rule(source, raw) for raw in merged.values()]
    return tuple(rule for rule in rules if rule.enabled)


@cache
def _shipped() -> Mapping[str, dict[str, Any]]:
    return {str(raw["name"]): raw for raw in _read(RULES_FILE)}


def _read(path: Path) -> list[dict[str, Any]]:
    try:
        found = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigRefused(f"{path}: {error}") from error
    rules = found.get("rule")
    tables = [each for each in rules if isinstance(each, dict)] if isinstance(rules, list) else None
    if set(found) - {"rule"} or tables is None or tables != rules:
        raise ConfigRefused(f"{path}: holds [[rule]] tables and nothing else")
    return tables


def _rule(source: str, raw: dict[str, Any]) -> Rule:
    try:
        return Rule.model_validate(raw)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(map(str, first["loc"])) or "rule"
        said = f"{source}: rule {raw.get('name')!r}: {place}: {first['msg']}"
        raise ConfigRefused(said) from None
