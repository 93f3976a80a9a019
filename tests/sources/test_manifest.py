"""The manifest is strict: every rule has one clear refusal, and what is written parses back."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from awr.domain.work import STATUSES
from awr.errors import AwrError, InvalidInput, NotFound, RuleViolation, Unsupported
from awr.sources.files import MANIFEST_LIMIT
from awr.sources.ledger import MAPPABLE_FIELDS
from awr.sources.manifest import (
    LedgerOptions,
    Manifest,
    MarkdownOptions,
    SourceMapping,
    parse_manifest,
    read_manifest,
    render_manifest,
)

SOURCE = '[[sources]]\ndomain = "ledger"\nrole = "primary"\npath = "work.yaml"\nadapter = "yaml-ledger-v1"\n'
MINIMAL = f'[project]\nname = "demo"\n{SOURCE}'


def parse(text: str) -> Manifest:
    return parse_manifest(text.encode())


def test_minimal_manifest_has_the_documented_defaults() -> None:
    manifest = parse(MINIMAL)
    assert manifest == Manifest(
        name="demo", sources=(SourceMapping(domain="ledger", path="work.yaml", adapter="yaml-ledger-v1"),)
    )
    assert (manifest.authority_mode, manifest.context_profile) == ("source_first", "standard")


def test_full_manifest_is_read() -> None:
    manifest = parse(
        '[project]\nname = "demo"\nexternal_key = "d-1"\nauthority_mode = "source_first"\n'
        'authorized_roots = ["../shared"]\ncontext_profile = "minimal"\n[[sources]]\n'
        'domain = "ledger"\nrole = "supporting"\nlocator = "file:///a/b.yaml"\nadapter = "yaml-ledger-v1"\n'
        '[sources.options.field_map]\ntitle = "headline"\n[sources.options.status_map]\n"Done " = "completed"\n'
        'draft = "planned"\n'
    )
    assert manifest.external_key == "d-1"
    assert manifest.authorized_roots == ("../shared",)
    (source,) = manifest.sources
    assert source.location == "file:///a/b.yaml"
    assert isinstance(source.options, LedgerOptions)
    assert source.options.field_map == {"title": "headline"}
    assert source.options.status_map == {"done": "completed", "draft": "planned"}


def changed(old: str, new: str) -> str:
    assert old in MINIMAL
    return MINIMAL.replace(old, new)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[project]\nname = 'demo'\n",
        SOURCE,
        "project = 5\n" + SOURCE,
        "[project]\nname = 'demo'\nsources = []\n",
        "sources = [1]\n[project]\nname = 'demo'\n",
        changed('name = "demo"', ""),
        changed('name = "demo"', 'name = "  "'),
        changed('name = "demo"', "name = 5"),
        changed('name = "demo"', 'name = "demo"\nextra = 1'),
        changed("[project]", "zebra = 1\n[project]"),
        changed('role = "primary"', 'zebra = "x"'),
        changed('role = "primary"', 'role = "other"'),
        changed('domain = "ledger"', 'domain = "other"'),
        changed('domain = "ledger"\n', ""),
        changed('path = "work.yaml"\n', ""),
        changed('path = "work.yaml"', 'path = "work.yaml"\nlocator = "file:///x"'),
        changed('path = "work.yaml"', 'path = ""'),
        changed('path = "work.yaml"', 'path = "."'),
        changed('adapter = "yaml-ledger-v1"\n', ""),
        changed('name = "demo"', 'name = "demo"\ncontext_profile = "huge"'),
        changed('name = "demo"', 'name = "demo"\nauthorized_roots = "x"'),
        changed('name = "demo"', 'name = "demo"\nauthorized_roots = [5]'),
        MINIMAL + SOURCE,
        MINIMAL + SOURCE.replace("work.yaml", "./work.yaml"),
        MINIMAL + "options = 5\n",
        MINIMAL + "[sources.options]\nzebra = 1\n",
        MINIMAL + '[sources.options.field_map]\nzebra = "x"\n',
        MINIMAL + "[sources.options.field_map]\ntitle = 1\n",
        MINIMAL + '[sources.options.field_map]\ntitle = " "\n',
        MINIMAL + '[sources.options.status_map]\ndone = "finished"\n',
        MINIMAL + '[sources.options.status_map]\nplanned = "completed"\n',
        MINIMAL + '[sources.options.status_map]\n" COMPLETED" = "planned"\n',
        MINIMAL + '[sources.options.status_map]\ndone = "completed"\n"Done" = "planned"\n',
        MINIMAL + "[sources.options.status_map]\n" + "".join(f's{n} = "planned"\n' for n in range(129)),
    ],
)
def test_broken_rule_is_invalid_input_with_a_next_step(text: str) -> None:
    with pytest.raises(InvalidInput) as raised:
        parse(text)
    assert {"got", "expected", "next_step"} <= raised.value.details.keys()
    assert "zebra" not in json.dumps(raised.value.report())


def test_status_map_may_have_128_spellings() -> None:
    text = MINIMAL + "[sources.options.status_map]\n" + "".join(f's{n} = "planned"\n' for n in range(128))
    options = parse(text).sources[0].options
    assert isinstance(options, LedgerOptions)
    assert len(options.status_map) == 128


def test_one_file_may_serve_two_domains() -> None:
    assert len(parse(MINIMAL + SOURCE.replace('"ledger"', '"goal"')).sources) == 2


def markdown(domain: str, adapter: str, options: str = "") -> str:
    lines = f'[[sources]]\ndomain = "{domain}"\npath = "a.md"\nadapter = "{adapter}"\n'
    return f'[project]\nname = "demo"\n{lines}{options and "[sources.options]" + chr(10) + options}'


@pytest.mark.parametrize(
    ("domain", "adapter", "options"),
    [
        ("goal", "markdown-heading-v1", {"key_prefix": "g", "status": "active", "priority": "high"}),
        ("plan", "markdown-heading-v1", {"key_prefix": "p", "status": "active"}),
        ("rules", "markdown-rules-v1", {"severity": "hard", "scope": "path", "value": "src/"}),
    ],
)
def test_markdown_options_are_read_and_written_back(domain: str, adapter: str, options: dict[str, str]) -> None:
    text = markdown(domain, adapter, "".join(f'{name} = "{value}"\n' for name, value in options.items()))
    manifest = parse(text)
    assert manifest.sources[0].options == MarkdownOptions(**options)  # type: ignore[arg-type]
    assert parse(render_manifest(manifest)) == manifest
    assert parse(markdown(domain, adapter)).sources[0].options == MarkdownOptions()


@pytest.mark.parametrize(
    ("domain", "adapter", "options"),
    [
        ("goal", "markdown-heading-v1", 'severity = "hard"\n'),
        ("plan", "markdown-heading-v1", 'priority = "high"\n'),
        ("rules", "markdown-rules-v1", 'status = "active"\n'),
        ("rules", "markdown-rules-v1", 'severity = "zebra"\n'),
        ("rules", "markdown-rules-v1", 'scope = "zebra"\n'),
        ("rules", "markdown-rules-v1", 'value = " "\n'),
        ("goal", "markdown-heading-v1", "key_prefix = 5\n"),
        ("goal", "yaml-ledger-v1", 'status = "active"\n'),
    ],
)
def test_an_option_of_another_adapter_or_with_a_bad_value_is_refused(domain: str, adapter: str, options: str) -> None:
    with pytest.raises(InvalidInput) as raised:
        parse(markdown(domain, adapter, options))
    assert "zebra" not in json.dumps(raised.value.report())


@pytest.mark.parametrize(
    ("domain", "adapter"),
    [
        ("rules", "yaml-ledger-v1"),
        ("rules", "markdown-heading-v1"),
        ("goal", "markdown-rules-v1"),
        ("decisions", "markdown-directory-v1"),
        ("decisions", "yaml-ledger-v1"),
    ],
)
def test_a_domain_takes_only_its_own_adapters(domain: str, adapter: str) -> None:
    with pytest.raises(Unsupported):
        parse(markdown(domain, adapter))


@pytest.mark.parametrize(
    "adapter",
    ["markdown-ledger-v1", "markdown-heading-v1", "markdown-rules-v1", "markdown-directory-v1", "zebra-v9"],
)
def test_other_adapters_are_unsupported(adapter: str) -> None:
    with pytest.raises(Unsupported) as raised:
        parse(changed("yaml-ledger-v1", adapter))
    assert "yaml-ledger-v1" in str(raised.value.details["next_step"])
    assert "zebra" not in json.dumps(raised.value.report())


def test_other_authority_mode_is_unsupported() -> None:
    with pytest.raises(Unsupported):
        parse(changed('name = "demo"', 'name = "demo"\nauthority_mode = "database_first"'))


@pytest.mark.parametrize("path", ["../work.yaml", "a/../../b.yaml", "/etc/work.yaml"])
def test_path_outside_the_project_is_refused(path: str) -> None:
    with pytest.raises(RuleViolation):
        parse(changed("work.yaml", path))


@pytest.mark.parametrize("root", ["/srv", "..", "../..", ".", "a/..", "file:///srv"])
def test_authorized_root_that_is_absolute_or_holds_the_project_is_refused(root: str) -> None:
    with pytest.raises(RuleViolation):
        parse(changed('name = "demo"', f'name = "demo"\nauthorized_roots = ["{root}"]'))


@pytest.mark.parametrize(
    ("text", "line", "column"),
    [
        ("[project]\nname = zebra\n", 2, 8),
        ('[project]\nname = "zebra', 2, 14),
        ('[project]\nname = "a"\nname = "zebra"\n', 3, 15),
        ("x = " + "9" * 5000, 1, 5005),
    ],
)
def test_toml_syntax_error_has_its_place_and_no_content(text: str, line: int, column: int) -> None:
    with pytest.raises(InvalidInput) as raised:
        parse(text)
    assert raised.value.details["location"] == {
        "locator": ".awr/project.toml",
        "pointer": "",
        "line": line,
        "column": column,
    }
    assert "zebra" not in json.dumps(raised.value.report())


def test_deep_nesting_is_invalid_and_no_crash() -> None:
    with pytest.raises(InvalidInput):
        parse("x = " + "[" * 30_000)


def test_cap_of_64_kib_is_inclusive() -> None:
    padding = "#" * (MANIFEST_LIMIT - len(MINIMAL))
    assert parse(MINIMAL + padding).name == "demo"
    with pytest.raises(InvalidInput):
        parse(MINIMAL + padding + "#")


def test_secret_in_the_manifest_is_refused() -> None:
    with pytest.raises(RuleViolation) as raised:
        parse(MINIMAL + "# password: hunter2\n")
    assert "hunter2" not in json.dumps(raised.value.report())


@given(st.binary(max_size=300))
def test_any_bytes_give_a_manifest_or_one_of_our_errors(data: bytes) -> None:
    with pytest.raises(AwrError):
        parse_manifest(data)


names = st.text(
    st.characters(exclude_categories=("Cc", "Cs", "Zl", "Zp", "Cf", "Cn", "Co", "Zs")), min_size=1, max_size=20
)
paths = st.from_regex(r"[a-z]{1,5}(/[a-z]{1,5}){0,2}\.yaml", fullmatch=True)
manifests = st.builds(
    Manifest,
    name=names,
    external_key=st.none() | names,
    authorized_roots=st.lists(paths, max_size=2).map(tuple),
    context_profile=st.sampled_from(("standard", "minimal")),
    sources=st.lists(
        st.builds(
            SourceMapping,
            domain=st.sampled_from(("goal", "ledger")),
            role=st.sampled_from(("primary", "supporting")),
            path=paths,
            adapter=st.just("yaml-ledger-v1"),
            options=st.builds(
                LedgerOptions,
                field_map=st.dictionaries(st.sampled_from(sorted(MAPPABLE_FIELDS)), names, max_size=3),
                status_map=st.dictionaries(
                    st.from_regex(r"x[a-z \"\\]{0,6}y", fullmatch=True), st.sampled_from(sorted(STATUSES)), max_size=3
                ),
            ),
        ),
        min_size=1,
        max_size=3,
        unique_by=lambda source: (source.domain, source.path),
    ).map(tuple),
)


@given(manifests)
def test_rendered_manifest_parses_back_and_is_stable(manifest: Manifest) -> None:
    text = render_manifest(manifest)
    assert parse(text) == manifest
    assert render_manifest(parse(text)) == text


def test_locator_survives_rendering() -> None:
    manifest = Manifest(
        name='a "b" \\ c',
        sources=(SourceMapping(domain="ledger", adapter="yaml-ledger-v1", locator="file:///a/b.yaml"),),
    )
    assert parse(render_manifest(manifest)) == manifest


def test_own_manifest_is_read_from_its_folder(tmp_path: Path) -> None:
    (tmp_path / ".awr").mkdir()
    (tmp_path / ".awr" / "project.toml").write_text(MINIMAL)
    assert read_manifest(tmp_path / ".awr" / "project.toml").name == "demo"


def test_missing_manifest_is_not_found_and_says_what_to_run(tmp_path: Path) -> None:
    with pytest.raises(NotFound) as raised:
        read_manifest(tmp_path / ".awr" / "project.toml")
    assert "awr init" in str(raised.value.details["next_step"])
    with pytest.raises(NotFound):
        read_manifest(tmp_path / "mine.toml")


def test_linked_awr_folder_or_manifest_is_refused(tmp_path: Path) -> None:
    real = tmp_path / "real"
    real.mkdir()
    (real / "project.toml").write_text(MINIMAL)
    (tmp_path / ".awr").symlink_to(real)
    (tmp_path / "mine.toml").symlink_to(real / "project.toml")
    for path in (tmp_path / ".awr" / "project.toml", tmp_path / "mine.toml"):
        with pytest.raises(RuleViolation):
            read_manifest(path)


def test_directory_or_too_many_bytes_as_a_manifest_are_invalid(tmp_path: Path) -> None:
    (tmp_path / "folder.toml").mkdir()
    (tmp_path / "big.toml").write_bytes(b"#" * (65 * 1024))
    for name in ("folder.toml", "big.toml"):
        with pytest.raises(InvalidInput):
            read_manifest(tmp_path / name)
