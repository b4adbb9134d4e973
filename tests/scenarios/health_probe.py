"""`python health_probe.py PORT SECONDS`: asks /healthz every 10 ms over one connection.

In a process of its own, so that what it measures is not the busy client of the same test. Prints
the latencies in seconds, one a line.
"""

import http.client
import sys
from time import monotonic, sleep

EVERY_SECONDS = 0.01


def main() -> None:
    """Ask until the time is over."""
    port, seconds = int(sys.argv[1]), float(sys.argv[2])
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    until = monotonic() + seconds
    while monotonic() < until:
        began = monotonic()
        connection.request("GET", "/healthz")
        answer = connection.getresponse()
        answer.read()
        took = monotonic() - began
        sys.stdout.write(f"{took if answer.status == 200 else 1e9:.6f}\n")
        sleep(EVERY_SECONDS)


if __name__ == "__main__":
    main()
