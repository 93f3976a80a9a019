"""Write the reference page of the commands from the list of operations: `make docs`."""

from __future__ import annotations

import inspect
from pathlib import Path

import click

from awr.operations.registry import OPERATIONS
from awr.surfaces.cli.app import program
from awr.surfaces.cli.commands import OperationCommand
from awr.surfaces.mcp.catalogue import DOMAINS, domain_of, tool_schema

PAGE = Path(__file__).parent / "reference" / "commands.md"
HEADER = """\
# Commands

Every command takes `--project PATH` (the present folder if left out) and `--json`, before or behind the command's
name. A success is one JSON object on standard output. A refusal is `{"code", "message", "details"}` on standard
error; see [errors](errors.md). Exit codes: 0 success, 1 refusal or partial failure, 2 wrong call.

This page is written by `make docs` from the list of operations.
"""


TOOLS_HEADER = """\
# Tools

What agents reach over MCP: `awr-mcp --project PATH` serves one project on standard input and output, `awr serve` many over
[HTTP](service.md). By default the eight groups below are listed: call one without arguments to see its tools with their
closed schemas, or with `child_tool` and `arguments` to use one. Every tool also answers to its own name;
`AWR_MCP_TOOL_EXPOSURE_MODE=flat` lists them all. Operators' operations, such as repairs, restore and import, are no tools.

**Required** arguments are bold. Over HTTP each call also names its `project`, and each write its `request_id`.

## Answers

The same JSON object stands in `structuredContent` and, as text, in `content`. A refusal has `isError` true and AWR's
[error](errors.md): `code`, `message`, `details`. What is known in spite of a problem is kept, with `ok` false and `error`.

A read that rests on the project's files works on a private copy of the journal and compares the files before and after:
`freshness_basis` is `source_verified_readonly`, `snapshot` says what it saw, and nothing is written. A file that changed
since it was indexed makes it `SourceStale`; call `awr_source_reindex`, then read again. What rests on the record alone says
`runtime_database` and needs no files.

A server stays with the project it first saw: another one in the same folder is refused with `RuleViolation`.

JSON-RPC's own errors: -32601 for a tool that there is not, -32602 for a call of a group that makes no sense or a cursor
(there is one page), -32603 when 64 calls are under way already. Arguments have at most 1 MiB, a `completion` 64 KiB.

## Writes that are carried out once

A write that is given a `request_id` (1 to 256 bytes) is announced in the journal, carried out, and its answer recorded,
refusals too. The same request then gets the same answer, also after a restart and also from the `awr` command with
`--request-id`. `response_view` is no part of the request: changing only that replays.

| what happened | answer |
|---|---|
| the same id with anything else changed | `SourceConflict` |
| the project is at another revision than `expected_revision` | `RevisionConflict`, and no receipt |
| the answer could not be recorded | `isError`, `write_outcome` `unknown`, `MutationConflict`; repeating it changes nothing |

`operation` in the answer has the receipt's `id`, `request_id`, `status` (`started`, `finished`, `recovered`) and `replayed`.
`project_revision` is the project's now, `receipt_project_revision` the answer's own. A named write takes at least two
revisions: use the one that is returned.

`awr_operation_get` shows what is known of a request, with the events it left. `awr_operation_recover` settles a lost answer
by the one event that proves that the write was carried out; without exactly one the outcome stays unknown. Neither carries
anything out.

This page is written by `make docs` from the list of operations.
"""
TOOLS_PAGE = PAGE.with_name("tools.md")


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


def tools_page() -> str:
    """Return the text of the page of tools."""
    parts = [TOOLS_HEADER]
    for domain, text in DOMAINS.items():
        parts.append(f"\n## {domain}\n\n{text}\n")
        for tool in domain_of(domain):
            schema = tool_schema(tool.name)
            kind = (
                "reads"
                if tool.read_only
                else "writes, and changes the project's files"
                if tool.destructive
                else "writes"
            )
            names = ", ".join(f"`{one.name}`" for one in tool.operations)
            parts.append(f"\n### {tool.name}\n\n{tool.description} It {kind}. Operation {names}.\n")
            required = schema["required"]
            either = " One of `session` and `conversation` is required." if "anyOf" in schema else ""
            stated = [f"**`{name}`**" if name in required else f"`{name}`" for name in schema["properties"]]
            parts.append(f"\nArguments: {', '.join(stated) or 'none'}.{either}\n")
    return "".join(parts)


if __name__ == "__main__":
    PAGE.write_text(page())
    TOOLS_PAGE.write_text(tools_page())
