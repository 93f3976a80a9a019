"""The data vectors reproduce to the byte: session key, signatures, request hash and chain."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from awr.guardian.entries import entry_hash, request_hash
from awr.guardian.signature import Keys, session_key, sign, verifies
from tests.conformance.requirements import covers

FIXTURES = Path(__file__).parents[1] / "fixtures" / "acs"
ENVELOPES: dict[str, Any] = json.loads((FIXTURES / "envelope-vectors.json").read_bytes())
CHAIN: dict[str, Any] = json.loads((FIXTURES / "chain-vectors.json").read_bytes())
SECRET = bytes.fromhex(ENVELOPES["ikm_hex"])
KEYS = Keys({ENVELOPES["key_id"]: SECRET})
PLACES = [("request", "params"), ("response", "result")]


@covers("signature")
def test_the_session_key_is_the_vectors() -> None:
    assert session_key(SECRET, ENVELOPES["session_id"]).hex() == ENVELOPES["session_key_hex"]


@covers("signature")
@pytest.mark.parametrize(("kind", "place"), PLACES)
def test_signing_the_unsigned_form_gives_the_vectors_message(kind: str, place: str) -> None:
    expected = ENVELOPES[kind]["signed"]
    message = copy.deepcopy(expected)
    del message[place]["signature"]
    signed = sign(message, place=place, keys=KEYS, key_id=ENVELOPES["key_id"], session_id=ENVELOPES["session_id"])
    assert json.dumps(signed, sort_keys=True) == json.dumps(expected, sort_keys=True)


@covers("signature")
@pytest.mark.parametrize(("kind", "place"), PLACES)
def test_the_vectors_message_verifies_and_one_in_another_session_does_not(kind: str, place: str) -> None:
    message = ENVELOPES[kind]["signed"]
    assert verifies(message, place=place, keys=KEYS, session_id=ENVELOPES["session_id"])
    assert not verifies(message, place=place, keys=KEYS, session_id="0" + ENVELOPES["session_id"][1:])


@covers("request-hash")
def test_the_request_hash_is_the_vectors() -> None:
    vector = CHAIN["request_hash"]
    assert request_hash(vector["params"]) == vector["hash"]


@covers("chain")
@pytest.mark.parametrize("link", CHAIN["chain"], ids=lambda link: link["entry"]["step_type"])
def test_each_entry_hash_is_the_vectors(link: dict[str, Any]) -> None:
    assert entry_hash(link["entry"], previous_hash=link["previous_hash"]) == link["entry_hash"]
    own = {**link["entry"], "entry_hash": link["entry_hash"], "previous_hash": link["previous_hash"]}
    assert entry_hash(own, previous_hash=link["previous_hash"]) == link["entry_hash"], "it covers neither hash"
