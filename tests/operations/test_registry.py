"""The one list of operations: complete, unique, typed, and the same as the command line."""

from __future__ import annotations

import inspect
import re
import shlex
from typing import Any, get_type_hints

import click
import msgspec
import pytest

from awr.operations.registry import OPERATIONS, Operation, operation_named
from awr.surfaces.cli.app import program
from awr.surfaces.cli.commands import OperationCommand, Settings

each = pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name)


def command_at(path: list[str]) -> tuple[click.Command, click.Context]:
    command: click.Command = program()
    context = click.Context(command, info_name="awr", obj=Settings())
    for word in path:
        assert isinstance(command, click.Group)
        found = command.get_command(context, word)
        assert found is not None, word
        command = found
        context = click.Context(command, info_name=word, parent=context)
    return command, context


def leaves(command: click.Command, path: str = "") -> dict[str, click.Command]:
    if not isinstance(command, click.Group):
        return {path.strip(): command}
    found: dict[str, click.Command] = {}
    for name in command.list_commands(click.Context(command)):
        child = command.get_command(click.Context(command), name)
        assert child is not None
        found |= leaves(child, f"{path} {name}")
    # A command may have commands below it.
    return {path.strip(): command, **found} if isinstance(command, OperationCommand) else found


def test_names_and_commands_are_unique() -> None:
    assert len({one.name for one in OPERATIONS}) == len(OPERATIONS)
    assert len({one.command for one in OPERATIONS}) == len(OPERATIONS)


def test_the_command_line_has_every_operation_the_demo_and_the_service_and_nothing_else() -> None:
    assert set(leaves(program())) == {one.command for one in OPERATIONS} | {
        "demo",
        "guardian serve",
        "guardian stdio",
        "serve",
    }


def test_an_operation_is_found_by_its_name() -> None:
    assert all(operation_named(one.name) is one for one in OPERATIONS)
    with pytest.raises(KeyError):
        operation_named("no.such")


@each
def test_an_operation_is_a_documented_function_with_a_strict_typed_request_and_a_typed_result(
    operation: Operation,
) -> None:
    function = operation.function()
    assert inspect.getdoc(function)
    hints = get_type_hints(function)
    for kind in (hints["request"], hints["return"]):
        assert issubclass(kind, msgspec.Struct)
    assert operation.request_type() is hints["request"]
    assert hints["request"].__struct_config__.forbid_unknown_fields
    assert hints["request"].__struct_config__.frozen


@each
def test_an_operation_takes_what_its_scope_says(operation: Operation) -> None:
    first = next(iter(inspect.signature(operation.function()).parameters))
    assert first == {"project": "project", "folder": "root", "none": "request"}[operation.scope]


@each
def test_an_operation_has_a_summary_that_is_a_sentence_and_a_name_that_is_a_path(operation: Operation) -> None:
    assert re.fullmatch(r"[A-Z].*\.", operation.summary)
    assert re.fullmatch(r"[a-z]+(\.[a-z_]+)?", operation.name)
    assert re.fullmatch(r"[a-z]+( [a-z-]+){0,2}", operation.command)


@pytest.mark.parametrize(
    "operation", [one for one in OPERATIONS if not one.input_file], ids=lambda operation: operation.name
)
def test_every_field_of_a_request_has_a_description(operation: Operation) -> None:
    command, context = command_at(operation.command.split())
    assert isinstance(command, OperationCommand)
    for parameter in command.get_params(context):
        if isinstance(parameter, click.Option):
            assert parameter.help, parameter.name
        else:
            assert command.argument_help(str(parameter.name)), parameter.name


@each
def test_the_example_of_an_operation_parses_as_that_very_command(operation: Operation) -> None:
    words = shlex.split(operation.example)
    assert words[0] == "awr"
    words = [word for word in words[1:] if word != "--json"]
    path = operation.command.split()
    assert words[: len(path)] == path
    command, context = command_at(path)
    command.parse_args(context, words[len(path) :])
    assert context.params is not None


@each
def test_a_request_has_a_json_schema(operation: Operation) -> None:
    schema: dict[str, Any] = msgspec.json.schema(operation.request_type())
    assert schema


def test_operations_that_answer_from_the_record_are_marked_so() -> None:
    reading = {
        *("capabilities", "report", "source.list", "source.show", "work.history", "session.list", "session.show"),
        *("compaction.inspect", "event.show", "event.history", "journal.verify"),
    }
    assert {operation_named(name).effect for name in reading} == {"runtime_read"}


def test_operations_that_look_at_the_files_are_marked_so() -> None:
    looking = ("project.status", "work.ready", "search", "work.show", "work.graph", "context.compile", "work.prepare")
    assert {operation_named(name).effect for name in looking} == {"source_read"}


def test_operations_that_change_the_journal_are_marked_as_writing() -> None:
    writing = {
        *("project.init", "source.scan", "source.reindex", "session.start"),
        *("session.end", "compaction.observe", "compaction.defer", "compaction.import", "event.append"),
        "journal.rebuild",
    }
    assert {operation_named(name).effect for name in writing} == {"write"}
