"""What comes over the wire has one canonical form, or is refused."""

from __future__ import annotations

import json
import math
import time

import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from awr.guardian.reading import MAX_BODY_BYTES, MAX_DEPTH, read_json
from awr.guardian.refusals import Code, Refusal


@pytest.mark.parametrize(
    ("data", "code", "reason"),
    [
        (b"", Code.PARSE_ERROR, "invalid_json"),
        (b"{", Code.PARSE_ERROR, "invalid_json"),
        (b'{"a":1}x', Code.PARSE_ERROR, "invalid_json"),
        (b"\xff\xfe", Code.PARSE_ERROR, "invalid_json"),
        (b"\xef\xbb\xbf{}", Code.PARSE_ERROR, "invalid_json"),
        ('{"a":1}'.encode("utf-16"), Code.PARSE_ERROR, "invalid_json"),
        (b'{"a":NaN}', Code.PARSE_ERROR, "invalid_json"),
        (b'{"a":-Infinity}', Code.PARSE_ERROR, "invalid_json"),
        (b'{"a":01}', Code.PARSE_ERROR, "invalid_json"),
        (b"{'a':1}", Code.PARSE_ERROR, "invalid_json"),
        (b"[" * 100_000, Code.PARSE_ERROR, "too_deep"),
        (b'{"a":' * (MAX_DEPTH + 1) + b"1" + b"}" * (MAX_DEPTH + 1), Code.PARSE_ERROR, "too_deep"),
        (b'{"a":1e400}', Code.INVALID_REQUEST, "not_canonicalizable"),
        (b'{"a":9007199254740993}', Code.INVALID_REQUEST, "not_canonicalizable"),
        (b'{"a":9007199254740992}', Code.INVALID_REQUEST, "not_canonicalizable"),
        (b'{"a":-' + b"9" * 5000 + b"}", Code.INVALID_REQUEST, "not_canonicalizable"),
        (b'{"a":9007199254740993.0}', Code.INVALID_REQUEST, "not_canonicalizable"),
        (b'{"a":1,"a":2}', Code.INVALID_REQUEST, "not_canonicalizable"),
        (b'{"b":{"a":1,"\\u0061":2}}', Code.INVALID_REQUEST, "not_canonicalizable"),
        (b'{"a":"\\ud800"}', Code.INVALID_REQUEST, "not_canonicalizable"),
        (b'{"\\udc00":1}', Code.INVALID_REQUEST, "not_canonicalizable"),
        (b'"' + b"a" * MAX_BODY_BYTES + b'"', Code.INVALID_REQUEST, "payload_too_large"),
    ],
)
def test_what_two_readers_could_see_differently_is_refused(data: bytes, code: Code, reason: str) -> None:
    with pytest.raises(Refusal) as refused:
        read_json(data)
    assert (refused.value.code, refused.value.reason) == (code, reason)


def test_a_body_of_exactly_the_cap_is_read() -> None:
    text = "a" * (MAX_BODY_BYTES - 2)
    assert read_json(json.dumps(text).encode()) == text


def test_brackets_inside_of_texts_are_no_depth() -> None:
    text = '[{"\\' * 1000
    assert read_json(json.dumps([text, text]).encode()) == [text, text]


@pytest.mark.parametrize(
    "filling", [b'\\"', b"\\\\", b'"', b"\\"], ids=["escaped quotes", "backslashes", "quotes", "odd"]
)
def test_a_text_without_an_end_is_refused_without_being_read_again_and_again(filling: bytes) -> None:
    body = b"[]" * (MAX_DEPTH + 1) + b'"' + filling * (MAX_BODY_BYTES // len(filling) - 200)
    began = time.process_time()
    with pytest.raises(Refusal) as refused:
        read_json(body)
    assert refused.value.reason == "invalid_json"
    assert time.process_time() - began < 30, "looking behind every quote to the end takes an hour"


def test_many_arrays_beside_one_another_are_no_depth() -> None:
    assert read_json(b"[" + b"[],{}," * 5000 + b"[]]")[-1] == []


def test_the_deepest_value_allowed_is_read_and_canonicalized() -> None:
    data = b'{"a":' * MAX_DEPTH + b"1" + b"}" * MAX_DEPTH
    assert rfc8785.dumps(read_json(data)) == data


def test_a_number_with_an_empty_fraction_is_the_integer_that_it_canonicalizes_to() -> None:
    found = read_json(b'{"a":1.0,"b":1e2,"c":-0.0,"d":1.5,"e":9007199254740991}')
    assert found == {"a": 1, "b": 100, "c": 0, "d": 1.5, "e": 2**53 - 1}
    assert [type(value) for value in found.values()] == [int, int, int, float, int]


def test_a_pair_of_surrogates_is_one_character() -> None:
    assert read_json(b'"\\ud83d\\ude00"') == "\U0001f600"


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(codec="utf-8")),
        lambda children: st.lists(children, max_size=4) | st.dictionaries(st.text(max_size=4), children, max_size=4),
        max_leaves=10,
    )
)
def test_whatever_is_read_has_a_canonical_form_and_the_same_one_as_it_was_sent_with(value: object) -> None:
    try:
        found = read_json(json.dumps(value).encode())
    except Refusal:
        assert not _is_canonical(value)
    else:
        assert rfc8785.dumps(found) == rfc8785.dumps(value)  # type: ignore[arg-type]


@given(st.binary(max_size=200))
def test_any_bytes_are_a_value_or_one_refusal(data: bytes) -> None:
    try:
        rfc8785.dumps(read_json(data))
    except Refusal as refusal:
        assert refusal.code in {Code.PARSE_ERROR, Code.INVALID_REQUEST}


def _is_canonical(value: object) -> bool:
    """Tell whether a value has only numbers that a double holds exactly and as one of many."""
    if isinstance(value, dict):
        return all(_is_canonical(part) for part in (*value, *value.values()))
    if isinstance(value, list):
        return all(map(_is_canonical, value))
    if isinstance(value, str):
        return not any("\ud800" <= character <= "\udfff" for character in value)
    if isinstance(value, bool) or value is None:
        return True
    assert isinstance(value, int | float)
    return math.isfinite(value) and not (abs(value) > 2**53 - 1 and float(value).is_integer())
