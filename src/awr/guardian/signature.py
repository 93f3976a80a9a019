"""Signatures: one registry of algorithms, keys by reference, and what exactly is signed.

What is signed is the RFC 8785 form of the whole envelope with only the signature removed, for every algorithm
(specification, section 10). The key of a session is HKDF-SHA256 of the deployment's secret: no salt, the session id
as `info`, 32 bytes.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import msgspec

from awr.chain import acs_bytes
from awr.errors import InvalidInput, NotFound, RuleViolation
from awr.guardian.envelope import Envelope
from awr.guardian.operator_files import read_owned
from awr.guardian.refusals import Code, Refusal

__all__ = [
    "ALGORITHMS",
    "DEFAULT_KEY_ID",
    "Keys",
    "Signed",
    "require_signature",
    "secret_from_environment",
    "secret_from_file",
    "session_key",
    "sign",
    "verifies",
]

#: The label that the published adapters send when nobody names one.
DEFAULT_KEY_ID = "default"
#: As long as the output of the hash: a shorter secret would be the weakest part.
MIN_SECRET_BYTES = 32
MAX_SECRET_BYTES = 65_536
#: Session keys that are kept, so that a session's second step derives nothing.
KEPT_KEYS = 4096


class Signed(msgspec.Struct, frozen=True, kw_only=True):
    """The signature member."""

    algorithm: str
    value: str
    key_id: str


class Algorithm(Protocol):
    """One way to sign. `key` is the session's."""

    def sign(self, key: bytes, data: bytes) -> bytes:
        """Return the signature of `data`."""

    def verifies(self, key: bytes, data: bytes, signature: bytes) -> bool:
        """Tell whether it is the signature of `data`, in constant time."""


class HmacSha256:
    """The baseline of ACS-Core."""

    def sign(self, key: bytes, data: bytes) -> bytes:
        """Return the 32 bytes of the code."""
        return hmac.digest(key, data, "sha256")

    def verifies(self, key: bytes, data: bytes, signature: bytes) -> bool:
        """Compare in constant time."""
        return hmac.compare_digest(self.sign(key, data), signature)


#: By the name that the wire uses. The asymmetric ones belong to ACS-Crypto, which is not claimed.
ALGORITHMS: dict[str, Algorithm] = {"HMAC-SHA256": HmacSha256()}


class Keys:
    """The deployment's secrets by their labels. During a rotation there are two; a client signs with the first."""

    def __init__(self, secrets: Mapping[str, bytes]) -> None:
        if not secrets:
            raise InvalidInput(
                "there is no secret to sign with",
                got="no secret",
                expected="at least one",
                next_step="name a file with --secret-file",
            )
        for secret in secrets.values():
            _require_length(secret)
        self._secrets = dict(secrets)
        self._derived: dict[tuple[str, str], bytes] = {}

    def __repr__(self) -> str:
        return f"Keys({', '.join(map(repr, self._secrets))})"

    @property
    def first_id(self) -> str:
        """The label that a client signs with."""
        return next(iter(self._secrets))

    def session_key(self, key_id: str, session_id: str) -> bytes | None:
        """Return the key of a session under a label, or None for a label that is not known."""
        found = self._derived.get((key_id, session_id))
        if found is None and key_id in self._secrets:
            if len(self._derived) >= KEPT_KEYS:
                self._derived.clear()
            found = self._derived[key_id, session_id] = session_key(self._secrets[key_id], session_id)
        return found


def session_key(secret: bytes, session_id: str) -> bytes:
    """Derive the 32-byte key of one session."""
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    return HKDF(algorithm=SHA256(), length=32, salt=None, info=session_id.encode()).derive(secret)


def sign(message: dict[str, Any], *, place: str, keys: Keys, key_id: str, session_id: str) -> dict[str, Any]:
    """Sign a message with the baseline, in its member `place`: params, result or error. Return the same message."""
    key = keys.session_key(key_id, session_id)
    assert key is not None, "nobody signs with a key that is not there"
    message[place].pop("signature", None)
    value = ALGORITHMS["HMAC-SHA256"].sign(key, acs_bytes(message))
    message[place]["signature"] = {
        "algorithm": "HMAC-SHA256",
        "value": base64.b64encode(value).decode(),
        "key_id": key_id,
    }
    return message


