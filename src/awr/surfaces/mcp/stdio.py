"""One project on standard input and output. Only protocol messages go out there; everything else is on stderr."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
from mcp.server.stdio import stdio_server

from awr.errors import AwrError, RuleViolation
from awr.operations.calling import Answer
from awr.operations.selection import LOCAL_CLIENT
from awr.project import Project
from awr.surfaces.mcp.calls import call_tool
from awr.surfaces.mcp.catalogue import AgentTool
from awr.surfaces.mcp.ownership import Caller
from awr.surfaces.mcp.server import Gate, build_server

__all__ = ["serve_stdio"]

#: How long a write that is under way may take to end once the client has left.
DRAIN_SECONDS = 10.0


class OneProject:
    """The project that the server was started for. It need not be initialized yet: each call looks."""

    shared = False

    def __init__(self, root: Path) -> None:
        self._root = root
        self._caller = Caller(client=LOCAL_CLIENT, authenticated=False)
        self._identity: str | None = None

    def own_tools(self) -> Mapping[str, types.Tool]:
        """Return none: a local client has one project."""
        return {}

    def call_own(self, name: str, arguments: dict[str, Any], request: Any) -> Answer:
        """Never called, as there is no such tool."""
        raise NotImplementedError(name)

    def call(self, tool: AgentTool, arguments: dict[str, Any], request: Any) -> Answer:
        """Answer a call for the project."""
        return call_tool(self._open, tool, arguments, caller=self._caller)

    def _open(self) -> Project:
        """Open the project. Raise RuleViolation when another one lies where it was."""
        project = Project.open(self._root)
        with project.journal.read() as reader:
            found = reader.project_id
        # Whichever call comes first says which project this server is for.
        self._identity = self._identity or found
        if found != self._identity:
            raise RuleViolation(
                "another project lies where this server's project was",
                got="a database of another project",
                expected="the project that the server began with",
                next_step="start the server again for the project that is there now",
            )
        return project

    def may_discover(self, arguments: dict[str, Any], request: Any) -> AwrError | None:
        """Allow it: whoever started the server owns the project."""
        return None


def serve_stdio(root: Path) -> None:
    """Serve one project folder until standard input ends."""
    gate = Gate()
    server = build_server(OneProject(root), gate)

    async def main() -> None:
        async with stdio_server() as (reading, writing):
            await server.run(reading, writing, server.create_initialization_options())

    anyio.run(main)
    gate.drain(DRAIN_SECONDS)
