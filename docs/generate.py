"""Write the reference pages that are made from the code: commands, tools and policies. `make docs`."""

from __future__ import annotations

import inspect
from pathlib import Path

import click

from awr.guardian.policies.engine import CedarPolicy
from awr.guardian.policies.facts import CallFacts, FoldFacts, StepFacts
from awr.guardian.policies.packs import BUILT_IN, chosen
from awr.guardian.policies.schema import ACTIONS, WORDS, facts_of_action
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


POLICIES_HEADER = """\
# Policies

What the Guardian decides by: packs of policies in [Cedar](https://www.cedarpolicy.com/), each with its own tests. A rule is told
the joined facts of a question and nothing else; it never sees a text of the conversation. [Write your own](../how-to/write-a-policy.md).

This page is written by `make docs` from the packs and from the types of the facts.

## How it is decided

A step is allowed if some rule permits it and none forbids it. Anything but that clean yes is a denial:

| reason | when |
|---|---|
| the rule's own `@reason` | a rule forbids; every one that does is named |
| `no_permit` | no rule permits the step |
| `evaluation_failed` | a rule failed, the facts do not fit the schema, or anything broke; beside it stand the reasons of rules that forbid |

Cedar by itself skips a rule that fails and lets the others decide. So a policy is checked when it is loaded, and does not load
when it reads a fact that may be unknown without asking `has` first, names a fact, a word or an action that there is not, holds a template, or
has a rule without a name. What can still fail is arithmetic beyond 64 bits; it denies.

A denial is bounded: the packs of AWR give way on one boundary in this order.

| when | what gives way |
|---|---|
| the window is more than 90 % full | `untrusted-fold` of `trust-boundary` |
| the second question | `untrusted-fold` of `trust-boundary` |
| the third question | every rule of `open-work` |
| the fourth question | every rule of `strict` on a fold, and the rules on steps that are unknown, foreign or folded before |

The rule of `strict` on calls does not give way: a call can be made with other arguments, or after an endorsement.

## Packs
"""
POLICIES_FOLDER = """
## A pack's folder

One's own packs lie in `$XDG_CONFIG_HOME/awr/policies/NAME`, or `~/.config/awr/policies/NAME`, and are called by that name; any
other folder is called by a path with a slash. A folder inside the project, where agents write, decides nothing unless its hash is given as
well. There may be no link on the way, and nobody but its owner or root may write the folder, its files, or the folders above it;
a folder above with the sticky bit is safe. An empty folder is refused.

| file | what it is |
|---|---|
| `*.cedar` | policies, in UTF-8: 64 files, 256 KiB each, 1 MiB and 512 rules together |
| `pack.toml` | what the pack is; may be missing, and the folder's name is then its id and `0` its version |
| `tests.toml` | its table of tests, up to 1,024 rows; may be missing |

Other files, and those that begin with a dot, mean nothing. The hash is SHA-256 over each policy file and the `pack.toml`, in the order of
their names: the name, a zero byte, the length in digits, a zero byte, the bytes.

| key of `pack.toml` | meaning |
|---|---|
| `id` | its name: small letters, digits, dots, dashes and underscores; none of AWR's; required |
| `version` | required |
| `purpose` | what it is for, in one line; required |
| `grounding` | what re-grounds a session: `user_step`, a later trusted step of the user's, or `endorsement` alone; `user_step` if left out. The strictest of the packs in use counts |
| `extends` | packs of AWR's that apply as well |
| `leaves_out` | rules of those that do not, as PACK/RULE |

| annotation of a rule | meaning |
|---|---|
| `@id` | its name in the pack; required |
| `@reason` | the reason code of its denials; required on a rule that forbids, and only there of use |
| `@lifts` | what would lift the denial, in one line; required on a rule that forbids |
| `@gives_way` | when it stops forbidding, in one line, for people |

| key of a `[[test]]` in `tests.toml` | meaning |
|---|---|
| `name` | what is tested, in one line; required |
| `decision` | `allow` or `deny`; required |
| `reason_codes` | exactly the reasons of the denial, in any order |
| `action` | what is asked; `preCompact` if left out |
| `facts` | the facts that differ from harmless ones |
| `unknown` | names of facts that are not known |

A decision refers to each rule that made it by `policy_id` (the rule's `@id`), `policy_name` (the pack's id), `policy_version` and
`rule_id` (the pack's hash).

## Facts

A fact that may be unknown is no attribute when it is: ask `context has NAME` first. A word of a closed list is an entity, such as
`Trust::"untrusted"`. The principal is always `Agent::"agent"` and the resource `Session::"session"`; nothing is known of them.
"""
POLICIES_PAGE = PAGE.with_name("policies.md")


def policies_page() -> str:
    """Return the text of the page of policies."""
    parts = [POLICIES_HEADER]
    for name in BUILT_IN:
        policy = CedarPolicy(chosen(name, root=PAGE.parent))
        pack = policy.packs[-1]
        parts.append(f"\n### {name}\n\n{pack.purpose} Version {pack.version}, re-grounded by `{policy.grounding}`.\n")
        if pack.extends:
            rest = f" without {', '.join(f'`{rule}`' for rule in pack.leaves_out)}" if pack.leaves_out else ""
            parts.append(f"It extends {', '.join(f'`{base}`' for base in pack.extends)}{rest}.\n")
        forbids = [rule for rule in policy.rules.values() if rule.effect == "forbid"]
        if forbids:
            parts.append("\n| rule | reason | lifted by | gives way |\n|---|---|---|---|\n")
        parts += [
            f"| `{rule.name}` | `{rule.reason}` | {rule.lifts} | {rule.gives_way or 'never'} |\n" for rule in forbids
        ]
    parts.append(POLICIES_FOLDER)
    titles = {
        FoldFacts: "Before a fold",
        CallFacts: "Before a call",
        StepFacts: "At any other step",
    }
    for kind, title in titles.items():
        actions = [action for action, facts in ACTIONS.items() if facts is kind]
        parts.append(
            f"\n### {title}\n\nAction{'s' * (len(actions) > 1)} {', '.join(f'`{one}`' for one in actions)}.\n"
        )
        parts.append("\n| fact | type | may be unknown | meaning |\n|---|---|---|---|\n")
        parts += [
            f"| `{fact.name}` | `{fact.kind}` | {'yes' if fact.optional else ''} | {fact.description} |\n"
            for fact in facts_of_action(actions[0])
        ]
    parts.append("\n### Words\n\n| type | words |\n|---|---|\n")
    parts += [f"| `{name}` | {', '.join(f'`{word}`' for word in words)} |\n" for name, words in WORDS.items()]
    return "".join(parts)


def page() -> str:
    """Return the text of the page of commands."""
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
    POLICIES_PAGE.write_text(policies_page())
