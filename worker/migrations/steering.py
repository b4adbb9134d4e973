"""How large the next batch is: by the time that batches take, and by what has failed. Pure."""

from dataclasses import dataclass

# Below half of its time a batch grows, above it by a fifth it shrinks.
GROW, SHRINK = 1.2, 0.7
BELOW, ABOVE = 0.5, 1.2
# What a transaction takes anyway is no reason for smaller ones: below that, only what fails is.
FEWEST_BY_TIME = 20
# A single row may take so many times what a batch is to take; then it is the row's fault.
TIMEOUT_TARGETS = 5
LONGEST_TIMEOUT_MS = 120_000
MOST_CONFLICTS = 5


@dataclass(slots=True, kw_only=True)
class Steering:
    """The size of batches of one run. `suspect` rows behind the cursor hold one that failed."""

    size: int
    target_ms: int
    largest: int
    suspect: int = 0
    conflicts: int = 0
    timeout_ms: int = 0

    def __post_init__(self) -> None:
        self.size = max(1, min(self.size, self.largest))
        self.timeout_ms = self.timeout_ms or self.target_ms * TIMEOUT_TARGETS

    @property
    def limit(self) -> int:
        """How many rows to try next."""
        half = (self.suspect + 1) // 2
        return min(self.size, half) if self.suspect else self.size

    def went_well(self, rows: int, ms: int) -> None:
        """A batch of so many rows took so long. Only a full one says anything of the size."""
        if self.suspect:
            self.suspect = max(0, self.suspect - rows)
        elif ms > self.target_ms * ABOVE:
            self.size = min(self.size, max(FEWEST_BY_TIME, int(rows * SHRINK)))
        elif ms < self.target_ms * BELOW and rows >= self.size:
            self.size = min(self.largest, max(self.size + 1, int(self.size * GROW)))
        self.conflicts = 0

    def failed(self, rows: int) -> bool:
        """The data of one of these rows fails; True: it is the only one, and found."""
        self.suspect = 0 if rows == 1 else rows
        return rows == 1

    def timed_out(self, rows: int | None) -> bool:
        """A try took too long, perhaps (None) already to find its rows; False: it is hopeless."""
        tried = self.limit if rows is None else rows
        if tried > 1:
            self.size = max(1, tried // 2)
            return True
        if self.timeout_ms >= LONGEST_TIMEOUT_MS:
            return False
        self.timeout_ms = min(LONGEST_TIMEOUT_MS, self.timeout_ms * 2)
        return True

    def met_locks(self) -> bool:
        """A try lost a fight for locks; False: often enough that the attempt is to make room."""
        self.conflicts += 1
        self.size = max(1, self.limit // 2)
        return self.conflicts < MOST_CONFLICTS

    def efficiency(self, ms: int) -> float:
        """What part of its time a batch took."""
        return round(ms / self.target_ms, 3)
