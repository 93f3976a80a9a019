"""What a program says of itself before it asks: its name, its hooks, and what it can do with an answer."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

from awr.errors import InvalidInput
from awr.guardian.envelope import ACS_VERSION, METHODS, UserContext, Version, place_of
from awr.guardian.handshake import ClientHello, Profile, Transport, WrappedProtocol

__all__ = ["HANDSHAKE_TIMEOUT_MS", "LONGEST_WAIT_MS", "Settings"]

#: How long the first answer may take, in milliseconds: nothing is negotiated yet.
HANDSHAKE_TIMEOUT_MS = 5_000
#: No answer is waited for longer than a day, whatever was negotiated: timers of the system overflow somewhere.
LONGEST_WAIT_MS = 86_400_000


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """The program's own configuration. Raise InvalidInput for a value that breaks the standard's form.

    `methods` are the hooks that the program really has. `startup` is what holds when no Guardian answers the
    handshake. `modify_capable` and `ask_capable` say what the program can do with those two decisions: the wire has
    no word for it, so a Guardian learns it from its own configuration. `sequential` sends one step at a time, and
    with each the chain's head that was published last.
    """

    agent_id: str
    methods: tuple[str, ...]
    provenance_producer: Literal["deterministic", "none"] = "none"
    profiles: tuple[Profile, ...] = ("acs-core",)
    wrapped_protocols: tuple[WrappedProtocol, ...] = ()
    versions: Annotated[tuple[Version, ...], msgspec.Meta(min_length=1)] = (ACS_VERSION,)
    max_payload_size_bytes: Annotated[int, msgspec.Meta(ge=1)] = 1_000_000
    handshake_timeout_ms: Annotated[int, msgspec.Meta(ge=1, le=LONGEST_WAIT_MS)] = HANDSHAKE_TIMEOUT_MS
    startup: Literal["proceed", "refuse"] = "proceed"
    modify_capable: bool = True
    ask_capable: bool = False
    sequential: bool = False
    nonce: bool = False
    agent_name: str | None = None
    environment: Literal["development", "staging", "production"] | None = None
    platform: str | None = None
    platform_version: str | None = None
    user_context: UserContext | None = None

    def __post_init__(self) -> None:
        # A struct checks its types only when it is converted, and a program makes this one by hand.
        try:
            msgspec.convert(self.hello(("http",)), ClientHello)
            msgspec.convert(msgspec.to_builtins(self), _Checked)
        except msgspec.ValidationError as error:
            raise InvalidInput(
                f"the settings of the Guardian's client break the standard's form: {place_of(error)}",
                expected=f"methods that match {METHODS}, and the values that the page on asking a Guardian lists",
                next_step="correct the settings",
            ) from None

    def hello(self, transports: tuple[Transport, ...]) -> dict[str, Any]:
        """Return the ClientHello."""
        offered: dict[str, Any] = {
            "acs_versions_supported": list(self.versions),
            "methods_implemented": list(self.methods),
            "transports_supported": list(transports),
            "max_payload_size_bytes": self.max_payload_size_bytes,
            "provenance_producer": self.provenance_producer,
            "profiles_supported": list(self.profiles),
        }
        if self.wrapped_protocols:
            offered["wrapped_protocols"] = msgspec.to_builtins(self.wrapped_protocols)
        return offered

    def metadata(self, session_id: str) -> dict[str, Any]:
        """Return the members of `metadata` that are the same in every request."""
        found: dict[str, Any] = {"agent_id": self.agent_id, "session_id": session_id}
        for name in ("agent_name", "environment", "platform", "platform_version"):
            if (value := getattr(self, name)) is not None:
                found[name] = value
        if self.user_context is not None:
            found["user_context"] = msgspec.to_builtins(self.user_context)
        return found


class _Checked(msgspec.Struct, frozen=True, kw_only=True):
    """The members that no other type checks."""

    agent_id: str
    handshake_timeout_ms: Annotated[int, msgspec.Meta(ge=1, le=LONGEST_WAIT_MS)]
    profiles: tuple[Profile, ...]
    startup: Literal["proceed", "refuse"]
    modify_capable: bool
    ask_capable: bool
    sequential: bool
    nonce: bool
    agent_name: str | None
    environment: Literal["development", "staging", "production"] | None
    platform: str | None
    platform_version: str | None
