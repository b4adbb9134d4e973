"""`python -m shared.cli`: the `chot` command where no script is installed."""

from shared.cli import main

main()
