"""The checker: pure functions over the evidence of a run; each names what it found wrong."""

from tests.faults.check_books import BOOK_CHECKS
from tests.faults.check_calls import CALL_CHECKS
from tests.faults.check_fences import FENCE_CHECKS
from tests.faults.check_groups import GROUP_CHECKS
from tests.faults.check_liveness import LIVENESS_CHECKS
from tests.faults.check_locks import LOCK_CHECKS
from tests.faults.evidence import Evidence, Ordered
from tests.faults.violations import Check, Violation

CHECKS: tuple[Check, ...] = (
    *CALL_CHECKS,
    *FENCE_CHECKS,
    *BOOK_CHECKS,
    *LIVENESS_CHECKS,
    *LOCK_CHECKS,
    *GROUP_CHECKS,
)


def check_evidence(evidence: Evidence) -> list[Violation]:
    """Everything that any check finds; an empty list is what the suite is there to see."""
    seen = Ordered(evidence)
    return [
        Violation(check.__name__, job_id, text) for check in CHECKS for job_id, text in check(seen)
    ]
