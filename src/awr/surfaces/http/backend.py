"""Many projects for authenticated clients: who may reach which, and how their calls keep out of each other's way."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import mcp_types as types
from mcp.shared.exceptions import MCPError

from awr.errors import AwrError, InvalidInput, RuleViolation
from awr.operations.calling import Answer
from awr.surfaces.http.locks import ReadWriteLock
from awr.surfaces.http.service import Client, ServedProject, Service
from awr.surfaces.http.watch import Exchange, Watch, exchange_of
from awr.surfaces.mcp.calls import call_tool
from awr.surfaces.mcp.catalogue import AgentTool
from awr.surfaces.mcp.ownership import Caller

__all__ = ["PROJECTS_LIST", "ManyProjects"]

PROJECTS_LIST = "awr_projects_list"

_OWN = types.Tool(
    name=PROJECTS_LIST,
    description="List the projects that you may use, with the key that every other call names.",
    input_schema={"type": "object", "properties": {}, "required": [], "additionalProperties": False},
    annotations=types.ToolAnnotations(
        read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False
    ),
)


class ManyProjects:
    """The projects of a registry. Readers of one share it, a writer has it alone, and projects do not wait."""

    shared = True

    def __init__(self, service: Service, watch: Watch) -> None:
        self._service = service
        self._watch = watch
        self._locks = {key: ReadWriteLock() for key in service.projects}

    def own_tools(self) -> Mapping[str, types.Tool]:
        """Return the tool that lists a client's projects."""
        return {PROJECTS_LIST: _OWN}

    def call_own(self, name: str, arguments: dict[str, Any], request: Any) -> Answer:
        """List the client's projects. Where they lie is nobody's business."""
        exchange = exchange_of(request)
        with self._watch.call(exchange, name, access="read") as answers:
            if arguments:
                raise MCPError(code=types.INVALID_PARAMS, message=f"{PROJECTS_LIST} takes no arguments")
            answers.append(Answer(self._listed(_client(exchange)), None))
        return answers[0]

    def call(self, tool: AgentTool, arguments: dict[str, Any], request: Any) -> Answer:
        """Answer a call for the project that it names."""
        exchange = exchange_of(request)
        access = "read" if tool.read_only else "write"
        with self._watch.call(exchange, tool.name, access=access) as answers:
            try:
                answers.append(self._called(tool, arguments, exchange))
            except AwrError as error:
                answers.append(Answer(None, error.report()))
        return answers[0]

    def may_discover(self, arguments: dict[str, Any], request: Any) -> AwrError | None:
        """Return the refusal of a project that the client may not read, or None."""
        exchange = exchange_of(request)
        try:
            self._granted(arguments, exchange, write=False)
        except AwrError as error:
            return error
        return None

    def _called(self, tool: AgentTool, arguments: dict[str, Any], exchange: Exchange) -> Answer:
        project = self._granted(arguments, exchange, write=not tool.read_only)
        rest = {name: value for name, value in arguments.items() if name != "project"}
        caller = Caller(client=_client(exchange).id, authenticated=True)
        lock = self._locks[project.key]
        with lock.reading() if tool.read_only else lock.writing():
            return call_tool(project.open, tool, rest, caller=caller)

    def _granted(self, arguments: dict[str, Any], exchange: Exchange, *, write: bool) -> ServedProject:
        key = arguments.get("project")
        if not isinstance(key, str):
            raise InvalidInput(
                "the call names no project",
                got="nothing" if key is None else "another type",
                expected="the key of a project",
                next_step=f"call {PROJECTS_LIST}, then name a project by its key",
            )
        project = self._service.projects.get(key)
        if project is not None:
            exchange.project = project.key
        if project is None or not _client(exchange).may(key, write=write):
            # What there is and what is not, what is a path and what is not to be written: one answer for all.
            raise RuleViolation(
                "project access denied",
                got="a project that this client may not use this way",
                expected=f"a key that {PROJECTS_LIST} shows, with write access for a write",
                next_step=f"call {PROJECTS_LIST}",
            )
        return project

    def _listed(self, client: Client) -> dict[str, Any]:
        return {
            "ok": True,
            "read_only": True,
            "client": client.id,
            "projects": [
                {"key": key, "project_id": project.project_id, "access": client.access[key]}
                for key, project in self._service.projects.items()
                if client.may(key, write=False)
            ],
            "selection": "Every other call names one of these keys in the argument project.",
        }


def _client(exchange: Exchange) -> Client:
    assert exchange.client is not None, "only authenticated requests arrive here"
    return exchange.client
