"""The handshake: what a client offers, what is agreed, and why a session is refused before it begins."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

from awr.guardian.envelope import ACS_VERSION, Method, Version, place_of
from awr.guardian.hooks import ALL_WRAPPED, hook_of
from awr.guardian.refusals import Code, Refusal
from awr.guardian.signature import ALGORITHMS

__all__ = [
    "SKEW_WINDOW_MS",
    "ClientHello",
    "Posture",
    "ServerHello",
    "Transport",
    "agree",
    "read_hello",
    "same_major",
]

Transport = Literal["http", "https", "stdio"]
Posture = Literal["proceed", "deny"]
Profile = Literal[
    "acs-core", "acs-trace", "acs-inspect", "acs-inspect-dynamic", "acs-provenance", "acs-crypto", "acs-audit"
]

#: How far a request's time may be from ours, in milliseconds (specification, section 10.3).
SKEW_WINDOW_MS = 300_000
#: How long a client waits for an answer before its own posture decides, in milliseconds.
TIMEOUT_MS = 5_000
#: What this Guardian does of each session that asks for it. docs/conformance.md has the tests behind it.
PROFILES: tuple[Profile, ...] = ("acs-core", "acs-audit")

Unset = msgspec.UnsetType


class WrappedProtocol(msgspec.Struct, frozen=True, kw_only=True):
    """A protocol whose messages the client wraps."""

    protocol: str
    version: str


class ClientHello(msgspec.Struct, frozen=True, kw_only=True):
    """What a client offers."""

    acs_versions_supported: Annotated[tuple[Version, ...], msgspec.Meta(min_length=1)]
    methods_implemented: tuple[Method, ...]
    transports_supported: Annotated[tuple[Transport, ...], msgspec.Meta(min_length=1)]
    provenance_producer: Literal["deterministic", "none"]
    max_payload_size_bytes: Annotated[int, msgspec.Meta(ge=1)] | Unset = msgspec.UNSET
    wrapped_protocols: tuple[WrappedProtocol, ...] | Unset = msgspec.UNSET
    profiles_supported: tuple[str, ...] | Unset = msgspec.UNSET


class TimeoutConfig(msgspec.Struct, frozen=True, kw_only=True):
    """How long a client waits."""

    default_ms: Annotated[int, msgspec.Meta(ge=1)]
    per_method_ms: dict[str, Annotated[int, msgspec.Meta(ge=1)]] | Unset = msgspec.UNSET


class TraceEmission(msgspec.Struct, frozen=True, kw_only=True):
    """Which events of the Trace pillar a Guardian emits."""

    otel_enabled: bool
    ocsf_enabled: bool
    otel_collector_endpoint: str | Unset = msgspec.UNSET


class ServerHello(msgspec.Struct, frozen=True, kw_only=True):
    """What is agreed. It stands directly in `result`."""

    negotiated_version: Version
    methods_evaluated: tuple[str, ...]
    selected_transport: Transport
    timeout_config: TimeoutConfig
    signature_algorithms_supported: tuple[str, ...] | Unset = msgspec.UNSET
    skew_window_ms: Annotated[int, msgspec.Meta(ge=0)] = SKEW_WINDOW_MS
    on_decision_failure: Posture = "proceed"
    approver_types_supported: tuple[str, ...] | Unset = msgspec.UNSET
    policy_requires_provenance: bool | Unset = msgspec.UNSET
    agbom_serializations_supported: tuple[str, ...] | Unset = msgspec.UNSET
    trace_emission: TraceEmission | Unset = msgspec.UNSET
    profiles_accepted: tuple[str, ...] | Unset = msgspec.UNSET


def read_hello(payload: dict[str, Any]) -> ClientHello:
    """Return a client's offer. Raise Refusal INVALID_PARAMS naming the place."""
    try:
        return msgspec.convert(payload, ClientHello)
    except msgspec.ValidationError as error:
        raise Refusal(
            Code.INVALID_PARAMS, reason="invalid_payload", message=f"this is no ClientHello: {place_of(error)}"
        ) from None


def agree(
    hello: ClientHello, *, transports: tuple[Transport, ...], posture: Posture, requires_provenance: bool
) -> ServerHello:
    """Return what both sides can do. Raise Refusal: first for the version, then the transport, then provenance.

    The selection rule is the intersection, in the client's order; the standard leaves it open.
    """
    if not any(map(same_major, hello.acs_versions_supported)):
        raise unsupported_version("no version that the client offers has the major version of this Guardian's")
    transport = next((offered for offered in hello.transports_supported if offered in transports), None)
    if transport is None:
        raise Refusal(
            Code.SESSION_REFUSED,
            reason="no_common_transport",
            message="the client offers no transport that this door has: " + ", ".join(transports),
        )
    if requires_provenance and hello.provenance_producer == "none":
        raise Refusal(
            Code.PROVENANCE_REQUIRED,
            reason="provenance_required",
            message="the policy needs provenance, and the client produces none",
        )
    offered = dict.fromkeys(hello.methods_implemented)
    return ServerHello(
        negotiated_version=ACS_VERSION,
        methods_evaluated=tuple(
            name for name in offered if name in {"system/ping", ALL_WRAPPED} or hook_of(name) is not None
        ),
        selected_transport=transport,
        timeout_config=TimeoutConfig(default_ms=TIMEOUT_MS),
        signature_algorithms_supported=tuple(ALGORITHMS),
        skew_window_ms=SKEW_WINDOW_MS,
        on_decision_failure=posture,
        approver_types_supported=(),
        policy_requires_provenance=requires_provenance,
        agbom_serializations_supported=(),
        trace_emission=TraceEmission(otel_enabled=False, ocsf_enabled=False),
        profiles_accepted=tuple(name for name in hello.profiles_supported or () if name in PROFILES),
    )


def same_major(version: str) -> bool:
    """Tell whether a version of the wire is understood: X.Y.Z of the same major (specification, section 3)."""
    return version.partition(".")[0].lstrip("0") == ACS_VERSION.partition(".")[0].lstrip("0")


def unsupported_version(message: str) -> Refusal:
    """Return the refusal of another major version."""
    return Refusal(
        Code.UNSUPPORTED_VERSION,
        reason="unsupported_version",
        message=message,
        supported_versions=[ACS_VERSION],
    )
