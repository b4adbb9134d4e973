"""schemathesis over the whole OpenAPI document: no 5xx, and no answer that it does not tell of.

CHOT_TEST_EXAMPLES sets the budget: how many requests are made up for an operation and phase.
"""

import os
import subprocess
import sys
from pathlib import Path
from string import Template

import pytest

from tests.conformance.seeded import Seeded

CONFIG = Path(__file__).with_name("schemathesis.toml")
EXAMPLES = os.environ.get("CHOT_TEST_EXAMPLES", "12")
SECONDS_MAX = 60.0 * max(5, int(EXAMPLES))


@pytest.mark.parametrize("phase", ["examples", "coverage", "fuzzing", "stateful"])
def test_the_api_answers_as_its_description_says(
    seeded: Seeded, tmp_path: Path, phase: str
) -> None:
    """Whatever is sent: a documented status, its media type and its shape, and never a 5xx."""
    command = [sys.executable, "-m", "schemathesis.cli", "--config-file", "config.toml", "run"]
    command += [f"{seeded.url}/openapi.json", "--phases", phase, "--max-examples", EXAMPLES]
    config = Template(CONFIG.read_text()).substitute(seeded.jobs, key=seeded.key)
    (tmp_path / "config.toml").write_text(config)
    done = subprocess.run(
        [*command, "--no-color"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
