"""What would hold an event loop although nobody computes."""

import gc

# Containers made and not yet freed before the collector looks at the young ones, and how many such
# looks before it goes through the older ones. A request body of 256 KiB may hold 40,000 of them:
# with Python's own 700, 10, 10 judging one such body set off several whole collections of 50 to
# 120 ms, each of which holds every loop of the process. Reference counts free nearly everything
# anyway; what is left to the collector are cycles.
RARELY = (50_000, 20, 20)


def spare_the_collector() -> None:
    """Take what start-up has made out of the garbage collector's sight: it stays for good.

    Left in it, each full collection goes through all of it again and holds every loop of the
    process (86 ms on a quiet core for an api that has done nothing yet). From here on it collects:
    `python -m api` and `python -m worker` import without it, which would cost a fifth of a start.
    Nothing is collected first: what imports leave behind is less than looking for it is worth.
    """
    gc.freeze()
    gc.enable()


def collect_rarely() -> None:
    """Let the collector come as rarely as RARELY says: for a process that judges large bodies.

    Not for a worker: what its handlers leave behind in cycles is theirs, and may be large.
    """
    gc.set_threshold(*RARELY)
