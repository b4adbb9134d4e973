"""Bounds: the worlds of locks that are explored, and where counterexamples are looked for.

Jobs stand in the order of their ranks. Cells 1 and 2 are two parts (or periods), 3 is all.
"""

from dataclasses import replace

from shared.model.locks.state import LockBounds, read, write

BOOKS, STOCK = 0, 1
FIRST, SECOND = 0b01, 0b10
READER_AND_WRITER = ((write(BOOKS),), (read(BOOKS),))
WRITER_BETWEEN_READERS = ((read(BOOKS, FIRST),), (write(BOOKS),), (read(BOOKS, SECOND),))
CROSSED = ((write(BOOKS), write(STOCK)), (write(STOCK), write(BOOKS)), (read(BOOKS),))
SPANNING = ((write(BOOKS),), (write(STOCK),), (write(BOOKS), write(STOCK)))
TWO_SPANNING = (*SPANNING, (write(STOCK), write(BOOKS)))

PAIR = LockBounds(locks=READER_AND_WRITER, submitted=2)
MIXED = LockBounds(locks=WRITER_BETWEEN_READERS, submitted=3)
TWO_ROOTS = LockBounds(locks=CROSSED, submitted=3)

WORLDS = (
    replace(PAIR, expiries=1),
    MIXED,
    LockBounds(locks=SPANNING, submitted=3, workers=3),
    LockBounds(locks=(*READER_AND_WRITER, (read(BOOKS, FIRST),)), submitted=3, cancels=1),
    LockBounds(
        locks=(*READER_AND_WRITER, (read(BOOKS, FIRST),)),
        submitted=3,
        pauses=1,
        pausable=frozenset({0}),
    ),
    TWO_ROOTS,
    LockBounds(locks=TWO_SPANNING, submitted=4),
)
TEST = (
    replace(MIXED, submitted=1, releases=1),
    replace(MIXED, crashes=1, expiries=1),
    replace(MIXED, stops=1, losses=1),
    replace(MIXED, cancels=1, pauses=1, pausable=frozenset({1})),
    replace(TWO_ROOTS, crashes=1),
    LockBounds(locks=SPANNING, submitted=3, workers=3),
)
FULL = (
    replace(MIXED, submitted=1, crashes=1, expiries=1, cancels=1, releases=1),
    replace(MIXED, submitted=0, crashes=1, expiries=1, pauses=1, pausable=frozenset({1})),
    replace(MIXED, copies=2, crashes=1, duplicates=1, expiries=1, losses=1),
    replace(TWO_ROOTS, submitted=0, stops=1, expiries=1, cancels=1),
    LockBounds(locks=SPANNING, submitted=0, workers=3, crashes=1, expiries=1),
    LockBounds(locks=TWO_SPANNING, submitted=1, workers=3, cancels=1, expiries=1),
)
