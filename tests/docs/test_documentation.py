"""The documentation is true: its examples run, its tables are complete, its links lead somewhere."""

from __future__ import annotations

import importlib.util
import inspect
import io
import json
import re
import tomllib
from pathlib import Path
from types import ModuleType
from typing import get_args

import click
import pytest

from awr import errors
from awr.client import Workflow
from awr.client import state as workflow_state
from awr.client.workflow_cli import parser
from awr.domain.compaction import State
from awr.domain.events import EVENT_TYPES
from awr.domain.report import FLAG_RULES
from awr.domain.work import STATUSES, DiagnosticCode
from awr.guardian.handshake import SKEW_WINDOW_MS
from awr.guardian.hooks import HOOKS, Disposition
from awr.guardian.policies.facts import CallFacts, FoldFacts, StepFacts
from awr.guardian.policies.folder import MAX_FILE_BYTES, MAX_FILES, MAX_POLICY_BYTES
from awr.guardian.policies.packs import BUILT_IN
from awr.guardian.policies.packs import Manifest as PackManifest
from awr.guardian.policies.rules import MAX_RULES
from awr.guardian.policies.tables import MAX_CASES, Case
from awr.guardian.reading import MAX_BODY_BYTES, MAX_DEPTH
from awr.guardian.refusals import Code
from awr.guardian.trust_file import parse_trust
from awr.hosts.observation import Reason
from awr.operations.registry import OPERATIONS
from awr.sources.ledger import parse_ledger
from awr.sources.manifest import parse_manifest
from awr.surfaces.acs.notices import Notices
from awr.surfaces.cli.app import program
from awr.surfaces.cli.commands import OperationCommand
from awr.surfaces.http.log import Log
from awr.surfaces.http.metrics import BUCKETS, Metrics
from awr.surfaces.http.registry import ClientTable, ProjectTable, RegistryFile, read_registry
from awr.surfaces.http.watch import Exchange, Watch
from awr.surfaces.mcp.catalogue import TOOLS
from tests.docs.console import ROOT, normalized, pages, rendered

DOCS = ROOT / "docs"
REFERENCE = DOCS / "reference"


def named(path: Path) -> str:
    return str(path.relative_to(ROOT))


def blocks(language: str) -> list[tuple[str, str]]:
    pattern = re.compile(rf"^```{language}\n(.*?)^```$", re.MULTILINE | re.DOTALL)
    return [(named(page), found) for page in pages() for found in pattern.findall(page.read_text())]


def generator() -> ModuleType:
    specification = importlib.util.spec_from_file_location("generate", DOCS / "generate.py")
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


EXAMPLES = re.compile("^```(console|python)$", re.MULTILINE)


@pytest.mark.parametrize("page", [page for page in pages() if EXAMPLES.search(page.read_text())], ids=named)
def test_the_examples_of_a_page_print_what_it_shows(page: Path) -> None:
    text = page.read_text()
    assert normalized(rendered(text)) == normalized(text), "run `make docs` and look at the difference"


def test_the_command_reference_is_the_list_of_operations() -> None:
    assert (REFERENCE / "commands.md").read_text() == generator().page()


def test_the_tool_reference_is_the_list_of_operations() -> None:
    text = (REFERENCE / "tools.md").read_text()
    assert text == generator().tools_page()
    assert all(f"\n### {name}\n" in text for name in TOOLS)


def test_the_reference_of_policies_is_the_packs_and_the_facts() -> None:
    text = (REFERENCE / "policies.md").read_text()
    assert text == generator().policies_page()
    for kind in (FoldFacts, CallFacts, StepFacts):
        assert [name for name in kind.__struct_fields__ if f"\n| `{name}` | " not in text] == []
    assert [name for name in BUILT_IN if f"\n### {name}\n" not in text] == []
    assert [key for key in PackManifest.__struct_fields__ if f"\n| `{key}` | " not in text] == []
    assert [key for key in Case.__struct_fields__ if f"\n| `{key}` | " not in text] == []
    assert f"{MAX_FILES} files, {MAX_FILE_BYTES // 1024} KiB each, {MAX_POLICY_BYTES // 1024**2} MiB" in text
    assert f"{MAX_RULES} rules together" in text
    assert f"{MAX_CASES:,} rows" in text


