"""The command line of each call, in the form that AWR documents for every build."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

__all__ = ["COMMANDS", "CommandForm", "command_line"]


class CommandForm(msgspec.Struct, frozen=True, kw_only=True):
    """How one operation is spelled: its words, what stands without a name, and what goes into a file.

    `input_of` names the one argument whose value is the file; "*" means that the whole request is.
    """

    words: tuple[str, ...]
    positional: str | None = None
    input_of: str | None = None


COMMANDS: dict[str, CommandForm] = {
    "capabilities": CommandForm(words=("capabilities",)),
    "project.status": CommandForm(words=("status",)),
    "session.start": CommandForm(words=("session", "start")),
    "session.show": CommandForm(words=("session", "show"), positional="session"),
    "session.list": CommandForm(words=("session", "list")),
    "session.checkpoint": CommandForm(words=("session", "checkpoint")),
    "session.end": CommandForm(words=("session", "end")),
    "context.compile": CommandForm(words=("context", "compile")),
    "work.show": CommandForm(words=("work", "show"), positional="work"),
    "work.prepare": CommandForm(words=("work", "prepare"), positional="work"),
    "work.assess": CommandForm(words=("work", "assess"), positional="work"),
    "work.manage": CommandForm(words=("work", "manage"), input_of="*"),
    "transition.progress": CommandForm(words=("work", "progress"), positional="work"),
    "transition.complete": CommandForm(words=("work", "complete"), positional="work", input_of="completion"),
    "evidence.add": CommandForm(words=("evidence", "add"), positional="external_key"),
    "evidence.show": CommandForm(words=("evidence", "show"), positional="evidence"),
    "compaction.observe": CommandForm(words=("session", "compaction", "observe"), input_of="*"),
    "compaction.inspect": CommandForm(words=("session", "compaction", "inspect")),
    "compaction.defer": CommandForm(words=("session", "compaction", "defer")),
}
#: Options that may be repeated are named for one of theirs.
_SINGULAR = {"goals": "goal"}


def command_line(operation: str, arguments: Mapping[str, Any]) -> tuple[list[str], Any]:
    """Return the words of a command and the value of its input file, or None if it takes none.

    Values are joined to their options by `=`, so that no text can pass for an option. Null and false are left out.
    """
    form = COMMANDS[operation]
    if form.input_of == "*":
        return list(form.words), dict(arguments)
    words, behind = list(form.words), []
    for name, value in arguments.items():
        if name == form.input_of or value is None or value is False:
            continue
        if name == form.positional:
            # Behind `--` only where it has to be: a build that knows the plain form knows that one.
            behind = ["--", value] if value.startswith("-") else []
            words[len(form.words) : len(form.words)] = [] if behind else [value]
            continue
        option = "--" + _SINGULAR.get(name, name).replace("_", "-")
        if value is True:
            words.append(option)
        else:
            words += [f"{option}={one}" for one in (value if isinstance(value, list | tuple) else [value])]
    return [*words, *behind], arguments[form.input_of] if form.input_of else None
