"""Facts taken from one row."""

from __future__ import annotations

import pytest

from awr.hosts.rows import clean_text, count, lenient_row, parse_time


@pytest.mark.parametrize(
    ("text", "millis"),
    [
        ("2026-11-30T20:27:20.957Z", 1796070440957),
        ("2026-11-30T22:27:20.957+02:00", 1796070440957),
        ("2026-11-30T20:27:20", None),
        ("1969-12-31T00:00:00Z", None),
        ("yesterday", None),
        ("", None),
        (None, None),
    ],
)
def test_time_counts_only_when_its_zone_is_known(text: str | None, millis: int | None) -> None:
    assert parse_time(text) == millis


@pytest.mark.parametrize(("value", "found"), [(0, 0), (10**9, 10**9), (10**9 + 1, None), (-1, None), (None, None)])
def test_count_out_of_range_is_no_fact(value: int | None, found: int | None) -> None:
    assert count(value) == found


@pytest.mark.parametrize("text", ["", " ", "a\nb", "a\x1b[31m", "é" * 200, "x" * 257, "\ud800", None])
def test_text_that_is_no_name_is_no_fact(text: str | None) -> None:
    assert clean_text(text) is None


def test_row_of_odd_bytes_is_still_an_object() -> None:
    assert lenient_row(b'\xef\xbb\xbf{"a":NaN,"b":"\xff\x01"}') is not None


@pytest.mark.parametrize("line", [b"", b"[]", b"1", b"{", b"[" * 100_000, b'{"a":' + b"9" * 5000 + b"}"])
def test_line_that_is_no_object_is_none(line: bytes) -> None:
    assert lenient_row(line) is None
