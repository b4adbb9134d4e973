"""The child process of offload(): (function, args) come by stdin, results go out by stdout."""

import ctypes
import gc
import os
import pickle
import signal
import struct
import sys
import threading
from queue import SimpleQueue
from typing import BinaryIO

HEADER = struct.Struct("!Q")
# A call makes millions of tuples and hardly a cycle: to look for those after each 700 new objects
# takes a tenth of its time. After so many it still ends what a function of cycles would pile up.
COLLECT_AFTER = 100_000
PR_SET_PDEATHSIG = 1


def main() -> None:
    """Serve calls until the parent closes its end; die with the parent in any case."""
    _die_with(int(sys.argv[1]))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    # What a function prints must not run into the answers.
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    requests: SimpleQueue[bytes] = SimpleQueue()
    # The main thread may compute for minutes; this one notices the parent's end at once.
    threading.Thread(target=_read, args=(sys.stdin.buffer, requests), daemon=True).start()
    gc.set_threshold(COLLECT_AFTER, *gc.get_threshold()[1:])
    while True:
        answer = _run(requests.get())
        answers.write(HEADER.pack(len(answer)) + answer)
        answers.flush()


def _die_with(parent: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it was gone before the signal was asked for
        os._exit(1)


def _read(source: BinaryIO, requests: "SimpleQueue[bytes]") -> None:
    while True:
        header = source.read(HEADER.size)
        if len(header) < HEADER.size:
            os._exit(0)
        requests.put(source.read(HEADER.unpack(header)[0]))


def _run(request: bytes) -> bytes:
    try:
        function, args = pickle.loads(request)  # noqa: S301 - our own parent's request
        return pickle.dumps((True, function(*args)), pickle.HIGHEST_PROTOCOL)
    except Exception as error:  # noqa: BLE001 - whatever it raises is the parent's to judge
        return _pickled_error(error)


def _pickled_error(error: Exception) -> bytes:
    try:
        written = pickle.dumps((False, error))
        pickle.loads(written)  # noqa: S301 - odd constructors pickle, but do not unpickle
    except Exception:  # noqa: BLE001 - then its text must do
        return pickle.dumps((False, RuntimeError(f"{type(error).__name__}: {error}")))
    return written


if __name__ == "__main__":
    main()
