"""Stories by chance that are the same ones in every process, whatever else that has imported."""

from hypothesis.internal.conjecture import providers
from hypothesis.internal.constants_ast import Constants


def draw_alike() -> None:
    """Let no draw depend on which modules of the project are loaded.

    Hypothesis sprinkles its draws with the constants that it finds in them. The same seed would
    tell one story when a test runs alone and another beside others, or in one of several workers.
    """
    providers._get_local_constants = Constants
