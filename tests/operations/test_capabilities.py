"""What a host can ask before it calls."""

from __future__ import annotations

from importlib.metadata import version

import msgspec
import pytest

from awr.errors import CapabilityUnavailable, InvalidInput, ProtocolUnsupported
from awr.journal.migrations import SCHEMA_VERSION
from awr.operations.capabilities import CapabilitiesRequest, capabilities
from awr.operations.registry import OPERATIONS

OFFERED = {
    "client.lifecycle.generic",
    "client.compaction",
    "history.cursor",
    "query.summary",
    "source.read",
    "source.refresh",
    "work.read",
}


def test_the_answer_describes_this_build() -> None:
    result = capabilities(CapabilitiesRequest())
    assert result.protocol == {"name": "awr.host", "version": 1}
    assert result.program["version"] == version("awr")
    assert result.database["schema_version"] == SCHEMA_VERSION
    assert result.transport["exit_codes"] == {"success": 0, "runtime_error": 1, "usage_error": 2}
    assert (result.transport["success_stream"], result.transport["error_stream"]) == ("stdout", "stderr")
    assert [adapter["id"] for adapter in result.source_adapters] == [
        "yaml-ledger-v1",
        "markdown-heading-v1",
        "markdown-rules-v1",
    ]
    assert (result.source_write_performed, result.runtime_write_performed) == (False, False)
    msgspec.json.encode(result)


def test_each_capability_names_the_commands_behind_it_and_no_others() -> None:
    found = {one.id: one.commands for one in capabilities(CapabilitiesRequest()).capabilities}
    assert set(found) >= OFFERED
    assert set(found) == {name for one in OPERATIONS for name in (one.capability, *one.also) if name}
    for name, commands in found.items():
        assert list(commands) == [one.command for one in OPERATIONS if name in {one.capability, *one.also}]
    assert found["workflow.action_guidance"] == ("work prepare",)
    assert "session compaction observe" in found["client.compaction"]


def test_the_compaction_capability_states_its_limits() -> None:
    found = {one.id: one for one in capabilities(CapabilitiesRequest()).capabilities}["client.compaction"]
    assert found.available is True
    assert set(found.limitations) == {"guidance_max_1024_bytes", "host_must_report_measurements"}


def test_what_is_offered_can_be_required() -> None:
    assert capabilities(CapabilitiesRequest(require=tuple(OFFERED))).ok is True


def test_what_is_lacking_is_named_as_unknown_or_as_unsupported() -> None:
    wanted = ("client.compaction", "execution.managed", "no.such", "an.other")
    with pytest.raises(CapabilityUnavailable) as caught:
        capabilities(CapabilitiesRequest(require=wanted))
    assert caught.value.details["unknown"] == ["an.other", "no.such"]
    assert caught.value.details["unsupported"] == ["execution.managed"]


@pytest.mark.parametrize("protocol", [0, 2, 2**31 - 1])
def test_another_protocol_version_is_unsupported(protocol: int) -> None:
    with pytest.raises(ProtocolUnsupported) as caught:
        capabilities(CapabilitiesRequest(protocol_version=protocol))
    assert (caught.value.details["requested"], caught.value.details["supported"]) == (protocol, [1])


@pytest.mark.parametrize("name", ["", "a b", "x" * 129, "a/b", "é", "a\n", "\udcff"])
def test_a_name_out_of_bounds_is_bad_input(name: str) -> None:
    with pytest.raises(InvalidInput):
        capabilities(CapabilitiesRequest(require=(name,)))


def test_at_most_a_hundred_may_be_required() -> None:
    capabilities(CapabilitiesRequest(require=("client.compaction",) * 100))
    with pytest.raises(InvalidInput):
        capabilities(CapabilitiesRequest(require=("client.compaction",) * 101))