def test_every_command_and_option_is_documented() -> None:
    text = (REFERENCE / "commands.md").read_text()

    def walk(group: click.Group, words: str) -> None:
        for name in group.list_commands(click.Context(group)):
            command = group.get_command(click.Context(group), name)
            assert command is not None
            if isinstance(command, click.Group):
                walk(command, f"{words} {name}")
            if isinstance(command, click.Group) and not isinstance(command, OperationCommand):
                continue
            start = text.index(f"\n## {words} {name}\n")
            section = text[start : text.find("\n## ", start + 1)]
            for parameter in command.get_params(click.Context(command)):
                everywhere = parameter.name in {"project", "json"} or "--help" in parameter.opts
                if isinstance(parameter, click.Option) and not everywhere:
                    assert f"`{parameter.opts[-1]}" in section, f"{words} {name}: {parameter.opts[-1]}"

    walk(program(), "awr")


def test_the_guardians_page_has_its_hooks_and_what_may_be_answered_to_each() -> None:
    text = (REFERENCE / "guardian.md").read_text()
    order = get_args(Disposition)
    for method, hook in HOOKS.items():
        answers = ", ".join(answer for answer in order if answer in hook.permits)
        assert f"| `{method}` | {answers} |\n" in text


def test_the_guardians_page_names_every_code_reason_and_finding() -> None:
    text = (REFERENCE / "guardian.md").read_text()
    source = "".join(path.read_text() for path in (ROOT / "src/awr/guardian").glob("*.py"))
    source += "".join(path.read_text() for path in (ROOT / "src/awr/surfaces/acs").glob("*.py"))
    named = set(re.findall(r'reason="(\w+)"', source))
    named |= set(
        re.findall(r'(?:denied|instead|_own|_invalid|with_code|append|_not_negotiated)\((?:\w+, )?"(\w+)"', source)
    )
    assert {"replay_detected", "signature_missing", "key_not_bound", "intent_change_ignored"} <= named
    assert sorted(name for name in named if f"`{name}`" not in text) == []
    codes = {int(code) for code in Code} - {Code.CHAIN_MISMATCH}
    assert [code for code in codes if f"`{code}`" not in text] == []
    assert f"{SKEW_WINDOW_MS:,} ms" in text
    assert f"{MAX_BODY_BYTES:,} bytes and {MAX_DEPTH} arrays" in text


def test_every_operation_has_a_capability_or_a_name_in_the_reference() -> None:
    text = (REFERENCE / "commands.md").read_text()
    for operation in OPERATIONS:
        assert f"Operation `{operation.name}`" in text
        assert operation.capability is None or f"capability `{operation.capability}`" in text


@pytest.mark.parametrize(
    ("page", "names"),
    [
        ("events.md", sorted(EVENT_TYPES)),
        ("report.md", sorted(FLAG_RULES)),
        ("compaction.md", [*get_args(State), *get_args(Reason)]),
        ("errors.md", [name for name in errors.__all__ if name[0].isupper()]),
        ("errors.md", list(get_args(DiagnosticCode))),
    ],
)
def test_a_reference_page_names_everything_of_its_kind(page: str, names: list[str]) -> None:
    text = (REFERENCE / page).read_text()
    assert [name for name in names if f"`{name}`" not in text] == []


def test_the_flag_rules_in_the_reference_are_those_of_the_code() -> None:
    text = (REFERENCE / "report.md").read_text()
    for name, rule in FLAG_RULES.items():
        assert f"| `{name}` | {rule} |" in text


def test_every_status_of_a_ledger_is_named_in_its_page() -> None:
    text = (DOCS / "how-to" / "write-a-ledger.md").read_text()
    assert [status for status in STATUSES if status not in text] == []


def test_every_environment_variable_that_is_read_is_documented() -> None:
    pattern = re.compile(r"[\"']((?:AWR|CLAUDE|CODEX|XDG)_[A-Z_]+|HOME)[\"']")
    # The detector of secrets names variables that it looks for in texts; it reads none.
    read = [path for path in (ROOT / "src").rglob("*.py") if path.name != "secrets.py"]
    used = {name for path in read for name in pattern.findall(path.read_text())}
    text = (REFERENCE / "settings.md").read_text()
    assert used
    assert [name for name in used if f"`{name}`" not in text] == []


