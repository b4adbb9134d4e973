"""What would hold an event loop although nobody computes."""

import gc


def spare_the_collector() -> None:
    """Take what start-up has made out of the garbage collector's sight: it stays for good.

    Left in it, each full collection goes through all of it again and holds every loop of the
    process (86 ms on a quiet core for an api that has done nothing yet).
    """
    gc.collect()
    gc.freeze()
