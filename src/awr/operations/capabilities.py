"""What this build can do, for a host that decides before it calls. Nothing is opened for it."""

from __future__ import annotations

import os
import platform
import re
import sys
from importlib.metadata import version
from typing import Annotated, Any, Literal

import msgspec

from awr.domain.card import MAX_CARD_BYTES
from awr.errors import CapabilityUnavailable, InvalidInput, ProtocolUnsupported
from awr.journal.migrations import SCHEMA_VERSION
from awr.operations.fields import described
from awr.operations.registry import OPERATIONS
from awr.sources.manifest import ADAPTERS

__all__ = ["CapabilitiesRequest", "CapabilitiesResult", "Capability", "capabilities"]

PROTOCOL_VERSION = 1
MAX_REQUIREMENTS = 100
_ID = re.compile(r"[A-Za-z0-9._-]{1,128}")
_LIMITATIONS = {
    "client.compaction": (f"guidance_max_{MAX_CARD_BYTES}_bytes", "host_must_report_measurements"),
    "client.lifecycle.generic": ("command_line_only", "host_must_call"),
    "workflow.action_guidance": (f"guidance_max_{MAX_CARD_BYTES}_bytes",),
    "query.summary": ("main_branch_only",),
    "source.read": ("yaml_ledgers_and_markdown_headings",),
    "source.refresh": ("yaml_ledgers_and_markdown_headings",),
}
#: Ids that hosts of the wider AWR family may ask for and this build does not offer.
_KNOWN_ELSEWHERE = frozenset(
    {
        "artifact.managed",
        "assessment.advice_mode",
        "assessment.explain",
        "assessment.replay",
        "assessment.shadow_compare",
        "completion.user_confirmation",
        "execution.managed",
        "intake.exact_preview",
        "intake.reviewed_draft",
        "intake.semantic_preflight",
        "mutation.ai_apply",
        "mutation.batch.ledger",
        "mutation.decision.adopt",
        "mutation.human_save",
        "mutation.markdown",
        "mutation.markdown.document",
        "mutation.multi_file",
        "mutation.work.archive",
        "object.read",
        "organization.mapped_metadata",
        "project.catalog",
        "query.coherent_snapshot",
        "runtime.matched_snapshot",
        "source.changes",
        "source.configure",
        "source.relocate",
    }
)


class CapabilitiesRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    protocol_version: Annotated[
        int, msgspec.Meta(ge=0, le=2**31 - 1, description="The host protocol version you speak.")
    ] = PROTOCOL_VERSION
    require: Annotated[tuple[str, ...], described("A capability you cannot do without; may be repeated.")] = ()


class Capability(msgspec.Struct, frozen=True):
    """One negotiable ability and the commands behind it."""

    id: str
    available: bool
    commands: tuple[str, ...]
    limitations: tuple[str, ...]


class CapabilitiesResult(msgspec.Struct, frozen=True, kw_only=True):
    ok: Literal[True] = True
    protocol: dict[str, Any]
    program: dict[str, Any]
    database: dict[str, Any]
    source_adapters: tuple[dict[str, Any], ...]
    capabilities: tuple[Capability, ...]
    transport: dict[str, Any]
    source_write_performed: Literal[False] = False
    runtime_write_performed: Literal[False] = False
    scope: Literal["build_capabilities_not_project_authorization"] = "build_capabilities_not_project_authorization"


def capabilities(request: CapabilitiesRequest) -> CapabilitiesResult:
    """Describe this build. Raise ProtocolUnsupported, CapabilityUnavailable or InvalidInput."""
    if request.protocol_version != PROTOCOL_VERSION:
        raise ProtocolUnsupported(
            "this build does not speak that host protocol version",
            requested=request.protocol_version,
            supported=[PROTOCOL_VERSION],
            next_step=f"ask with protocol version {PROTOCOL_VERSION}",
        )
    offered = _offered()
    _require(request.require, {capability.id for capability in offered})
    return CapabilitiesResult(
        protocol={"name": "awr.host", "version": PROTOCOL_VERSION},
        program={"name": "awr", "version": version("awr"), "os": sys.platform, "arch": platform.machine()},
        database={
            "schema_version": SCHEMA_VERSION,
            "read_only_schema_versions": [SCHEMA_VERSION],
            "migrate_from_schema_versions": list(range(1, SCHEMA_VERSION)),
            "newer_schema_policy": "reject_without_migration",
            "schema_validation_required": True,
        },
        source_adapters=tuple(
            {"id": adapter, "read": True, "write_mode": "none", "lossless_field_write": False} for adapter in ADAPTERS
        ),
        capabilities=offered,
        transport={
            "invocation": "argv",
            "json_flag": "--json",
            "success_stream": "stdout",
            "error_stream": "stderr",
            "exit_codes": {"success": 0, "runtime_error": 1, "usage_error": 2},
            "partial_result_policy": "stdout_and_stderr",
            "timeout_policy": "outcome_unknown",
            "path_separator": os.sep,
        },
    )


def _offered() -> tuple[Capability, ...]:
    commands: dict[str, list[str]] = {}
    for operation in OPERATIONS:
        for name in (operation.capability, *operation.also):
            if name is not None:
                commands.setdefault(name, []).append(operation.command)
    return tuple(
        Capability(id=name, available=True, commands=tuple(commands[name]), limitations=_LIMITATIONS.get(name, ()))
        for name in sorted(commands)
    )


def _require(wanted: tuple[str, ...], offered: set[str]) -> None:
    if len(wanted) > MAX_REQUIREMENTS or not all(_ID.fullmatch(name) for name in wanted):
        raise InvalidInput(
            "the required capabilities break their bounds",
            got=f"{len(wanted)} names",
            expected=f"up to {MAX_REQUIREMENTS} names of 1 to 128 letters, digits, dots, underscores and hyphens",
            next_step="take the ids from awr capabilities",
        )
    missing = set(wanted) - offered
    if missing:
        raise CapabilityUnavailable(
            "this build lacks a capability that was required",
            unknown=sorted(missing - _KNOWN_ELSEWHERE),
            unsupported=sorted(missing & _KNOWN_ELSEWHERE),
            expected="ids that awr capabilities lists",
            next_step="do without it, or use a build that has it",
        )
