"""The payload of a submit, from a JSON text, a file or `name=text` and `name:=json` words."""

import json
from collections.abc import Sequence
from typing import Any, TextIO

import click


def payload_text(raw: str | None, file: TextIO | None, words: Sequence[str]) -> str:
    """Return the payload as JSON text: one given whole goes out exactly as it was written.

    UsageError when it is given twice, is not a JSON object, or a word is no pair.
    """
    if sum((raw is not None, file is not None, bool(words))) > 1:
        raise click.UsageError("give the payload once: --payload, --payload-file, or words")
    if words:
        return json.dumps(_from_words(words), ensure_ascii=False)
    text = _read(file) if file is not None else raw
    if text is None:
        return "{}"
    try:
        parsed = json.loads(text)
    except ValueError as error:
        raise click.UsageError(f"the payload is not JSON: {error}") from None
    except RecursionError:
        raise click.UsageError("the payload is nested too deep") from None
    if not isinstance(parsed, dict):
        raise click.UsageError("the payload must be a JSON object: {…}")
    return text


def _read(file: TextIO) -> str:
    try:
        return file.read()
    except UnicodeDecodeError as error:
        said = f"the payload must be UTF-8; byte {error.start + 1} of the file is not"
        raise click.UsageError(said) from None


def _from_words(words: Sequence[str]) -> dict[str, Any]:
    """`=` is text, so that a store called 007 stays 007; `:=` is JSON for all the rest."""
    payload: dict[str, Any] = {}
    for word in words:
        name, equals, value = word.partition("=")
        is_json = name.endswith(":")
        name = name.removesuffix(":")
        if not equals or not name:
            raise click.UsageError(f"{word!r} is neither name=text nor name:=json")
        if name in payload:
            raise click.UsageError(f"{name!r} is given twice")
        payload[name] = _parsed(name, value) if is_json else value
    return payload


def _parsed(name: str, value: str) -> Any:
    try:
        return json.loads(value)
    except ValueError:
        raise click.UsageError(f"{name}:={value} is not JSON; {name}={value} is text") from None
    except RecursionError:
        raise click.UsageError(f"{name} is nested too deep") from None
