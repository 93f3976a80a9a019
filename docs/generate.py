"""Write the reference page of the commands from the list of operations: `make docs`."""

from __future__ import annotations

import inspect
from pathlib import Path

import click

from awr.operations.registry import OPERATIONS
from awr.surfaces.cli.app import program
from awr.surfaces.cli.commands import OperationCommand

PAGE = Path(__file__).parent / "reference" / "commands.md"
HEADER = """\
# Commands

Every command takes `--project PATH` (the present folder if left out) and `--json`, before or behind the command's
name. A success is one JSON object on standard output. A refusal is `{"code", "message", "details"}` on standard
error; see [errors](errors.md). Exit codes: 0 success, 1 refusal or partial failure, 2 wrong call.

This page is written by `make docs` from the list of operations.
"""


def page() -> str:
    """Return the text of the page."""
    writes = {operation.command: operation for operation in OPERATIONS}
    parts = [HEADER]
    for path, command in sorted(_commands(program(), ())):
        parts.append(f"\n## awr {path}\n\n{command.help or ''}\n")
        operation = writes.get(path)
        if operation is not None:
            kind = "writes" if operation.effect == "write" else "reads"
            named = f", capability `{operation.capability}`" if operation.capability else ""
            parts.append(f"\nOperation `{operation.name}`, {kind}{named}.\n")
        rows = list(_rows(command))
        if rows:
            parts.append("\n| argument or option | | meaning |\n|---|---|---|\n" + "".join(rows))
        if command.epilog:
            parts.append(f"\n```sh\n{command.epilog.rpartition('Example: ')[2]}\n```\n")
    return "".join(parts)


def _commands(group: click.Group, words: tuple[str, ...]) -> list[tuple[str, click.Command]]:
    found: list[tuple[str, click.Command]] = []
    for name in group.list_commands(click.Context(group)):
        command = group.get_command(click.Context(group), name)
        assert command is not None
        path = (*words, name)
        if isinstance(command, click.Group):
            found += _commands(command, path)
        if not isinstance(command, click.Group) or isinstance(command, OperationCommand):
            found.append((" ".join(path), command))
    return found


def _rows(command: click.Command) -> list[str]:
    context = click.Context(command)
    rows = []
    for parameter in command.get_params(context):
        if "--help" in parameter.opts or (isinstance(command, OperationCommand) and parameter.name in _EVERYWHERE):
            continue
        if isinstance(parameter, click.Option):
            kind = "" if parameter.is_flag else _kind(parameter)
            need = "required" if parameter.required else ""
            rows.append(f"| `{parameter.opts[-1]}{kind}` | {need} | {inspect.cleandoc(parameter.help or '')} |\n")
        elif isinstance(parameter, click.Argument):
            need = "required" if parameter.required else ""
            rows.append(f"| `{parameter.make_metavar(context)}` | {need} | {_argument_help(command, parameter)} |\n")
    return rows


def _argument_help(command: click.Command, parameter: click.Argument) -> str:
    if not isinstance(command, OperationCommand) or parameter.name is None:
        return ""
    return command.argument_help(parameter.name)


_EVERYWHERE = frozenset({"project", "json"})


def _kind(option: click.Option) -> str:
    if isinstance(option.type, click.Choice):
        return " " + "\\|".join(option.type.choices)
    return " " + (option.metavar or ("N" if isinstance(option.type, click.IntRange) else "TEXT"))


if __name__ == "__main__":
    PAGE.write_text(page())
