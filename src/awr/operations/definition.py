"""What the list of operations says about each of them."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any, Literal, get_type_hints

import msgspec

__all__ = ["Domain", "Effect", "Operation", "Scope"]

Scope = Literal["project", "folder", "none"]
Effect = Literal["runtime_read", "source_read", "write"]
Domain = Literal["query", "context", "work", "evidence", "session", "continuity", "change", "compaction"]


class Operation(msgspec.Struct, frozen=True, kw_only=True):
    """One thing a caller may ask.

    `command` is the path of words on the command line. `input_file` means that the whole request is a JSON file.
    `capability` is the id that hosts negotiate; `also` has further ids that the same operation answers for.

    `effect` says what it rests on: a `runtime_read` answers from what is recorded, a `source_read` from the project's
    files as well (a command brings them up to date first, an agent's tool verifies them), a `write` changes the
    journal. `operator` marks what only somebody at this machine may ask: what raises trust, edits policy, repairs or
    replaces the record, or touches files outside of the project. No agent's transport reaches it.

    `rewrites` marks a write that changes the project's own files.

    `terminal` names the event that proves that a write was carried out, when its answer was lost; `*` stands for any
    type that a caller may append. Without one, a lost answer stays unknown.

    The rest is how an agent finds it: the `domain` of tools it belongs to, the name of the `tool` where `awr_<name>`
    is not it, the `action` that chooses it where several operations share one tool, and the fields that are
    `required` of an agent though a person may leave them out.
    """

    name: str
    target: str
    command: str
    summary: str
    scope: Scope = "project"
    effect: Effect = "runtime_read"
    operator: bool = False
    rewrites: bool = False
    domain: Domain | None = None
    tool: str = ""
    action: str = ""
    required: tuple[str, ...] = ()
    terminal: tuple[str, ...] = ()
    input_file: bool = False
    capability: str | None = None
    also: tuple[str, ...] = ()
    example: str = ""

    @property
    def exposed(self) -> bool:
        """Whether an agent's transport may reach it."""
        return self.scope == "project" and not self.operator

    @property
    def identified(self) -> bool:
        """Whether a caller may name the write with a request id. Recovering one that was named is none of them."""
        return self.exposed and self.effect == "write" and self.name != "operation.recover"

    @property
    def tool_name(self) -> str:
        """The name of its tool. Only an exposed operation has one that anybody answers to."""
        return self.tool or "awr_" + self.name.replace(".", "_")

    def function(self) -> Callable[..., Any]:
        """Import and return the function."""
        module, _, attribute = self.target.partition(":")
        found: Callable[..., Any] = getattr(import_module(module), attribute)
        return found

    def request_type(self) -> type[msgspec.Struct]:
        """Return the type of its request."""
        found: type[msgspec.Struct] = get_type_hints(self.function())["request"]
        return found
