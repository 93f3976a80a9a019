"""The Guardian on standard input and output: framed messages, answered one after the other."""

from __future__ import annotations

import os
import select
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType

import msgspec

from awr.errors import AwrError, InvalidInput
from awr.guardian.reading import MAX_BODY_BYTES, too_large
from awr.surfaces.acs.desk import STDIO, Desk, Setup
from awr.surfaces.acs.frames import FrameReader, TooLarge, framed
from awr.surfaces.acs.notices import Notices
from awr.surfaces.http.log import Log

__all__ = ["serve_stdio"]

READ_BYTES = 65_536


def serve_stdio(setup: Setup) -> int:
    """Answer what comes in on standard input until it ends or a signal comes.

    Return 0, or 1 when the input is no sequence of frames, with one error report on standard error. Raise Storage,
    RuleViolation or Io when the database cannot be used, InvalidInput without the two streams, and BrokenPipeError
    when nobody reads the answers.
    """
    if sys.stdin is None or sys.stdout is None:
        # Another file could have got the number of a stream that is closed.
        raise InvalidInput(
            "standard input or output is closed",
            expected="a stream for requests and one for answers",
            next_step="start the Guardian with both, as a pipe to the agent",
        )
    desk = Desk(setup, transports=STDIO, notices=Notices(Log(sys.stderr)))
    try:
        with _woken_by_signals() as woken:
            _serve(desk, woken)
    except AwrError as error:
        sys.stderr.write(msgspec.json.encode(error.report()).decode() + "\n")
        return 1
    finally:
        desk.close()
    return 0


def _serve(desk: Desk, woken: int) -> None:
    reader = FrameReader(limit=MAX_BODY_BYTES)
    while True:
        whole: list[bytes] = []
        try:
            while (content := reader.next()) is not None:
                if isinstance(content, TooLarge):
                    _answer(desk, whole)
                    whole = []
                    _write(framed(desk.refuse(too_large())))
                else:
                    whole.append(content)
        finally:
            # What came whole is answered, whatever broken frame comes behind it.
            _answer(desk, whole)
        ready, _, _ = select.select([0, woken], [], [])
        # Every frame that was read whole has been answered by now.
        if woken in ready:
            return
        data = os.read(0, READ_BYTES)
        if not data:
            reader.end()
            return
        reader.feed(data)


def _answer(desk: Desk, contents: list[bytes]) -> None:
    """Answer what has come in one piece, together."""
    for answer in desk.answer_together(contents) if contents else ():
        _write(framed(answer))


def _write(data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(1, rest) :]


@contextmanager
def _woken_by_signals() -> Iterator[int]:
    """Give a file that can be read once SIGTERM or SIGINT has come; a second one ends the process at once.

    A handler that raised would end whatever it met, an answer that is half written too.
    """
    reading, writing = os.pipe()
    os.set_blocking(writing, False)

    def stop(number: int, frame: FrameType | None) -> None:
        for one in before:
            signal.signal(one, signal.SIG_DFL)
        with suppress(OSError):
            os.write(writing, b"\0")

    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        for number in before:
            signal.signal(number, stop)
        yield reading
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        os.close(reading)
        os.close(writing)
