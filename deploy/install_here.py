"""Run while an image is built: what `pip install .` would do, for the packages copied into it.

Each image holds only its own side, so the distribution as a whole is not installed. Its name and
version are (the worker writes them into every attempt), and the `chot` command. The revision that
the image was built from, when it is given, becomes the version's local part: 0.1.0+3ae2028.
"""

import re
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
    version = project["version"] + local_part(sys.argv[1] if len(sys.argv) > 1 else "")
    (metadata / "METADATA").write_text(
        f"Metadata-Version: 2.4\nName: {project['name']}\nVersion: {version}\n"
    )
    command = Path(sys.prefix) / "bin" / "chot"
    command.write_text(COMMAND)
    command.chmod(0o755)


def local_part(revision: str) -> str:
    """Of a version, from what a source control calls a revision; nothing when it is not known."""
    words = re.findall(r"[a-z0-9]+", revision.lower())
    return "+" + ".".join(words) if words and words != ["unknown"] else ""


if __name__ == "__main__":
    main()
