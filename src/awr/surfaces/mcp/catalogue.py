"""The tools that agents see, made from the list of operations: names, groups and closed schemas.

Nothing here knows an operation by its name. What only a local door may say is taken out of a request's schema, and
what identifies a call is added.
"""

from __future__ import annotations

import os
from functools import cache
from typing import Any

import msgspec

from awr.operations.receipts import MAX_REQUEST_ID
from awr.operations.registry import OPERATIONS, Operation

__all__ = [
    "DOMAINS",
    "HIDDEN",
    "TOOLS",
    "AgentTool",
    "domain_of",
    "domain_schema",
    "exposure_is_flat",
    "field_names",
    "listed_schema",
    "manifest",
    "tool_schema",
]

EXPOSURE = "AWR_MCP_TOOL_EXPOSURE_MODE"
MANIFEST_VERSION = "1"

#: Fields that the door fills in or that only a person at this machine may state.
HIDDEN = frozenset({"client", "visible_to", "cached", "input"})

#: The groups in which agents find tools, with what is in them. The order is the one they are listed in.
DOMAINS: dict[str, str] = {
    "awr_query": "How the project stands, what is ready, one work item, search and history.",
    "awr_context": "What must be known of work before and while it is done, and the one next action.",
    "awr_work": "Change the state of work, manage it, hand it over; dependencies and executions.",
    "awr_evidence": "Notes in the journal, and evidence that work is done.",
    "awr_session": "Begin, look at, save, resume and end a session; claim work for it.",
    "awr_continuity": "Wait for the user, settle lost answers, bring sources up to date, prove the journal.",
    "awr_change": "Create and activate work in the ledger, and finish an interrupted change.",
    "awr_compaction": "What native compactions did to a session's context, and the advice that follows.",
}


class AgentTool(msgspec.Struct, frozen=True):
    """One tool and the operations behind it; with several, the argument `action` chooses."""

    name: str
    operations: tuple[Operation, ...]

    @property
    def domain(self) -> str:
        """The group it is found in."""
        return f"awr_{self.operations[0].domain}"

    @property
    def description(self) -> str:
        """What it does, in the words of its operations."""
        if len(self.operations) == 1:
            return self.operations[0].summary
        return " ".join(f"{one.action}: {one.summary}" for one in self.operations)

    @property
    def read_only(self) -> bool:
        """Whether nothing is written."""
        return all(one.effect != "write" for one in self.operations)

    @property
    def destructive(self) -> bool:
        """Whether it changes the project's own files."""
        return any(one.rewrites for one in self.operations)

    @property
    def identified(self) -> bool:
        """Whether a call may be named with a request id."""
        return self.operations[0].identified

    def operation(self, action: object) -> Operation | None:
        """Return the operation that a call means, or None for an action that there is not."""
        if len(self.operations) == 1 and not self.operations[0].action:
            return self.operations[0]
        return next((one for one in self.operations if one.action == action), None)

    @property
    def chooses(self) -> bool:
        """Whether a call has to state an action."""
        return bool(self.operations[0].action)


def _tools() -> dict[str, AgentTool]:
    found: dict[str, list[Operation]] = {}
    for operation in OPERATIONS:
        if operation.exposed:
            found.setdefault(operation.tool_name, []).append(operation)
    return {name: AgentTool(name, tuple(operations)) for name, operations in found.items()}


TOOLS = _tools()


def exposure_is_flat() -> bool:
    """Tell whether every tool is to be listed by itself. Asked at each call, as the environment may change."""
    return os.environ.get(EXPOSURE) == "flat"


def field_names(operation: Operation) -> frozenset[str]:
    """Return the fields of an operation's request."""
    return _fields(operation.name)


@cache
def _fields(name: str) -> frozenset[str]:
    operation = next(one for one in OPERATIONS if one.name == name)
    return frozenset(operation.request_type().__struct_fields__)


