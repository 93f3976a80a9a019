"""The link rule and its two encoders."""

from __future__ import annotations

import hashlib

import pytest
import rfc8785
from hypothesis import given, settings
from hypothesis import strategies as st

from awr.chain import acs_bytes, digest, journal_bytes, link

json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text(),
    lambda children: st.lists(children, max_size=4) | st.dictionaries(st.text(), children, max_size=4),
    max_leaves=12,
)


def test_a_link_is_the_hash_of_the_bytes_and_the_raw_link_before() -> None:
    first = link(b"one", previous=None)
    assert first == hashlib.sha256(b"one").digest()
    assert link(b"two", previous=first) == hashlib.sha256(b"two" + first).digest()


def test_the_journal_encoder_keeps_an_integer_that_rfc_8785_refuses() -> None:
    assert journal_bytes({"sequence": 2**63 - 1}) == b'{"sequence":9223372036854775807}'
    with pytest.raises(ValueError, match="9223372036854775807"):
        acs_bytes({"sequence": 2**63 - 1})


#: Values inside the domain of RFC 8785, close to where our encoder and the library could part.
canonical_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53) + 1, 2**53 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.floats(-1e-5, 1e-5)
    | st.text(st.characters(exclude_categories=["Cs"]))
    | st.from_regex(r'[:,"\[]?[-0-9]{1,20}[.eE:"]?[0-9]{0,3}', fullmatch=True),
    lambda children: (
        st.lists(children, max_size=4)
        | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), children, max_size=4)
    ),
    max_leaves=12,
)


@settings(max_examples=500)
@given(canonical_values)
def test_our_fast_encoder_and_the_librarys_spell_every_value_alike(value: object) -> None:
    assert acs_bytes(value) == rfc8785.dumps(value)  # type: ignore[arg-type]


@given(st.lists(st.floats(1e-7, 1.2e-5) | st.sampled_from(["1e-6", ',1e-6,"', '"\\', "\\"]), max_size=6))
def test_small_fractions_lose_their_exponent_and_texts_that_look_like_them_do_not(value: list[float | str]) -> None:
    assert acs_bytes({"a": value}) == rfc8785.dumps({"a": value})


@pytest.mark.parametrize("value", [float("nan"), float("inf"), [float("-inf")], 2**53, [-(2**53)], {"a": 2**64}])
def test_what_rfc_8785_cannot_carry_is_refused(value: object) -> None:
    with pytest.raises(rfc8785.CanonicalizationError):
        acs_bytes(value)


@given(st.dictionaries(st.text(), json_values, max_size=5))
def test_the_order_of_keys_never_changes_the_journal_bytes(value: dict[str, object]) -> None:
    assert journal_bytes(dict(reversed(value.items()))) == journal_bytes(value)


def test_the_acs_encoder_reproduces_the_standards_chain() -> None:
    first = {
        "entry_id": "1",
        "step_id": "0b2f6f7e-0c1d-4e5f-8a9b-1c2d3e4f5a60",
        "step_type": "steps/sessionStart",
        "timestamp": "2026-09-19T10:00:00Z",
    }
    head = link(acs_bytes(first), previous=None)
    assert head.hex() == "1552a42d04ec72f9c18945400488e3f50fba5b3256537db01b705eea66e30373"
    second = {
        "entry_id": "2",
        "step_id": "8d0b6b0e-4d6b-4f7a-9d1c-1f1c7f0e2a10",
        "step_type": "steps/toolCallRequest",
        "request_hash": "1f73e15e340da6bc294e18e38557aef0241921fd3985c94266e1b7416c743058",
        "timestamp": "2026-09-19T10:00:01Z",
        "provenance_summary": {
            "origins_seen": ["user_input", "tool_output"],
            "entry_count": 2,
            "entry_count_by_origin": {"user_input": 1, "tool_output": 1},
        },
    }
    head = link(acs_bytes(second), previous=head)
    assert head.hex() == "14e6d50a913e8295606bc0d86ee9cde870040e0e0a319b13ae15836128d0d111"
    third = {
        "entry_id": "é-3",
        "step_id": "c1d2e3f4-a5b6-4c7d-8e9f-0a1b2c3d4e5f",
        "step_type": "steps/toolCallResult",
        "timestamp": "2026-09-19T10:00:02Z",
    }
    assert (
        link(acs_bytes(third), previous=head).hex()
        == "86e28e694a7e762f205dc0739e4764d9cb32ff2c2c03a56ca88ecbbe0f505229"
    )


def test_a_digest_is_lowercase_hexadecimal() -> None:
    assert digest(b"") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
