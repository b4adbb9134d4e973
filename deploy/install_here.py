"""Run while an image is built: what `pip install .` would do, for the packages copied into it.

Each image holds only its own side, so the distribution as a whole is not installed. Its name and
version are (the worker writes them into every attempt), and the `chot` command.
"""

import sys
import tomllib
from pathlib import Path

HOME = Path(__file__).parents[1]
COMMAND = f"""#!{sys.executable}
import sys
sys.path.insert(0, {str(HOME)!r})
from shared.cli import main
main()
"""


def main() -> None:
    """Write the metadata beside the packages, and the command onto the PATH."""
    project = tomllib.loads((HOME / "pyproject.toml").read_text())["project"]
    metadata = HOME / f"{project['name']}-{project['version']}.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(
        f"Metadata-Version: 2.4\nName: {project['name']}\nVersion: {project['version']}\n"
    )
    command = Path(sys.prefix) / "bin" / "chot"
    command.write_text(COMMAND)
    command.chmod(0o755)


if __name__ == "__main__":
    main()
