"""The protocol as a state machine, run by Hypothesis over real PostgreSQL."""

import pytest

# The steps assert as tests do, and a falsifying example should say what was compared.
pytest.register_assert_rewrite(
    *(f"tests.stateful.{name}" for name in ("checks", "claims", "clients", "commits", "machine"))
)
