"""A command that was given a request id: carried out once, and answered the same way ever after."""

from __future__ import annotations

from typing import Any, get_type_hints

import click
import msgspec

from awr.errors import error_of
from awr.operations.calling import Answer, call
from awr.operations.receipts import Identity, identified
from awr.operations.registry import Operation
from awr.operations.selection import LOCAL_CLIENT
from awr.project import Project
from awr.surfaces.cli.output import print_result

__all__ = ["print_identified"]


def print_identified(
    operation: Operation,
    project: Project,
    request: msgspec.Struct,
    given: Any,
    *,
    request_id: str,
    as_json: bool,
) -> None:
    """Carry out or repeat one named write and print its answer. Raise the error it ended with, then and now."""

    def act(tagged: Project, revision: int) -> Answer:
        states = "expected_revision" in request.__struct_fields__
        stated = msgspec.structs.replace(request, expected_revision=revision) if states else request
        return call(operation, tagged, stated)

    arguments = {**given, "action": operation.action} if operation.action else dict(given)
    answer = identified(
        project,
        Identity(client=LOCAL_CLIENT, request_id=request_id, tool=operation.tool_name, arguments=arguments),
        expected_revision=getattr(request, "expected_revision", None),
        act=act,
    )
    assert answer.value is not None, "an identified write always has a receipt to show"
    if "code" not in answer.value or "message" not in answer.value:
        _print(operation, answer.value, as_json=as_json)
    if answer.error is not None:
        raise error_of(answer.error)


def _print(operation: Operation, value: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        print_result(operation.name, _Plain(value), as_json=True)
        return
    from awr.surfaces.cli.views import view_of  # a program's answer needs no words for people

    settled = value.get("write_outcome") not in {"unknown", "committed"}
    if settled:
        result = msgspec.convert(value, get_type_hints(operation.function())["return"])
        view_of(operation.name)(result)
    operation_of = value["operation"]
    how = "answered before, not repeated" if operation_of.get("replayed") else operation_of["status"]
    click.echo(f"request {operation_of['request_id']}: {how}, revision {value['project_revision']}")


class _Plain(msgspec.Struct, frozen=True):
    """An answer that is JSON already."""

    body: dict[str, Any]

    def public(self) -> dict[str, Any]:
        return self.body