def verifies(message: Mapping[str, Any], *, place: str, keys: Keys, session_id: str) -> bool:
    """Tell whether a message carries a signature that covers all of it under a key that is known."""
    try:
        signed = msgspec.convert(message[place].get("signature"), Signed)
        value = base64.b64decode(signed.value, validate=True)
    except (msgspec.ValidationError, binascii.Error, ValueError):
        return False
    algorithm = ALGORITHMS.get(signed.algorithm)
    key = keys.session_key(signed.key_id, session_id)
    # The same bytes have one text: another spelling of it was made by nobody who signed.
    if algorithm is None or key is None or base64.b64encode(value).decode() != signed.value:
        return False
    return algorithm.verifies(key, acs_bytes(_without_signature(message, place)), value)


def require_signature(envelope: Envelope, message: Mapping[str, Any], *, keys: Keys) -> str:
    """Return the label of the key that a request is signed with. Raise Refusal SIGNATURE_INVALID.

    One reason for all that may be wrong with it would help nobody to forge one, and does not help to mend one either:
    what is missing, malformed or unknown is named.
    """
    found = envelope.params.signature
    if found is msgspec.UNSET:
        raise _invalid("signature_missing", "the request is not signed")
    try:
        signed = msgspec.convert(found, Signed)
    except msgspec.ValidationError:
        raise _invalid("signature_malformed", "a signature has the texts algorithm, value and key_id") from None
    if signed.algorithm not in ALGORITHMS:
        raise _invalid("algorithm_unsupported", "the algorithm is none of: " + ", ".join(ALGORITHMS))
    if keys.session_key(signed.key_id, envelope.session_id) is None:
        raise _invalid("key_unknown", "no key of this Guardian has the label that key_id names")
    if not verifies(message, place="params", keys=keys, session_id=envelope.session_id):
        raise _invalid("signature_mismatch", "the signature does not cover this envelope under that key")
    return signed.key_id


def secret_from_file(path: Path) -> bytes:
    """Return a file's bytes, less one final line break.

    Raise NotFound, RuleViolation when others than its owner may read it or a link stands in its place, and
    InvalidInput for a secret that is too short.
    """
    missing = NotFound(
        "the secret file does not exist",
        expected="a file that only its owner can read",
        next_step="make one: head -c 48 /dev/urandom | base64 > FILE; chmod 600 FILE",
    )
    data = read_owned(path, forbidden=0o077, limit=MAX_SECRET_BYTES, missing=missing, unsafe=_unsafe)
    return _require_length(data.removesuffix(b"\n"))


def secret_from_environment(name: str) -> bytes:
    """Return the bytes of an environment variable. Raise NotFound or InvalidInput."""
    found = os.environb.get(name.encode())
    if found is None:
        raise NotFound(
            "the environment variable with the secret is not set",
            expected="a variable that holds the secret",
            next_step="set it, or name a file with --secret-file",
        )
    return _require_length(found)


def _without_signature(message: Mapping[str, Any], place: str) -> dict[str, Any]:
    inner = {name: value for name, value in message[place].items() if name != "signature"}
    return {**message, place: inner}


def _require_length(secret: bytes) -> bytes:
    if not MIN_SECRET_BYTES <= len(secret) <= MAX_SECRET_BYTES:
        raise InvalidInput(
            "the secret has a length that is not safe to use",
            got=f"{min(len(secret), MAX_SECRET_BYTES + 1)} bytes",
            expected=f"{MIN_SECRET_BYTES} to {MAX_SECRET_BYTES} bytes",
            next_step="make one: head -c 48 /dev/urandom | base64 > FILE; chmod 600 FILE",
        )
    return secret


def _unsafe(got: str) -> RuleViolation:
    return RuleViolation(
        "the secret file is not safe to use",
        got=got,
        expected="a plain file of this user, mode 0600",
        next_step="chmod 600 the file, and name it itself, not a link to it",
    )


def _invalid(reason: str, message: str) -> Refusal:
    return Refusal(Code.SIGNATURE_INVALID, reason=reason, message=message)
