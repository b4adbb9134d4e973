"""How often an account may ask: a bucket of tokens for each, in this process.

A bucket holds `burst` tokens and gains `per_second`; a request takes one, and one that finds none
takes nothing. Two processes have two buckets for an account: what they allow adds up.
"""

import math
from collections import OrderedDict
from dataclasses import dataclass, field

MOST_BUCKETS = 10_000
HAIR = 1e-6  # what floats lose of a token: who waited as long as he was told must pass


@dataclass(slots=True)
class _Bucket:
    tokens: float
    at: float


@dataclass(slots=True, kw_only=True)
class RateLimit:
    """Buckets by account; the least lately used one is forgotten beyond MOST_BUCKETS.

    `per_second` 0 lets everybody pass.
    """

    per_second: float
    burst: int
    _buckets: OrderedDict[str, _Bucket] = field(default_factory=OrderedDict)

    def refuse(self, account: str, now: float) -> int | None:
        """None lets the request pass; else the whole seconds after which one will.

        `now` is of a monotonic clock (seconds).
        """
        if self.per_second == 0:
            return None
        bucket = self._buckets.get(account)
        if bucket is None:
            bucket = self._buckets[account] = _Bucket(self.burst, now)
            if len(self._buckets) > MOST_BUCKETS:
                self._buckets.popitem(last=False)
        self._buckets.move_to_end(account)
        gained = (now - bucket.at) * self.per_second
        bucket.tokens, bucket.at = min(float(self.burst), bucket.tokens + gained), now
        if bucket.tokens >= 1 - HAIR:
            bucket.tokens -= 1
            return None
        return max(1, math.ceil((1 - bucket.tokens) / self.per_second))
