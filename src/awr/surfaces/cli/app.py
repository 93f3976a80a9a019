"""The command tree and the way out of it: exit 0, 1 for a refusal, 2 for a wrong call."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from importlib import import_module

import click

from awr.domain.secrets import refuse_secrets
from awr.errors import AwrError, InvalidInput, Unsupported, fault_of, io_error
from awr.operations.registry import OPERATIONS
from awr.surfaces.cli.commands import OperationCommand, OperationGroup, Settings, shared_options
from awr.surfaces.cli.output import colour, print_error

__all__ = ["program", "run"]

_GROUPS = {
    "source": "The project's own files: what they say and how fresh they are.",
    "work": "Work items.",
    "session": "Sessions: one agent's stretch of work.",
    "session compaction": "What native compactions did, and the one next action.",
    "client": "Hosts: which session a conversation works in, and how far it is.",
    "context": "What an agent must know now.",
    "guardian": "The Guardian of the Agent Control Standard: its doors, and its record of every session.",
    "guardian policy": "What the Guardian decides by: packs of policies, and trying them.",
    "execution": "What runs outside AWR, and whose outcome is unknown.",
    "evidence": "Evidence that work is done, and the reports it rests on.",
    "operation": "Identified writes: what became of one whose answer was lost.",
    "proposal": "Changes to a source: what was proposed, and recovering one that was interrupted.",
    "doctor": "Finding what is wrong with a project, and repairing one thing at a time.",
    "event": "The journal's events.",
    "journal": "Proving the journal, and deriving from it again.",
}


def run(arguments: list[str]) -> int:
    """Run one command line and return its exit code. No exception leaves this function."""
    as_json = "--json" in arguments
    try:
        refuse_secrets(arguments, what="the command line")
        left = program().main(args=arguments, prog_name="awr", standalone_mode=False, obj=Settings(), color=colour())
    except AwrError as error:
        print_error(error, as_json=as_json)
        return 1
    except click.UsageError as error:
        return _usage_error(error, as_json=as_json)
    except (click.Abort, KeyboardInterrupt):
        return 130
    except BrokenPipeError:
        # The reader of our output left. Python would complain about it once more while closing stdout.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:
        print_error(io_error(error), as_json=as_json)
        return 1
    except Exception as error:
        print_error(fault_of(error), as_json=as_json)
        return 1
    # A command that says how it ended returns its exit code; click makes one of its own for a page of help.
    return left if isinstance(left, int) else 0


def program() -> click.Group:
    """Build the command tree. Commands load their operation when they are called."""
    root = _Root(
        "awr",
        help="Keep agent work intact across context compaction.\n\nStart with: awr demo, awr report, awr init.",
        params=list(shared_options()),
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    )
    click.version_option(package_name="awr", prog_name="awr")(root)
    groups: dict[str, click.Group] = {"": root}
    parents = {operation.command.rpartition(" ")[0] for operation in OPERATIONS}
    for operation in OPERATIONS:
        path, _, name = operation.command.rpartition(" ")
        command = OperationCommand(operation)
        if operation.command in parents:
            command = groups[operation.command] = OperationGroup(operation)
        _group(groups, path).add_command(command, name)
    return root


#: Commands that are no operations, by the group they stand in. Only who wants one pays for its import.
_APART = {
    "": {"demo": "demo:demo", "serve": "serve:serve_command"},
    "guardian": {"serve": "guardian:serve_command", "stdio": "guardian:stdio_command"},
}


class _Group(click.Group):
    """A group that also holds commands which are no operations."""

    apart: Mapping[str, str] = {}

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted([*self.commands, *self.apart])

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.apart:
            return super().get_command(ctx, cmd_name)
        module, _, name = self.apart[cmd_name].partition(":")
        found: click.Command = getattr(import_module(f"awr.surfaces.cli.{module}"), name)
        return found


class _Root(_Group):
    """The top of the tree."""

    apart = _APART[""]

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and not args[0].startswith("-") and self.get_command(ctx, args[0]) is None:
            raise Unsupported(
                "there is no such command",
                expected="one of " + ", ".join(self.list_commands(ctx)),
                next_step="run awr --help",
            )
        return super().resolve_command(ctx, args)


def _group(groups: dict[str, click.Group], path: str) -> click.Group:
    if path not in groups:
        parent, _, name = path.rpartition(" ")
        groups[path] = made = _Group(name, help=_GROUPS[path], params=list(shared_options()))
        made.apart = _APART.get(path, {})
        _group(groups, parent).add_command(groups[path])
    return groups[path]


def _usage_error(error: click.UsageError, *, as_json: bool) -> int:
    if as_json:
        usage = error.ctx.command_path if error.ctx else "awr"
        # What was typed may hold a secret that no rule knows, so only the kind of mistake is said.
        print_error(
            InvalidInput(
                f"{usage}: {type(error).__name__}",
                expected="the arguments that its help names",
                next_step=f"run {usage} --help",
            ),
            as_json=True,
        )
    else:
        error.show()
    return 2
