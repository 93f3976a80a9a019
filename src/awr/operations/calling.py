"""Calling an operation from a door: plain values in, plain values out, and no other way around the checks."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from awr.domain.secrets import refuse_secrets
from awr.errors import AwrError
from awr.operations.registry import Operation
from awr.operations.requests import convert_request
from awr.project import Project, existing_folder

__all__ = ["Answer", "call", "call_plain", "public_value"]


class Answer(msgspec.Struct, frozen=True):
    """What a call came to: a value, an error report, or a value that knows of a problem."""

    value: dict[str, Any] | None
    error: dict[str, Any] | None

    @property
    def is_error(self) -> bool:
        """Whether the caller has to look at an error."""
        return self.error is not None

    def body(self) -> dict[str, Any]:
        """Return one object for both: the value with its error inside, or the report alone."""
        if self.value is None:
            assert self.error is not None, "an answer has a value or an error"
            return dict(self.error)
        return dict(self.value) if self.error is None else {**self.value, "ok": False, "error": self.error}


def call(operation: Operation, project: Project, request: msgspec.Struct) -> Answer:
    """Carry out one operation that stands on a project. A refusal is an answer too; a fault of AWR's is raised."""
    return _answer(operation, request, project)


def call_plain(operation: Operation, arguments: Mapping[str, Any], *, folder: Path) -> Answer:
    """Carry out any operation with plain JSON arguments. `folder` is the project's.

    A folder that is no project is said first, whatever else is wrong with the call.
    """
    try:
        project = Project.open(folder) if operation.scope == "project" else None
        request = convert_request(dict(arguments), operation.request_type(), what="the request")
        place = project or (existing_folder(folder) if operation.scope == "folder" else None)
    except AwrError as error:
        return Answer(None, error.report())
    return _answer(operation, request, place)


def _answer(operation: Operation, request: msgspec.Struct, place: Project | Path | None) -> Answer:
    """Carry out an operation with what its scope gives it."""
    try:
        function = operation.function()
        result = function(request) if place is None else function(place, request)
        problem = getattr(result, "problem", lambda: None)()
        return Answer(public_value(result), problem.report() if problem is not None else None)
    except AwrError as error:
        return Answer(None, error.report())


def public_value(result: Any) -> dict[str, Any]:
    """Return the public JSON of a result. Raise RuleViolation when it would show a secret.

    What came in was looked at. A record from elsewhere, or from before a rule was known, is held back here.
    """
    value = msgspec.to_builtins(getattr(result, "public", lambda: result)())
    assert isinstance(value, dict), "every result is an object"
    refuse_secrets(value, what="the answer")
    return value
