"""The Model Context Protocol server, by the official SDK: what is listed, what is called, and how many at once."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from importlib.metadata import version
from typing import Any, Protocol

import anyio
import anyio.to_thread
import mcp_types as types
import msgspec
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError

from awr.errors import AwrError, fault_of
from awr.operations.calling import Answer
from awr.surfaces.mcp.catalogue import (
    DOMAINS,
    TOOLS,
    AgentTool,
    domain_of,
    domain_schema,
    exposure_is_flat,
    listed_schema,
    manifest,
    tool_schema,
)

__all__ = ["MAX_IN_FLIGHT", "Backend", "Gate", "build_server"]

MAX_IN_FLIGHT = 64
NAME = "awr-mcp"

INSTRUCTIONS = """\
The project's own files come first: AWR reads them, and writes them only through its tools.
{discovery}Begin with awr_project_status, then awr_work_prepare with response_view action.
A SourceStale answer means that a file changed: call awr_source_reindex, then read again.
Bind your conversation with awr_session_start and claim the work before you change its state.
Every write states the expected_revision that you read last; use the revision each answer returns, never a sum.
When an answer was lost, look at its receipt with awr_operation_get before anything is repeated.
Keep native compaction on; report it with awr_compaction_observe.
"""
DISCOVERY = "Find your projects with awr_projects_list; every call names one.\n"

_FULL = "too many tool calls at once; if an earlier write got no answer, inspect its receipt before you repeat it"


class Backend(Protocol):
    """What stands behind a server: one project, or a registry of them."""

    @property
    def shared(self) -> bool:
        """Whether calls name a project, and clients are told apart."""

    def own_tools(self) -> Mapping[str, types.Tool]:
        """Return the tools beside the catalogue's."""

    def call_own(self, name: str, arguments: dict[str, Any], request: Any) -> Answer:
        """Answer a call of one of them."""

    def call(self, tool: AgentTool, arguments: dict[str, Any], request: Any) -> Answer:
        """Answer a call of the catalogue. `request` is the HTTP request, or None on stdio."""

    def may_discover(self, arguments: dict[str, Any], request: Any) -> AwrError | None:
        """Return why a client may not see a project's tools, or None."""


class Gate:
    """Lets a bounded number of calls in and refuses the rest at once."""

    def __init__(self, limit: int = MAX_IN_FLIGHT) -> None:
        self._limit = limit
        self._free = threading.BoundedSemaphore(limit)
        self._threads = anyio.CapacityLimiter(limit)

    async def run(self, act: Callable[[], Answer]) -> Answer:
        """Run one call on a thread. A client that goes away does not stop it. Raise MCPError when all are taken."""
        if not self._free.acquire(blocking=False):
            raise MCPError(code=types.INTERNAL_ERROR, message=_FULL)
        # A call that is cancelled before its thread has begun is never carried out. Whoever takes this lock, the
        # thread or the one that gives up, is the one to make room again.
        begun = threading.Lock()

        def work() -> Answer | None:
            if not begun.acquire(blocking=False):
                return None
            try:
                return act()
            finally:
                self._free.release()

        try:
            answer = await anyio.to_thread.run_sync(work, abandon_on_cancel=True, limiter=self._threads)
        except BaseException:
            if begun.acquire(blocking=False):
                self._free.release()
            raise
        assert answer is not None, "only a call that was given up is not carried out"
        return answer

    def drain(self, seconds: float) -> bool:
        """Wait until no call is under way. Return whether that came true in time."""
        deadline = time.monotonic() + seconds
        taken = [self._free.acquire(timeout=max(0.0, deadline - time.monotonic())) for _ in range(self._limit)]
        return all(taken)


