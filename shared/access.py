"""Who may do what: roles, and the companies and brands whose jobs an account may see at all."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class Role(StrEnum):
    """What an account may do; each is given by itself, and admin holds every right."""

    SUBMIT = "submit"  # submit jobs
    READ = "read"  # jobs, queues, workers, metrics
    OPERATE = "operate"  # cancel, redrive, dead letters, pause and resume, priority 9
    ADMIN = "admin"  # all of that, and what belongs to no company: dead messages


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """Whose jobs: of every company (None), of one, or of some of its brands only.

    A job without a brand is of its whole company: a scope of brands does not cover it.
    """

    company: str | None = None
    brands: tuple[str, ...] | None = None

    @property
    def is_everything(self) -> bool:
        """Whether no company lies outside."""
        return self.company is None

    def covers_company(self, company: object) -> bool:
        """Whether some job of this company may lie inside."""
        return self.company is None or self.company == company

    def covers(self, company: object, brand: object) -> bool:
        """Whether a job of this company and brand lies inside, as IN_SCOPE judges it in SQL."""
        return self.covers_company(company) and (self.brands is None or brand in self.brands)

    def binds(self) -> Mapping[str, Any]:
        """What IN_SCOPE is bound to."""
        brands = None if self.brands is None else list(self.brands)
        return {"scope_company": self.company, "scope_brands": brands}


EVERYTHING = Scope()

# One predicate over `j` for every statement that shows or touches jobs on somebody's behalf.
IN_SCOPE = """((CAST(:scope_company AS text) IS NULL OR j.company = CAST(:scope_company AS text))
        AND (CAST(:scope_brands AS text[]) IS NULL
             OR j.brand = ANY(CAST(:scope_brands AS text[]))))"""
