"""Untrusted JSON: what is refused, and that a refusal never repeats what was sent."""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from awr.domain.compaction import Observation
from awr.errors import InvalidInput
from awr.operations.compaction import ObserveRequest
from awr.operations.event import AppendRequest
from awr.operations.requests import convert_request, decode_request, parse_json
from tests.domain.test_compaction import observation

MARKER = "zqMARKERzq"


class Inner(msgspec.Struct, forbid_unknown_fields=True):
    number: Annotated[int, msgspec.Meta(ge=1, le=9)] = 1
    names: tuple[Annotated[str, msgspec.Meta(max_length=4)], ...] = ()


class Sample(msgspec.Struct, forbid_unknown_fields=True):
    word: str
    choice: Literal["one", "two"] = "one"
    flag: bool = False
    share: float | None = None
    inner: Inner | None = None
    free: dict[str, Any] | None = None


def refused(data: bytes, wanted: type[msgspec.Struct] = Sample) -> InvalidInput:
    with pytest.raises(InvalidInput) as caught:
        decode_request(data, wanted, what="the input")
    report = caught.value.report()
    json.dumps(report)
    assert "the input" in caught.value.what
    details = report["details"]
    assert isinstance(details, dict)
    assert {"got", "expected", "next_step"} <= set(details)
    return caught.value


def test_a_good_request_becomes_its_type() -> None:
    found = decode_request(b'{"word": "a", "inner": {"number": 3, "names": ["x"]}}', Sample, what="the input")
    assert found == Sample(word="a", inner=Inner(number=3, names=("x",)))


@pytest.mark.parametrize(
    "text",
    [
        '{"word": "a", "word": "a"}',
        '{"word": "a", "inner": {"number": 1, "number": 2}}',
        '{"word": "a", "free": {"x": [{"y": 1, "y": 1}]}}',
        '{"word": "a", "\\u0077ord": "b"}',
    ],
)
def test_a_key_that_stands_twice_is_refused_at_any_depth(text: str) -> None:
    assert refused(text.encode()).details["got"] == "the same key twice in one object"


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity"])
def test_a_number_that_is_none_is_refused(number: str) -> None:
    assert refused(f'{{"word": "a", "share": {number}}}'.encode()).details["got"] == "NaN or an infinity"


@pytest.mark.parametrize("number", ["1e999", "-1e999"])
def test_a_number_too_large_to_be_finite_is_refused(number: str) -> None:
    refused(f'{{"word": "a", "share": {number}}}'.encode())


@pytest.mark.parametrize(
    "data",
    [
        b"[" * 200_000,
        b'{"a":' * 200_000,
        b'{"word": "a", "free": ' + b'{"a":' * 50_000 + b"1" + b"}" * 50_000 + b"}",
        b'{"word": "a", "inner": {"number": ' + b"9" * 5000 + b"}}",
        b"9" * 100_000,
    ],
    ids=["open lists", "open maps", "closed maps", "a huge number", "only a huge number"],
)
def test_nesting_and_numbers_beyond_reason_are_refused(data: bytes) -> None:
    refused(data)


def test_a_number_of_many_digits_is_out_of_bounds_and_no_fault() -> None:
    refused(b'{"word": "a", "inner": {"number": ' + b"9" * 400 + b"}}")


@pytest.mark.parametrize(
    "data",
    [b"\xff", b'{"word": "\xff"}', b'{"word": "a\xc3"}', b"\xff\xfe{\x00}\x00", b'{"word": "\xed\xa0\x80"}'],
)
def test_bad_utf8_is_refused_with_its_place(data: bytes) -> None:
    error = refused(data)
    assert "UTF-8" in str(error)
    assert str(error.details["got"]).startswith("a bad byte at offset ")


@pytest.mark.parametrize(
    "data",
    [b"", b" ", b"{", b'{"word": "a"} x', b"{'word': 'a'}", b'{"word": "a",}', b"\xef\xbb\xbf{}", b"// no\n{}"],
)
def test_what_is_no_json_is_refused_with_line_and_column(data: bytes) -> None:
    error = refused(data)
    assert "line" in str(error.details["got"])


@pytest.mark.parametrize("data", [b"null", b"1", b'"word"', b"[]", b"true", b"[1]"])
def test_what_is_no_object_is_refused(data: bytes) -> None:
    assert refused(data).details["location"] == "$"