def build_server(backend: Backend, gate: Gate) -> Server[Any]:
    """Return a server that lists and calls the tools of a backend."""

    async def list_tools(_: Any, params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        if params is not None and params.cursor is not None:
            raise MCPError(code=types.INVALID_PARAMS, message="there is one page of tools, and no cursor")
        return types.ListToolsResult(tools=_listed(backend))

    async def call_tool(context: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        name, arguments = params.name, dict(params.arguments or {})
        request = context.request
        if name in DOMAINS:
            if "child_tool" not in arguments and "arguments" not in arguments:
                return _discovered(backend, name, arguments, request)
            name, arguments = _child(name, arguments, shared=backend.shared)
        if name in backend.own_tools():
            own = name
            return await _answered(gate, lambda: backend.call_own(own, arguments, request))
        tool = TOOLS.get(name)
        if tool is None:
            raise MCPError(code=types.METHOD_NOT_FOUND, message="unknown AWR tool")
        return await _answered(gate, lambda: backend.call(tool, arguments, request))

    def schema_of(name: str) -> dict[str, Any] | None:
        own = backend.own_tools().get(name)
        if own is not None:
            return own.input_schema
        if name in DOMAINS:
            return domain_schema(shared=backend.shared)
        return tool_schema(name, shared=backend.shared) if name in TOOLS else None

    server: Server[Any] = Server(
        NAME,
        version=version("awr"),
        instructions=INSTRUCTIONS.format(discovery=DISCOVERY if backend.shared else ""),
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        get_tool_input_schema=schema_of,
    )
    return server


async def _answered(gate: Gate, act: Callable[[], Answer]) -> types.CallToolResult:
    """Return the result of one call. The SDK would show the words of a fault, which may repeat what was sent."""
    try:
        return _result(await gate.run(act))
    except MCPError:
        raise
    except Exception as error:
        fault = fault_of(error)
        raise MCPError(code=types.INTERNAL_ERROR, message=fault.what, data=fault.report()) from None


def _listed(backend: Backend) -> list[types.Tool]:
    shared = backend.shared
    if exposure_is_flat():
        listed = [
            types.Tool(
                name=tool.name,
                description=tool.description,
                input_schema=listed_schema(tool.name, shared=shared),
                annotations=types.ToolAnnotations(
                    read_only_hint=tool.read_only,
                    destructive_hint=tool.destructive,
                    idempotent_hint=tool.read_only,
                    open_world_hint=False,
                ),
            )
            for tool in TOOLS.values()
        ]
    else:
        none = types.ToolAnnotations(
            read_only_hint=False, destructive_hint=False, idempotent_hint=False, open_world_hint=False
        )
        listed = [
            types.Tool(
                name=name,
                description=f"{text} Call it without child_tool to see its tools.",
                input_schema=domain_schema(shared=shared),
                annotations=none,
            )
            for name, text in DOMAINS.items()
        ]
    return [*backend.own_tools().values(), *listed]


def _discovered(backend: Backend, name: str, arguments: dict[str, Any], request: Any) -> types.CallToolResult:
    expected = {"project"} if backend.shared else set()
    if set(arguments) != expected:
        raise MCPError(
            code=types.INVALID_PARAMS,
            message="to see a group's tools, send no arguments"
            + (" but the project" if backend.shared else "")
            + "; to call one, send child_tool and arguments",
        )
    refusal = backend.may_discover(arguments, request)
    if refusal is not None:
        raise MCPError(code=types.INTERNAL_ERROR, message=refusal.what, data=refusal.report())
    return _result(Answer(manifest(name, shared=backend.shared), None))


def _child(domain: str, arguments: dict[str, Any], *, shared: bool) -> tuple[str, dict[str, Any]]:
    child, inner = arguments.get("child_tool"), arguments.get("arguments")
    if not isinstance(child, str) or not isinstance(inner, dict):
        raise MCPError(code=types.INVALID_PARAMS, message="a call of a group needs child_tool and arguments")
    if child not in {tool.name for tool in domain_of(domain)}:
        raise MCPError(code=types.INVALID_PARAMS, message="that tool does not belong to this group")
    if shared and "project" in arguments:
        inner = {**inner, "project": arguments["project"]}
    return child, dict(inner)


def _result(answer: Answer) -> types.CallToolResult:
    body = answer.body()
    text = msgspec.json.encode(body).decode()
    return types.CallToolResult(
        content=[types.TextContent(type="text", text=text)], structured_content=body, is_error=answer.is_error
    )
