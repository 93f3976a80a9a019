"""Messages in a stream of bytes: a header block with Content-Length, an empty line, and as many bytes."""

from __future__ import annotations

import re

from awr.errors import InvalidInput

__all__ = ["MAX_HEADER_BYTES", "MAX_SKIPPED_BYTES", "TOO_LARGE", "FrameReader", "TooLarge", "framed"]

MAX_HEADER_BYTES = 4096
#: A content over the cap is dropped while it is no longer than this; beyond it, a length is not believed.
MAX_SKIPPED_BYTES = 64 * 1024 * 1024

_END = b"\r\n\r\n"
_LINE = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([\x20-\x7e\t]*?)[ \t]*")
_LENGTH = re.compile(rb"[0-9]{1,18}")


class TooLarge:
    """Stands for a content that is over the cap. Its bytes are dropped as they come."""


TOO_LARGE = TooLarge()


class FrameReader:
    """Takes bytes as they come, and gives the contents of the frames that are whole. It reads nothing itself."""

    def __init__(self, *, limit: int) -> None:
        self._limit = limit
        self._buffer = bytearray()
        self._length: int | None = None
        self._dropping = 0

    def feed(self, data: bytes) -> None:
        """Take the next bytes."""
        dropped = min(self._dropping, len(data))
        self._dropping -= dropped
        self._buffer += data[dropped:]

    def next(self) -> bytes | TooLarge | None:
        """Return one content, or None while it is not whole. Raise InvalidInput for what is no frame."""
        if self._length is None:
            block = self._block()
            if block is None:
                return None
            length = _length_of(block)
            if length > self._limit:
                self._drop(length)
                return TOO_LARGE
            self._length = length
        if len(self._buffer) < self._length:
            return None
        content = bytes(self._buffer[: self._length])
        del self._buffer[: self._length]
        self._length = None
        return content

    def end(self) -> None:
        """Say that no more bytes come. Raise InvalidInput when a frame was begun."""
        if self._buffer or self._length is not None or self._dropping:
            raise _broken("the input ends inside a frame")

    def _block(self) -> bytes | None:
        end = self._buffer.find(_END, 0, MAX_HEADER_BYTES)
        if end < 0:
            if len(self._buffer) >= MAX_HEADER_BYTES:
                raise _broken(f"a header block of more than {MAX_HEADER_BYTES} bytes")
            return None
        block = bytes(self._buffer[:end])
        del self._buffer[: end + len(_END)]
        return block

    def _drop(self, length: int) -> None:
        if length > MAX_SKIPPED_BYTES:
            raise _broken(f"a content of more than {MAX_SKIPPED_BYTES} bytes")
        dropped = min(length, len(self._buffer))
        del self._buffer[:dropped]
        self._dropping = length - dropped


def framed(content: bytes) -> bytes:
    """Return one frame."""
    return b"Content-Length: %d\r\n\r\n%b" % (len(content), content)


def _length_of(block: bytes) -> int:
    lengths = []
    for line in block.split(b"\r\n"):
        found = _LINE.fullmatch(line)
        if found is None:
            raise _broken("a header line that is none")
        if found[1].lower() == b"content-length":
            lengths.append(found[2])
    if len(lengths) != 1 or _LENGTH.fullmatch(lengths[0]) is None:
        raise _broken("no Content-Length, several, or one that is no number")
    return int(lengths[0])


def _broken(got: str) -> InvalidInput:
    return InvalidInput(
        "the input is no sequence of frames, so what comes next in it cannot be found",
        got=got,
        expected="Content-Length: N, an empty line and N bytes, with lines that end in CRLF",
        next_step="start the Guardian again, and frame every message",
    )
