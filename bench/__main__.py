"""`python -m bench`: how long costing takes, and how long a public peer takes for the same."""

import argparse
import asyncio
import json

from bench.costing import METHODS, Size, cost_all


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--movements", type=int, default=Size.movements)
    parser.add_argument("--items", type=int, default=Size.items)
    parser.add_argument("--method", action="append", choices=METHODS)
    asked = parser.parse_args()
    size = Size(movements=asked.movements, items=asked.items)
    found = asyncio.run(cost_all(size, asked.method or METHODS))
    print(json.dumps([one.as_json() for one in found], indent=1))


if __name__ == "__main__":
    main()
