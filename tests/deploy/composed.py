"""compose.yaml as processes of this machine: what each container would run, in what, and after whom."""

import json
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.services import ROOT

TEXT = (ROOT / "compose.yaml").read_text()
SERVICES: Mapping[str, dict[str, Any]] = yaml.safe_load(TEXT)["services"]
PROGRAMS = Path(sys.executable).parent
WORDS = re.compile(r"^(ENTRYPOINT|CMD) (\[.*\])$", re.MULTILINE)
COPIED = re.compile(r"^COPY (?!--from)(\S+) \S+$", re.MULTILINE)
ENV = re.compile(r'(\w+)=("[^"]*"|\S+)')


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """What an image of ours says of itself: its command, its environment, what was copied into it."""

    entrypoint: Sequence[str]
    command: Sequence[str]
    env: Mapping[str, str]
    copied: frozenset[str]


def dockerfile_of(image: str) -> str:
    """The text that an image of compose.yaml is built from."""
    (build,) = [
        each["build"]
        for each in SERVICES.values()
        if each.get("image") == image and "build" in each
    ]
    inline: str | None = build.get("dockerfile_inline")
    return inline or (ROOT / build["dockerfile"]).read_text()


def image_of(service: str) -> Image:
    """The image that a service of ours runs in."""
    text = dockerfile_of(SERVICES[service]["image"])
    said = {name: json.loads(words) for name, words in WORDS.findall(text.replace("\\\n", ""))}
    lines = re.findall(r"^ENV (.+)$", re.sub(r"\\\n", " ", text), re.MULTILINE)
    return Image(
        entrypoint=said["ENTRYPOINT"],
        command=said.get("CMD", []),
        env={name: value for line in lines for name, value in ENV.findall(line) if name != "PATH"},
        copied=frozenset(COPIED.findall(text)),
    )


def words_of(service: str) -> list[str]:
    """Entry point and command, as Compose puts them together: an entry point clears the command."""
    image, said = image_of(service), SERVICES[service]
    if "entrypoint" in said:
        return [*said["entrypoint"], *said.get("command", [])]
    return [*image.entrypoint, *said.get("command", image.command)]


def check_of(service: str) -> list[str]:
    """The health check's words, without the CMD before them."""
    kind, *words = SERVICES[service]["healthcheck"]["test"]
    assert kind == "CMD", "no shell between"
    return [str(each) for each in words]


def environment_of(service: str, **given: str) -> dict[str, str]:
    """What the process finds: the image's, then the service's; ${NAME…} is what is given."""
    said = image_of(service).env if "image" in SERVICES[service] else {}
    own = SERVICES[service].get("environment", {})
    return {**said, **{name: _filled(str(value), given) for name, value in own.items()}}


def _filled(value: str, given: Mapping[str, str]) -> str:
    return re.sub(r"\$\{(\w+)[^}]*\}", lambda found: given[found[1]], value)


def in_order() -> list[str]:
    """The services, each after those that it depends on; AssertionError for a circle."""
    done: list[str] = []
    left = dict(SERVICES)
    while left:
        ready = [name for name in left if set(SERVICES[name].get("depends_on", {})) <= set(done)]
        assert ready, f"{sorted(left)} wait for each other"
        done += ready
        for name in ready:
            del left[name]
    return done


def program(words: Sequence[str]) -> list[str]:
    """The same with this machine's own programs in the place of the image's."""
    first, *rest = words
    return [str(PROGRAMS / first) if first in {"python", "chot"} else first, *rest]
