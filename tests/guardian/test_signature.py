"""A signature covers the whole envelope, under a key that only the session has."""

from __future__ import annotations

import base64
import copy
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from awr.errors import InvalidInput, NotFound, RuleViolation
from awr.guardian.envelope import read_envelope
from awr.guardian.refusals import Code, Refusal
from awr.guardian.signature import (
    Keys,
    require_signature,
    secret_from_environment,
    secret_from_file,
    session_key,
    sign,
    verifies,
)
from tests.support.acs import KEYS, PAYLOADS, SECRET, Agent

AGENT = Agent(lambda body: body)


def request() -> dict[str, Any]:
    return AGENT.request("steps/toolCallRequest", PAYLOADS["steps/toolCallRequest"])


def refusal_of(message: dict[str, Any], keys: Keys = KEYS) -> str:
    with pytest.raises(Refusal) as refused:
        require_signature(read_envelope(message), message, keys=keys)
    assert refused.value.code is Code.SIGNATURE_INVALID
    return refused.value.reason


def test_a_signed_request_names_the_key_that_it_verifies_under() -> None:
    message = request()
    assert require_signature(read_envelope(message), message, keys=KEYS) == "default"


def test_a_missing_signature_is_named_as_missing() -> None:
    assert refusal_of(AGENT.unsigned("steps/turnEnd", {})) == "signature_missing"


@pytest.mark.parametrize("broken", [None, "text", 1, [], {}, {"algorithm": "HMAC-SHA256", "value": "x"}])
def test_a_signature_of_another_shape_is_malformed(broken: object) -> None:
    message = request()
    message["params"]["signature"] = broken
    assert refusal_of(message) == "signature_malformed"


def test_an_algorithm_that_is_not_offered_is_named_so() -> None:
    message = request()
    message["params"]["signature"]["algorithm"] = "ML-DSA-65"
    assert refusal_of(message) == "algorithm_unsupported"


def test_a_label_that_nobody_configured_is_refused_whatever_it_is_signed_with() -> None:
    message = request()
    message["params"]["signature"]["key_id"] = AGENT.session_id
    assert refusal_of(message) == "key_unknown"


@pytest.mark.parametrize(
    "spelled",
    [
        lambda value: value[:-4],
        lambda value: value + "\n",
        lambda value: value.rstrip("="),
        lambda value: value.replace("=", "A"),
        lambda value: "-" + value[1:],
        lambda _: "",
        lambda value: value + value,
    ],
)
def test_another_spelling_of_a_signature_is_no_signature(spelled: Any) -> None:
    message = request()
    signature = message["params"]["signature"]
    signature["value"] = spelled(signature["value"])
    assert refusal_of(message) == "signature_mismatch"


def test_bits_that_base64_ignores_do_not_make_a_second_signature() -> None:
    # 32 bytes leave two unused bits in the last character before the padding.
    message = request()
    signature = message["params"]["signature"]
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
    last = signature["value"][-2]
    other = (
        alphabet[alphabet.index(last) | 1] if alphabet.index(last) % 2 == 0 else alphabet[alphabet.index(last) - 1]
    )
    changed = signature["value"][:-2] + other + "="
    assert base64.b64decode(changed) == base64.b64decode(signature["value"])
    signature["value"] = changed
    assert refusal_of(message) == "signature_mismatch"


@pytest.mark.parametrize(
    "path",
    [
        ("method",),
        ("id",),
        ("params", "acs_version"),
        ("params", "request_id"),
        ("params", "timestamp"),
        ("params", "metadata", "agent_id"),
        ("params", "metadata", "session_id"),
        ("params", "payload", "tool", "name"),
    ],
)
def test_no_member_of_the_envelope_can_change_under_its_signature(path: tuple[str, ...]) -> None:
    message = request()
    changed = copy.deepcopy(message)
    inner = changed
    for name in path[:-1]:
        inner = inner[name]
    inner[path[-1]] += "x"
    assert not verifies(changed, place="params", keys=KEYS, session_id=AGENT.session_id)
    assert verifies(message, place="params", keys=KEYS, session_id=AGENT.session_id)


def test_a_member_that_is_added_to_a_signed_envelope_breaks_the_signature() -> None:
    message = request()
    message["params"]["tenant_id"] = "other"
    assert refusal_of(message) == "signature_mismatch"


def test_a_signature_that_covers_less_than_the_envelope_is_refused() -> None:
    message = AGENT.unsigned("steps/turnEnd", PAYLOADS["steps/turnEnd"])
    partial = copy.deepcopy(message)
    del partial["params"]["metadata"]["session_id"]
    message["params"]["signature"] = AGENT.signed(partial)["params"]["signature"]
    assert refusal_of(message) == "signature_mismatch"


