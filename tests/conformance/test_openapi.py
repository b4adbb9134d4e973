"""schemathesis over the whole OpenAPI document: no 5xx, and no answer that it does not tell of."""

import subprocess
import sys
from pathlib import Path
from string import Template

import pytest

from tests.conformance.seeded import Seeded

CONFIG = Path(__file__).with_name("schemathesis.toml")
EVERY_DAY = 12  # requests made up for an operation; coverage has a number of its own
SECONDS_MAX = 1800.0


@pytest.mark.parametrize(
    ("phase", "examples"),
    [
        ("examples", EVERY_DAY),
        ("coverage", EVERY_DAY),
        ("fuzzing", EVERY_DAY),
        ("stateful", EVERY_DAY),
        pytest.param("fuzzing", 250, marks=pytest.mark.long),
        pytest.param("stateful", 150, marks=pytest.mark.long),
    ],
)
def test_the_api_answers_as_its_description_says(
    seeded: Seeded, tmp_path: Path, phase: str, examples: int
) -> None:
    """Whatever is sent: a documented status, its media type, headers and shape, and never a 5xx."""
    names = ("key", "run", "preview", "file", "entry", "document")
    known = {name: getattr(seeded, name) for name in names}
    config = Template(CONFIG.read_text()).substitute(seeded.jobs, **known)
    (tmp_path / "config.toml").write_text(config)
    command = [sys.executable, "-m", "schemathesis.cli", "--config-file", "config.toml"]
    command += ["run", f"{seeded.url}/openapi.json", "--no-color"]
    command += ["--phases", phase, "--max-examples", str(examples)]
    done = subprocess.run(
        command,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