@pytest.mark.parametrize(
    ("change", "where", "expected"),
    [
        ({"word": 1}, "$.word", "str"),
        ({"word": None}, "$.word", "str"),
        ({"flag": "yes"}, "$.flag", "bool"),
        ({"flag": 1}, "$.flag", "bool"),
        ({"inner": {"number": 0}}, "$.inner.number", "int >= 1"),
        ({"inner": {"number": 10}}, "$.inner.number", "int <= 9"),
        ({"inner": {"number": "1"}}, "$.inner.number", "int"),
        ({"inner": {"number": 1.5}}, "$.inner.number", "int"),
        ({"inner": {"number": True}}, "$.inner.number", "int"),
        ({"inner": {"names": ["ok", "toolong"]}}, "$.inner.names[1]", "str of length <= 4"),
        ({"inner": []}, "$.inner", "object | null"),
        ({"choice": MARKER}, "$.choice", "one of the documented values"),
    ],
)
def test_a_value_of_the_wrong_kind_is_refused_with_its_place_and_its_rule(
    change: dict[str, Any], where: str, expected: str
) -> None:
    error = refused(json.dumps({"word": "a", **change}).encode())
    assert (error.details["location"], error.details["expected"]) == (where, expected)


def test_a_field_that_is_missing_is_named() -> None:
    error = refused(b"{}")
    assert (error.details["got"], error.details["expected"]) == ("nothing", "the field word")


def test_an_unknown_field_is_refused_with_the_known_ones_and_without_its_name() -> None:
    error = refused(json.dumps({"word": "a", MARKER: 1}).encode())
    assert error.details["expected"] == "only word, choice, flag, share, inner, free"
    assert refused(json.dumps({"word": "a", "inner": {MARKER: 1}}).encode()).details["location"] == "$.inner"


def test_plain_text_is_parsed_as_strictly_as_bytes() -> None:
    assert parse_json('{"a": [1, 2.5, null, "é"]}', what="it") == {"a": [1, 2.5, None, "é"]}
    with pytest.raises(InvalidInput):
        parse_json('{"a": 1, "a": 1}', what="it")


def test_integers_stay_exact() -> None:
    assert parse_json(f"[{2**63 - 1}, {2**64}]", what="it") == [2**63 - 1, 2**64]


@pytest.mark.parametrize(
    "value",
    [
        {f"missing required field `{MARKER}`": 1, "word": "a"},
        {f"x` - at `$.{MARKER}": 1, "word": "a"},
        {f"x` - at `${MARKER}": 1, "word": "a"},
        {f"Expected `{MARKER}`, got `{MARKER}`": 1, "word": "a"},
        {"word": "a", "choice": f"' - at `$.{MARKER}`"},
        {"word": "a", "inner": {f"missing required field `{MARKER}`": 1}},
    ],
)
def test_a_text_made_to_look_like_a_message_is_not_echoed(value: dict[str, Any]) -> None:
    assert MARKER not in str(refused(json.dumps(value).encode()).report())


marked = st.recursive(
    st.sampled_from([MARKER, None, True, 0, 7, 1.5, 2**63, "one"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from([MARKER, "word", "number", "inner", "names", f"{MARKER}`"]), inner, max_size=3
        )
    ),
    max_leaves=6,
)
fields = ["word", "choice", "flag", "share", "inner", "free", MARKER]


@settings(max_examples=300, deadline=None)
@given(st.dictionaries(st.sampled_from(fields), marked, max_size=5))
def test_no_refusal_of_any_value_echoes_it(value: dict[str, Any]) -> None:
    try:
        convert_request(value, Sample, what="the request")
    except InvalidInput as error:
        assert MARKER not in json.dumps(error.report())


@settings(max_examples=200, deadline=None)
@example(b'{"session": "zqMARKERzq", ')
@example(b'{"zqMARKERzq": 1, "zqMARKERzq": 2}')
@given(
    st.builds(
        lambda name, value: json.dumps(
            {
                "session": "s",
                "expected_revision": 1,
                "observation": {**msgspec.to_builtins(observation()), name: value},
            }
        ).encode(),
        st.sampled_from([*Observation.__struct_fields__, MARKER]),
        marked,
    )
)
def test_no_refusal_of_an_observation_echoes_it(data: bytes) -> None:
    try:
        decode_request(data, ObserveRequest, what="the input")
    except InvalidInput as error:
        assert MARKER not in json.dumps(error.report())


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=60) | st.text(max_size=60).map(lambda text: text.encode("utf-8", "replace")))
def test_any_bytes_are_a_request_or_bad_input(data: bytes) -> None:
    try:
        decode_request(data, AppendRequest, what="the input")
    except InvalidInput as error:
        json.dumps(error.report())
