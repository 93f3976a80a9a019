"""Framing: whatever way the bytes come in, the same contents come out, and what is no frame is said to be none."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from awr.errors import InvalidInput
from awr.surfaces.acs.frames import MAX_HEADER_BYTES, MAX_SKIPPED_BYTES, TOO_LARGE, FrameReader, TooLarge, framed

LIMIT = 50


def contents(*pieces: bytes, limit: int = LIMIT) -> list[bytes | TooLarge]:
    """Return what a reader makes of a whole input that comes in these pieces."""
    reader = FrameReader(limit=limit)
    found = []
    for piece in pieces:
        reader.feed(piece)
        while (content := reader.next()) is not None:
            found.append(content)
    reader.end()
    return found


def cut(data: bytes, places: list[int]) -> list[bytes]:
    edges = [0, *sorted(place % (len(data) + 1) for place in places), len(data)]
    return [data[start:end] for start, end in pairwise(edges)]


def test_a_frame_is_its_length_an_empty_line_and_its_content() -> None:
    assert framed(b'{"a":1}') == b'Content-Length: 7\r\n\r\n{"a":1}'


@given(st.lists(st.binary(max_size=2 * LIMIT), max_size=6), st.lists(st.integers(min_value=0), max_size=12))
def test_frames_are_read_in_order_however_their_bytes_are_cut(sent: list[bytes], places: list[int]) -> None:
    stream = b"".join(map(framed, sent))
    assert contents(*cut(stream, places)) == [TOO_LARGE if len(one) > LIMIT else one for one in sent]


@pytest.mark.parametrize(
    "headers",
    [
        b"content-length: 2",
        b"CONTENT-LENGTH:2",
        b"Content-Length: \t 2 \t",
        b"Content-Length: 0002",
        b"Content-Type: application/json; charset=utf-8\r\nContent-Length: 2",
        b"Content-Length: 2\r\nContent-Type:",
        b"X-Content-Length: 9\r\nContent-Length: 2",
        b"Content-Length: 2\r\nX: " + b"y" * (MAX_HEADER_BYTES - 26),
    ],
)
def test_names_are_in_any_case_and_other_headers_are_ignored(headers: bytes) -> None:
    assert contents(headers + b"\r\n\r\n{}") == [b"{}"]


BROKEN = (
    b"\r\n\r\n{}",
    b"{}\r\n\r\n",
    b"Content-Length: 2\n\n{}",
    b"Content-Length: 2\r\n\n{}\r\n\r\n",
    b"Content-Length : 2\r\n\r\n{}",
    b"Content-Length 2\r\n\r\n{}",
    b" Content-Length: 2\r\n\r\n{}",
    b"Content-Length: 2\r\n folded\r\n\r\n{}",
    b"Content-Length: 2\r\nContent-Length: 2\r\n\r\n{}",
    b"Content-Length: 2, 2\r\n\r\n{}",
    b"Content-Length: +2\r\n\r\n{}",
    b"Content-Length: -2\r\n\r\n{}",
    b"Content-Length: 0x2\r\n\r\n{}",
    b"Content-Length: 2.0\r\n\r\n{}",
    b"Content-Length: \r\n\r\n{}",
    "Content-Length: ٢\r\n\r\n{}".encode(),
    b"Content-Length: " + b"9" * 30 + b"\r\n\r\n{}",
    b"Content-Length: %d\r\n\r\n" % (MAX_SKIPPED_BYTES + 1),
    b"Content-Type: application/json\r\n\r\n{}",
    b"Content-Length: 2\r\nX: \xff\r\n\r\n{}",
    b"Content-Length: 2\r\nX: a\x00b\r\n\r\n{}",
    b"Content-Length: 2\r\nX: " + b"y" * MAX_HEADER_BYTES + b"\r\n\r\n{}",
    b"x" * MAX_HEADER_BYTES,
    b"Content-Length: 3\r\n\r\n{}",
    b"Content-Length: 3\r\n",
    b"Content-Length: %d\r\n\r\n{}" % (LIMIT + 1),
)


@pytest.mark.parametrize("stream", BROKEN, ids=range(len(BROKEN)))
def test_what_is_no_frame_is_refused_and_not_repeated(stream: bytes) -> None:
    for pieces in ([stream], cut(stream, list(range(len(stream))))):
        with pytest.raises(InvalidInput) as refused:
            contents(*pieces)
        assert "{}" not in str(refused.value.report())


@given(st.binary(max_size=300), st.lists(st.integers(min_value=0), max_size=6))
def test_any_bytes_are_frames_or_one_refusal(data: bytes, places: list[int]) -> None:
    def outcome(*pieces: bytes) -> object:
        try:
            return contents(*pieces)
        except InvalidInput as error:
            return error.details["got"]

    assert outcome(data) == outcome(*cut(data, places))


def test_a_content_over_the_cap_is_dropped_as_it_comes_and_the_next_one_is_read() -> None:
    reader = FrameReader(limit=LIMIT)
    reader.feed(b"Content-Length: %d\r\n\r\n" % MAX_SKIPPED_BYTES)
    assert reader.next() is TOO_LARGE, "it is answered before it has come"
    piece = b"x" * 65_536
    for _ in range(MAX_SKIPPED_BYTES // len(piece)):
        reader.feed(piece)
        assert reader.next() is None
    reader.feed(framed(b"{}"))
    assert reader.next() == b"{}"
    reader.end()