def test_every_key_of_the_manifest_is_documented() -> None:
    text = (REFERENCE / "settings.md").read_text()
    from awr.sources.manifest import LedgerOptions, Manifest, SourceMapping

    keys = [f"project.{name}" for name in Manifest.__struct_fields__ if name != "sources"]
    keys += [f"sources[].{name}" for name in SourceMapping.__struct_fields__ if name != "options"]
    keys += [f"sources[].options.{name}" for name in LedgerOptions.__struct_fields__]
    assert [key for key in keys if f"`{key}`" not in text] == []


def test_every_key_metric_and_log_field_of_the_service_is_documented() -> None:
    text = (REFERENCE / "service.md").read_text()
    names = [name for name in RegistryFile.__struct_fields__ if name not in {"projects", "clients"}]
    names += [f"projects[].{name}" for name in ProjectTable.__struct_fields__]
    names += [f"clients[].{name}" for name in ClientTable.__struct_fields__]
    names += re.findall(r"^# TYPE (\w+)", Metrics().text(), re.MULTILINE)
    stream = io.StringIO()
    Watch(Log(stream)).done(Exchange(), "ok")
    names += json.loads(stream.getvalue())
    stream.truncate(stream.seek(0))
    Notices(Log(stream)).early("disconnected")
    names += json.loads(stream.getvalue())
    assert [name for name in names if f"`{name}`" not in text] == []
    assert ", ".join(f"{bound:g}" for bound in BUCKETS[:-1]) + f" and {BUCKETS[-1]:g} seconds" in text


@pytest.mark.parametrize(("page", "text"), blocks("yaml"))
def test_a_ledger_in_the_documentation_parses(page: str, text: str) -> None:
    assert parse_ledger(text.encode(), locator=page).warnings == ()


#: The test of the page about connecting an agent holds a host's own file against the host.
OURS = [(page, text) for page, text in blocks("toml") if "mcp_servers" not in text]


@pytest.mark.parametrize(("page", "text"), OURS)
def test_a_manifest_a_registry_or_a_trust_map_in_the_documentation_parses(
    page: str, text: str, tmp_path: Path
) -> None:
    found = tomllib.loads(text)
    if "clients" in found:
        (tmp_path / "service.toml").write_text(text)
        assert read_registry(tmp_path / "service.toml").clients
    elif "rule" in found:
        assert parse_trust(text.encode()).rules
    else:
        assert parse_manifest(text.encode()).sources


@pytest.mark.parametrize(("page", "text"), blocks("json"))
def test_json_in_the_documentation_parses(page: str, text: str) -> None:
    assert json.loads(text)


def test_every_relative_link_leads_to_a_file() -> None:
    broken = []
    for page in [*pages(), ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"]:
        for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text()):
            if "://" not in target and not (page.parent / target).exists():
                broken.append(f"{named(page)}: {target}")
    assert broken == []


def test_contributing_fits_on_two_pages() -> None:
    assert len((ROOT / "CONTRIBUTING.md").read_text().split()) < 900


def test_no_page_names_a_folder_of_one_machine() -> None:
    pattern = re.compile(r"(?<![\w.~-])/(?:root|work|farm|tmp)/")
    assert [named(page) for page in pages() if pattern.search(page.read_text())] == []


def test_the_examples_transcript_is_the_one_the_demo_plays() -> None:
    bundled = ROOT / "src" / "awr" / "surfaces" / "cli" / "demo_transcript.jsonl"
    assert (DOCS / "examples" / "claude-session.jsonl").read_bytes() == bundled.read_bytes()


def test_every_call_and_subcommand_of_the_workflow_is_documented_as_it_is() -> None:
    text = (REFERENCE / "workflow.md").read_text()
    methods = {name: value for name, value in vars(Workflow).items() if name[0] != "_"}
    for name, method in methods.items():
        parameters = list(inspect.signature(method).parameters.values())[1:]
        told = ", ".join(
            one.name if one.default is one.empty else f"{one.name}={json.dumps(one.default)}" for one in parameters
        )
        told = told.replace("null", "None").replace("false", "False").replace("[]", "()")
        assert f"| `{name}({told})` | `" in text, f"{name}({told})"
    [commands] = [action.choices for action in parser()._actions if isinstance(action.choices, dict)]
    assert [name for name in commands if f" | `{name}` | " not in text] == []
    assert len(commands) == len(methods)
    assert [name for name in workflow_state.State.__struct_fields__ if f"`{name}`" not in text] == []
    assert [name for name in get_args(workflow_state.Phase) if f"| `{name}` |" not in text] == []
