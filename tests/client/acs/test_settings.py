"""What a program says of itself, and where its Guardian is: checked when it is said."""

from __future__ import annotations

from typing import Any

import pytest

from awr.client.acs.address import parse_address
from awr.client.acs.settings import Settings
from awr.errors import InvalidInput
from awr.guardian.envelope import UserContext
from awr.guardian.handshake import WrappedProtocol, read_hello


def test_the_guardian_reads_the_hello_that_the_settings_make() -> None:
    settings = Settings(
        agent_id="a",
        methods=("steps/toolCallRequest",),
        wrapped_protocols=(WrappedProtocol(protocol="MCP", version="2025-06-18"),),
    )
    hello = read_hello(settings.hello(("https", "http")))
    assert hello.transports_supported == ("https", "http")
    assert hello.wrapped_protocols == settings.wrapped_protocols


def test_the_user_is_named_in_the_metadata_and_nothing_that_was_left_out() -> None:
    settings = Settings(agent_id="a", methods=(), user_context=UserContext(user_id="u"))
    assert settings.metadata("s") == {"agent_id": "a", "session_id": "s", "user_context": {"user_id": "u"}}


@pytest.mark.parametrize(
    "wrong",
    [
        {"agent_id": 1},
        {"methods": ("toolCallRequest",)},
        {"methods": "steps/x"},
        {"profiles": ("acs-everything",)},
        {"provenance_producer": "llm"},
        {"startup": "maybe"},
        {"versions": ()},
        {"handshake_timeout_ms": 0},
        {"handshake_timeout_ms": 86_400_001},
        {"environment": "test"},
        {"modify_capable": "yes"},
        {"max_payload_size_bytes": 0},
    ],
)
def test_settings_that_break_the_form_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        Settings(**{"agent_id": "a", "methods": (), **wrong})


def test_a_refusal_says_nothing_of_what_was_set() -> None:
    with pytest.raises(InvalidInput) as caught:
        Settings(agent_id="a", methods=(), startup="hunter2")  # type: ignore[arg-type]
    assert "hunter2" not in str(caught.value.report())


@pytest.mark.parametrize(
    ("url", "secure", "host", "port", "target"),
    [
        ("http://127.0.0.1:8787/acs", False, "127.0.0.1", 8787, "/acs"),
        ("https://guardian.example/acs?tenant=a", True, "guardian.example", 443, "/acs?tenant=a"),
        ("http://[::1]:1", False, "::1", 1, "/"),
    ],
)
def test_an_address_has_its_parts(url: str, secure: bool, host: str, port: int, target: str) -> None:
    address = parse_address(url)
    assert (address.secure, address.host, address.port, address.target) == (secure, host, port, target)
    assert address.transports[0] == ("https" if secure else "http")


@pytest.mark.parametrize(
    "url",
    [
        "",
        "file:///etc/passwd",
        "ftp://host/",
        "http:///acs",
        "http://user:secret@host/",
        "http://host/#part",
        "http://host:99999/",
        "http://host:port/",
        "http://[::1/",
        "http://host/a b",
        "http://höst/",
        "http://host/\r\nX: y",
    ],
)
def test_an_address_that_could_mean_something_else_is_refused(url: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        parse_address(url)
    assert "secret" not in str(caught.value.report())
