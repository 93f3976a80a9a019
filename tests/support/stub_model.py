"""A model that says what it is told to, on loopback: one tool call, then a last word, in two providers' streams.

It is a stand-in, because no model can run here. What it proves is what the real host does with its tools.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

__all__ = ["StubModel", "stub_model"]

Event = tuple[str, dict[str, Any]]
USAGE = {"input_tokens": 10, "output_tokens": 5}


class StubModel:
    """Calls one tool when it is offered and was not used yet; then says a word. Keeps what hosts sent."""

    def __init__(self, *, tool: str, arguments: dict[str, Any]) -> None:
        self.tool = tool
        self.arguments = arguments
        self.requests: list[dict[str, Any]] = []
        self.port = 0

    @property
    def offered(self) -> set[str]:
        """The names of all tools that hosts offered."""
        return {name for body in self.requests for name, _ in _offers(body)}

    @property
    def results(self) -> list[str]:
        """What the tool's calls gave, as the host handed it to the model."""
        found: dict[str, str] = {}
        for body in self.requests:
            for item in _items(body):
                if item.get("type") in {"tool_result", "function_call_output"}:
                    found[str(item.get("tool_use_id") or item.get("call_id"))] = json.dumps(item)
        return list(found.values())

    def events(self, path: str, body: dict[str, Any]) -> Iterator[Event]:
        """Answer one request."""
        self.requests.append(body)
        found = next((offer for offer in _offers(body) if offer[0].endswith(self.tool)), None)
        name, group = found if found is not None and not self.results else ("", None)
        if "messages" in path:
            yield from _messages(name, self.arguments)
        else:
            yield from _responses(name, group, self.arguments)


def _offers(body: dict[str, Any]) -> Iterator[tuple[str, str | None]]:
    """Yield each offered tool with the group that it stands in, where a host groups them."""
    for tool in body.get("tools") or ():
        group = str(tool.get("name")) if tool.get("type") == "namespace" else None
        for one in tool["tools"] if group is not None else (tool,):
            yield str(one.get("name")), group


def _items(body: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for message in [*(body.get("messages") or ()), *(body.get("input") or ())]:
        if isinstance(message, dict):
            yield message
            content = message.get("content")
            yield from (part for part in content if isinstance(part, dict)) if isinstance(content, list) else ()


def _messages(tool: str, arguments: dict[str, Any]) -> Iterator[Event]:
    opening = {"id": "msg_1", "type": "message", "role": "assistant", "model": "stub", "content": [], "usage": USAGE}
    yield "message_start", {"type": "message_start", "message": {**opening, "stop_reason": None}}
    if tool:
        block: dict[str, Any] = {"type": "tool_use", "id": "toolu_1", "name": tool, "input": {}}
        delta = {"type": "input_json_delta", "partial_json": json.dumps(arguments)}
    else:
        block, delta = {"type": "text", "text": ""}, {"type": "text_delta", "text": "done"}
    yield "content_block_start", {"type": "content_block_start", "index": 0, "content_block": block}
    yield "content_block_delta", {"type": "content_block_delta", "index": 0, "delta": delta}
    yield "content_block_stop", {"type": "content_block_stop", "index": 0}
    reason = {"stop_reason": "tool_use" if tool else "end_turn", "stop_sequence": None}
    yield "message_delta", {"type": "message_delta", "delta": reason, "usage": USAGE}
    yield "message_stop", {"type": "message_stop"}


def _responses(tool: str, group: str | None, arguments: dict[str, Any]) -> Iterator[Event]:
    if tool:
        item: dict[str, Any] = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": tool}
        item |= {"arguments": json.dumps(arguments), "status": "completed", **({"namespace": group} if group else {})}
    else:
        text = {"type": "output_text", "text": "done", "annotations": []}
        item = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [text]}
    usage = {**USAGE, "total_tokens": 15}
    whole = {"id": "resp_1", "object": "response", "status": "completed", "output": [item], "usage": usage}
    yield (
        "response.created",
        {"type": "response.created", "response": {**whole, "status": "in_progress", "output": []}},
    )
    yield "response.output_item.done", {"type": "response.output_item.done", "output_index": 0, "item": item}
    yield "response.completed", {"type": "response.completed", "response": whole}


@contextmanager
def stub_model(*, tool: str, arguments: dict[str, Any]) -> Iterator[StubModel]:
    """Serve one on a free port of loopback until the block ends."""
    stub = StubModel(tool=tool, arguments=arguments)

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, format: str, *args: Any) -> None:
            """Say nothing."""

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if "count_tokens" in self.path:
                self._send(b'{"input_tokens": 10}', "application/json")
                return
            events = stub.events(self.path, body)
            text = "".join(f"event: {name}\ndata: {json.dumps(data)}\n\n" for name, data in events)
            self._send(text.encode(), "text/event-stream")

        def do_GET(self) -> None:
            self._send(b'{"data": [], "models": []}', "application/json")

        do_HEAD = do_GET  # noqa: N815 - the library's own name

        def _send(self, data: bytes, kind: str) -> None:
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    stub.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield stub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
