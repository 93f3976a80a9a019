"""A Guardian that runs as a child process: Content-Length frames over its standard input and output.

Answers that came too late lie in the pipe when the next request is sent. They are told by their id and thrown away.
"""

from __future__ import annotations

import os
import re
import select
import subprocess
import time
from collections.abc import Sequence
from typing import Any

import msgspec

from awr.client.acs.answers import MAX_ANSWER_BYTES
from awr.client.acs.exchange import Reply, Request, Silence
from awr.guardian.handshake import Transport

__all__ = ["StdioTransport"]

#: A frame's headers are one short line, or two.
MAX_HEADER_BYTES = 4_096
#: How long the process has to leave after its input is closed, and again after it is asked to, in seconds.
CLOSING_SECONDS = 5.0
#: Requests that were given up on, and may yet be answered.
MAX_ABANDONED = 1_024

_LENGTH = re.compile(rb"content-length:[ \t]*([0-9]{1,9})[ \t]*", re.IGNORECASE)


class StdioTransport:
    """Starts a command with the first request and talks to it until it is closed.

    A process that has ended or broken the framing is not started again: what it knew of the session may be gone. One
    request at a time.
    """

    transports: tuple[Transport, ...] = ("stdio",)

    def __init__(self, command: Sequence[str]) -> None:
        self._command = list(command)
        self._process: subprocess.Popen[bytes] | None = None
        self._broken = False
        self._buffer = b""
        self._abandoned: dict[str, None] = {}

    def exchange(self, request: Request) -> Reply | Silence:
        """Send a request and return what came in time."""
        if self._broken:
            return Silence("transport")
        try:
            process = self._process or self._start()
            self._send(process, request)
            while True:
                body = self._frame(process, request.deadline)
                if not self._is_late(body):
                    return Reply(body)
        except TimeoutError:
            self._abandoned[request.request_id] = None
            if len(self._abandoned) > MAX_ABANDONED:
                self._abandoned.pop(next(iter(self._abandoned)))
            return Silence("timeout")
        except OSError:
            self._broken = True
            return Silence("transport")

    def close(self) -> None:
        """Close the process's input and output and wait for its end; end it when it stays."""
        process, self._process, self._broken = self._process, None, True
        if process is None:
            return
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.close()
        # A process that is still writing learns of it too.
        process.stdout.close()
        for insist in (process.terminate, process.kill):
            try:
                process.wait(CLOSING_SECONDS)
                break
            except subprocess.TimeoutExpired:
                insist()
        process.wait()

    def _start(self) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
        self._process = process
        for pipe in (process.stdin, process.stdout):
            assert pipe is not None
            os.set_blocking(pipe.fileno(), False)
        return process

    def _send(self, process: subprocess.Popen[bytes], request: Request) -> None:
        assert process.stdin is not None
        descriptor = process.stdin.fileno()
        whole = b"Content-Length: %d\r\n\r\n" % len(request.body) + request.body
        rest = memoryview(whole)
        while rest:
            try:
                _wait(descriptor, select.POLLOUT, request.deadline)
            except TimeoutError:
                # Half a frame is in the pipe: nothing behind it could be understood.
                self._broken = self._broken or len(rest) != len(whole)
                raise
            rest = rest[os.write(descriptor, rest[: select.PIPE_BUF]) :]

    def _frame(self, process: subprocess.Popen[bytes], deadline: float) -> bytes:
        """Return the body of the next frame. Raise TimeoutError with what has come kept, or OSError."""
        assert process.stdout is not None
        while (end := self._buffer.find(b"\r\n\r\n")) < 0:
            if len(self._buffer) > MAX_HEADER_BYTES:
                raise OSError("the process writes no frames")
            self._read(process.stdout.fileno(), deadline)
        headers = self._buffer[:end].split(b"\r\n")
        lengths = [int(found[1]) for header in headers if (found := _LENGTH.fullmatch(header))]
        if len(lengths) != 1 or lengths[0] > MAX_ANSWER_BYTES:
            raise OSError("the frame has no length that can be used")
        begin, length = end + 4, lengths[0]
        while len(self._buffer) < begin + length:
            self._read(process.stdout.fileno(), deadline)
        body = self._buffer[begin : begin + length]
        self._buffer = self._buffer[begin + length :]
        return body

    def _read(self, descriptor: int, deadline: float) -> None:
        _wait(descriptor, select.POLLIN, deadline)
        found = os.read(descriptor, 65_536)
        if not found:
            raise OSError("the process has ended")
        self._buffer += found

    def _is_late(self, body: bytes) -> bool:
        """Tell whether an answer is to a request that was given up on, and forget that request."""
        try:
            answered: Any = msgspec.json.decode(body, type=_Answered).id
        except (msgspec.MsgspecError, UnicodeDecodeError):
            return False
        if not isinstance(answered, str) or answered not in self._abandoned:
            return False
        del self._abandoned[answered]
        return True


class _Answered(msgspec.Struct, frozen=True):
    id: Any = None


def _wait(descriptor: int, event: int, deadline: float) -> None:
    """Wait until a pipe can be used. Raise TimeoutError at the deadline."""
    poll = select.poll()
    poll.register(descriptor, event)
    left = deadline - time.monotonic()
    if left <= 0 or not poll.poll(left * 1000):
        raise TimeoutError
