"""Refusals on the wire: JSON-RPC's codes, the standard's registry, and the one exception that carries them."""

from __future__ import annotations

from enum import IntEnum

__all__ = ["Code", "Refusal"]


class Code(IntEnum):
    """The codes of JSON-RPC 2.0 and of the standard's registry (specification, section 17)."""

    PARSE_ERROR = -32700
    INVALID_REQUEST = -32600
    METHOD_NOT_FOUND = -32601
    INVALID_PARAMS = -32602
    INTERNAL_ERROR = -32603
    SESSION_REFUSED = -32000
    UNSUPPORTED_VERSION = -32001
    PROVENANCE_REQUIRED = -32002
    CAPABILITY_NOT_NEGOTIATED = -32003
    SIGNATURE_INVALID = -32004
    REPLAY_DETECTED = -32005
    TIMESTAMP_OUT_OF_WINDOW = -32006
    CHAIN_MISMATCH = -32007


class Refusal(Exception):
    """An answer without a decision.

    `reason` is for programs and `message` for people; neither repeats what was sent. Further keyword arguments are
    the members that the registry names for a code, such as `skew_window_ms`.
    """

    def __init__(self, code: Code, *, reason: str, message: str, **data: object) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.data = data

    def error(self) -> dict[str, object]:
        """Return the `error` member of the answer."""
        return {
            "code": int(self.code),
            "message": self.code.name,
            "data": {"reason": self.reason, "message": self.message, **self.data},
        }
