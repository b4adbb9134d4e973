"""Doctor: looks at everything a deployment hangs on, from outside, and changes nothing.

Each finding says what was seen, why it matters and which command mends it. What cannot be looked
at is told as such: it is no finding, and no all-clear either.
"""

from shared.doctor.finding import Finding, Report

__all__ = ["Finding", "Report"]
