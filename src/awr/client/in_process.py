"""AWR in this very process: the operations themselves, without a program in between."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path
from typing import Any

import msgspec

from awr.client.transport import Outcome
from awr.errors import AwrError
from awr.operations.calling import Answer, call, public_value
from awr.operations.registry import operation_named
from awr.operations.requests import convert_request
from awr.project import Project

__all__ = ["InProcess"]


class InProcess:
    """Calls the operations of this installation. A refusal is an answer; only a crash leaves the outcome unknown."""

    def __init__(self, project: Path) -> None:
        self._root = project

    @property
    def identity(self) -> dict[str, str]:
        """Return the program and its version."""
        return {"program": "awr", "version": version("awr"), "transport": "in_process"}

    def call(self, operation: str, arguments: dict[str, Any]) -> Outcome:
        """Carry out one operation."""
        found = operation_named(operation)
        try:
            request = convert_request(arguments, found.request_type(), what="the request")
            if found.scope == "none":
                answer = Answer(public_value(found.function()(request)), None)
            else:
                answer = call(found, Project.open(self._root), request)
        except AwrError as error:
            return Outcome(None, error.report())
        # The same JSON values as any other transport gives, not this process's own objects.
        value = None if answer.value is None else msgspec.json.decode(msgspec.json.encode(answer.value))
        return Outcome(value, answer.error)
