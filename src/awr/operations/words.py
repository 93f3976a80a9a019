"""An operation and plain arguments as the words of its command, for whoever runs `awr` as a program."""

from __future__ import annotations

import json
import types
from typing import Annotated, Any, Union, get_args, get_origin

import msgspec

from awr.operations.definition import Operation

__all__ = ["command_words", "spoken"]


def spoken(annotation: Any) -> tuple[Any, msgspec.Meta]:
    """Return a field's plain type, without `Annotated` and `| None`, and its description."""
    meta = msgspec.Meta()
    while True:
        if get_origin(annotation) is Annotated:
            annotation, *notes = get_args(annotation)
            meta = next((note for note in notes if isinstance(note, msgspec.Meta)), meta)
        elif get_origin(annotation) in {Union, types.UnionType}:
            annotation = next(choice for choice in get_args(annotation) if choice is not type(None))
        else:
            return annotation, meta


def command_words(
    operation: Operation, arguments: dict[str, Any], *, input_path: str
) -> tuple[list[str], dict[str, Any] | None]:
    """Return the words of a command, and the JSON that it reads from the file `input_path`, if it reads one.

    An argument that an operation takes both as a file and as JSON, as a completion, goes into the file.
    """
    words = operation.command.split()
    if operation.input_file:
        return [*words, "--input", input_path], dict(arguments)
    fields = msgspec.structs.fields(operation.request_type())
    from_file = any(field.name == "input" for field in fields)
    positional: list[str] = []
    body: dict[str, Any] | None = None
    for field in fields:
        value = arguments.get(field.name)
        if value is None or value is False:
            continue
        kind, meta = spoken(field.type)
        extra = meta.extra or {}
        option = extra.get("option", "--" + field.name.replace("_", "-"))
        values = list(value) if get_origin(kind) is tuple else [value]
        if extra.get("argument"):
            positional += [_word(one) for one in values]
        elif value is True:
            words.append(option)
        elif from_file and isinstance(value, dict):
            body = value
            words += ["--input", input_path]
        else:
            words += [word for one in values for word in (option, _word(one))]
    return ([*words, "--", *positional] if positional else words), body


def _word(value: Any) -> str:
    return (
        json.dumps(value, ensure_ascii=False, separators=(",", ":")) if isinstance(value, dict | list) else str(value)
    )