@cache
def tool_schema(name: str, *, shared: bool = False) -> dict[str, Any]:
    """Return the closed JSON Schema of a tool's arguments. On the shared service each call names a project."""
    tool = TOOLS[name]
    parts = [_request_schema(operation) for operation in tool.operations]
    properties: dict[str, Any] = {}
    if shared:
        properties["project"] = {"type": "string", "description": "The project's key; awr_projects_list has them."}
    if tool.chooses:
        actions = [operation.action for operation in tool.operations]
        properties["action"] = {"enum": actions, "description": "What to do."}
    for part in parts:
        for key, value in part["properties"].items():
            properties.setdefault(key, value)
    required = [key for key in properties if all(key in part["required"] for part in parts)]
    # Where a conversation has to be named as well, it is the one that a session is bound to from now on.
    either = "session" in required and "conversation" in properties and "conversation" not in required
    if either:
        required.remove("session")
    if tool.identified:
        properties["request_id"] = {
            "type": "string",
            "minLength": 1,
            "maxLength": MAX_REQUEST_ID,
            "description": "Your own name of this write; the same request is then never carried out twice.",
        }
    if tool.destructive and tool.chooses:
        properties["response_view"] = {
            "enum": ["full", "summary"],
            "default": "full",
            "description": "How much to return; a summary needs a request_id, under which the rest can be had.",
        }
    stated = (["project"] if shared else []) + (["action"] if tool.chooses else [])
    if shared and tool.identified:
        stated.append("request_id")
    schema: dict[str, Any] = {
        "type": "object",
        "properties": properties,
        "required": stated + required,
        "additionalProperties": False,
    }
    if either:
        schema["anyOf"] = [{"required": ["session"]}, {"required": ["conversation"]}]
    return schema


def listed_schema(name: str, *, shared: bool = False) -> dict[str, Any]:
    """Return a tool's schema as it is listed by itself.

    Models' providers refuse a tool whose schema has alternatives at its top, so the one of a session's id or its
    conversation is said in words there; the door requires it all the same.
    """
    schema = dict(tool_schema(name, shared=shared))
    if schema.pop("anyOf", None) is not None:
        session = {**schema["properties"]["session"], "description": "The session's id; or give its conversation."}
        schema["properties"] = {**schema["properties"], "session": session}
    return schema


def domain_of(name: str) -> tuple[AgentTool, ...]:
    """Return the tools of a group."""
    return tuple(tool for tool in TOOLS.values() if tool.domain == name)


@cache
def domain_schema(*, shared: bool = False) -> dict[str, Any]:
    """Return the closed schema of a group: nothing to discover its tools, or a tool and its arguments."""
    properties: dict[str, Any] = {"project": {"type": "string"}} if shared else {}
    return {
        "type": "object",
        "properties": {
            **properties,
            "child_tool": {"type": "string", "minLength": 1},
            "arguments": {"type": "object"},
            "manifest_version": {"type": "string", "minLength": 1},
        },
        "required": list(properties),
        "additionalProperties": False,
    }


def manifest(domain: str, *, shared: bool = False) -> dict[str, Any]:
    """Return the tools of a group with their schemas, for an agent that asks what there is."""
    children = [
        {
            "name": tool.name,
            "description": tool.description,
            "input_schema": tool_schema(tool.name, shared=shared),
            "read_only": tool.read_only,
        }
        for tool in domain_of(domain)
    ]
    return {
        "mode": "manifest",
        "domain": domain,
        "manifest_version": MANIFEST_VERSION,
        "child_total": len(children),
        "children": children,
        "usage": f"Call {domain} with child_tool and arguments, or call the tool by its own name.",
    }


def _request_schema(operation: Operation) -> dict[str, Any]:
    """Return one request's schema as an agent may state it."""
    schema = _inlined(msgspec.json.schema(operation.request_type()))
    properties = {key: value for key, value in schema["properties"].items() if key not in HIDDEN}
    required = [key for key in properties if key in schema["required"] or key in operation.required]
    if "session" in properties and "conversation" not in schema["properties"]:
        properties["conversation"] = {
            "anyOf": [{"type": "string"}, {"type": "null"}],
            "description": "Find the session by the conversation it is bound to.",
            "default": None,
        }
    return {"properties": properties, "required": required}


def _inlined(schema: dict[str, Any]) -> dict[str, Any]:
    """Put every definition where it is used, so that a client has to resolve nothing."""
    definitions = schema.pop("$defs", {})

    def resolved(value: Any) -> Any:
        if isinstance(value, list):
            return [resolved(item) for item in value]
        if not isinstance(value, dict):
            return value
        if "$ref" in value:
            named = definitions[value["$ref"].rpartition("/")[2]]
            rest = {key: item for key, item in value.items() if key != "$ref"}
            return {**resolved({key: item for key, item in named.items() if key not in _PROSE}), **rest}
        return {key: resolved(item) for key, item in value.items()}

    found: dict[str, Any] = resolved(schema)
    return found


_PROSE = frozenset({"title", "description"})