def test_a_signature_of_another_session_is_refused() -> None:
    message = AGENT.unsigned("steps/turnEnd", PAYLOADS["steps/turnEnd"])
    sign(message, place="params", keys=KEYS, key_id="default", session_id="0b2f6f7e-0c1d-4e5f-8a9b-1c2d3e4f5a60")
    assert refusal_of(message) == "signature_mismatch"


def test_the_secret_itself_is_no_session_key() -> None:
    assert session_key(SECRET, AGENT.session_id) not in {SECRET, SECRET[:32]}
    assert session_key(SECRET, AGENT.session_id) != session_key(SECRET, AGENT.session_id.upper())


def test_during_a_rotation_each_label_verifies_under_its_own_secret_only() -> None:
    keys = Keys({"new": b"n" * 32, "old": b"o" * 32})
    for label in ("new", "old"):
        agent = Agent(lambda body: body, keys=keys, key_id=label)
        message = agent.request("steps/turnEnd", PAYLOADS["steps/turnEnd"])
        assert require_signature(read_envelope(message), message, keys=keys) == label
        other = "old" if label == "new" else "new"
        message["params"]["signature"]["key_id"] = other
        assert refusal_of(message, keys) == "signature_mismatch"
    assert keys.first_id == "new"


def test_more_sessions_than_are_kept_derive_the_same_keys_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("awr.guardian.signature.KEPT_KEYS", 2)
    keys = Keys({"default": SECRET})
    first = keys.session_key("default", "a")
    for session in "bcdef":
        keys.session_key("default", session)
    assert keys.session_key("default", "a") == first == session_key(SECRET, "a")


@given(st.dictionaries(st.text(max_size=5), st.integers(-100, 100), max_size=5))
def test_what_is_signed_verifies_and_the_order_of_members_does_not_matter(payload: dict[str, int]) -> None:
    message = AGENT.request("steps/turnEnd", payload)
    reversed_message = dict(reversed(message.items()))
    assert verifies(reversed_message, place="params", keys=KEYS, session_id=AGENT.session_id)


def test_the_label_of_a_key_is_shown_and_its_secret_never() -> None:
    assert repr(KEYS) == "Keys('default')"
    assert SECRET.decode() not in repr(KEYS)


def written(path: Path, data: bytes, mode: int = 0o600) -> Path:
    path.write_bytes(data)
    path.chmod(mode)
    return path


@pytest.mark.parametrize(
    ("data", "secret"), [(SECRET + b"\n", SECRET), (SECRET, SECRET), (SECRET + b"\n\n", SECRET + b"\n")]
)
def test_a_secret_file_is_its_bytes_less_one_final_line_break(tmp_path: Path, data: bytes, secret: bytes) -> None:
    assert secret_from_file(written(tmp_path / "secret", data)) == secret


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o644, 0o660])
def test_a_secret_that_others_can_read_or_write_is_refused(tmp_path: Path, mode: int) -> None:
    with pytest.raises(RuleViolation) as refused:
        secret_from_file(written(tmp_path / "secret", SECRET, mode))
    assert refused.value.details["got"] == f"mode {mode:04o}"


def test_a_link_in_the_place_of_a_secret_is_refused(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(written(tmp_path / "secret", SECRET))
    with pytest.raises(RuleViolation):
        secret_from_file(tmp_path / "link")


def test_a_pipe_in_the_place_of_a_secret_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe", 0o600)
    with pytest.raises(RuleViolation):
        secret_from_file(tmp_path / "pipe")


def test_a_folder_in_the_place_of_a_secret_is_refused_and_not_left_open(tmp_path: Path) -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(3):
        with pytest.raises(RuleViolation) as refused:
            secret_from_file(tmp_path)
    assert refused.value.details["got"] == "something else than a file"
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_a_secret_file_that_is_not_there_says_how_to_make_one(tmp_path: Path) -> None:
    with pytest.raises(NotFound) as refused:
        secret_from_file(tmp_path / "nothing")
    assert "chmod 600" in str(refused.value.details["next_step"])


@pytest.mark.parametrize("size", [0, 31, 65_537])
def test_a_secret_of_an_unsafe_length_is_refused(tmp_path: Path, size: int) -> None:
    with pytest.raises(InvalidInput):
        secret_from_file(written(tmp_path / "secret", b"x" * size))


def test_a_secret_can_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACS_TEST_SECRET", SECRET.decode())
    assert secret_from_environment("ACS_TEST_SECRET") == SECRET
    monkeypatch.setenv("ACS_TEST_SECRET", "short")
    with pytest.raises(InvalidInput):
        secret_from_environment("ACS_TEST_SECRET")
    monkeypatch.delenv("ACS_TEST_SECRET")
    with pytest.raises(NotFound):
        secret_from_environment("ACS_TEST_SECRET")


def test_without_any_secret_there_are_no_keys() -> None:
    with pytest.raises(InvalidInput):
        Keys({})
