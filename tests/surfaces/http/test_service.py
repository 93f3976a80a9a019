"""The registry: what it may say, and what is said when it says something else. No value of it is ever repeated."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest

from awr.errors import AwrError
from awr.project import Project
from awr.surfaces.http.registry import REGISTRY_LIMIT
from awr.surfaces.http.service import Service, load_service
from tests.support.projects import make_project
from tests.support.service import identity, registry_text, token_of

SECRET = "s3cretv4lue-that-nobody-may-see-again"
TOKENS = {"TOKEN_ada": token_of("ada"), "TOKEN_bob": token_of("bob")}
GRANTS: dict[str, dict[str, list[str]]] = {"ada": {"write": ["alpha"], "read": ["beta"]}, "bob": {"read": ["beta"]}}


@pytest.fixture
def projects(tmp_path: Path) -> dict[str, Project]:
    return {key: make_project(tmp_path / key) for key in ("alpha", "beta")}


def loaded(tmp_path: Path, text: str, *, tokens: dict[str, str] | None = None) -> Service:
    path = tmp_path / "service.toml"
    path.write_text(text)
    return load_service(path, environment=TOKENS if tokens is None else tokens)


def refused(tmp_path: Path, text: str, code: str, *, tokens: dict[str, str] | None = None) -> dict[str, Any]:
    """Return the details of the refusal, in which nothing of the registry's own values stands."""
    with pytest.raises(AwrError) as found:
        loaded(tmp_path, text, tokens=tokens)
    report = found.value.report()
    assert report["code"] == code, report
    details = report["details"]
    assert isinstance(details, dict)
    assert {"got", "expected", "next_step"} <= details.keys(), report
    assert SECRET not in str(report)
    assert str(tmp_path) not in str(report)
    assert all(token not in str(report) for token in (TOKENS if tokens is None else tokens).values() if token)
    return details


def test_a_registry_says_who_may_do_what(tmp_path: Path, projects: dict[str, Project]) -> None:
    service = loaded(tmp_path, registry_text(projects, GRANTS))
    assert list(service.projects) == ["alpha", "beta"]
    assert service.projects["alpha"].project_id == identity(projects["alpha"])
    ada, bob = service.clients
    assert (ada.access, bob.access) == ({"beta": "read", "alpha": "write"}, {"beta": "read"})
    assert [ada.may("alpha", write=True), ada.may("alpha", write=False)] == [True, True]
    assert [ada.may("beta", write=True), ada.may("beta", write=False)] == [False, True]
    assert [bob.may("alpha", write=False), bob.may("gamma", write=False)] == [False, False]


def test_only_the_digest_of_a_token_is_kept(tmp_path: Path, projects: dict[str, Project]) -> None:
    service = loaded(tmp_path, registry_text(projects, GRANTS))
    assert all(token not in repr(service) for token in TOKENS.values())
    assert service.clients[0].digest == hashlib.sha256(TOKENS["TOKEN_ada"].encode()).digest()


def test_a_token_finds_its_client_and_another_text_finds_none(tmp_path: Path, projects: dict[str, Project]) -> None:
    service = loaded(tmp_path, registry_text(projects, GRANTS))
    found = [service.client_with(token.encode()) for token in TOKENS.values()]
    assert [client.id for client in found if client] == ["ada", "bob"]
    for other in ("", token_of("eve"), TOKENS["TOKEN_ada"][:-1], TOKENS["TOKEN_ada"] + "x"):
        assert service.client_with(other.encode()) is None


def test_write_in_both_lists_is_write(tmp_path: Path, projects: dict[str, Project]) -> None:
    service = loaded(tmp_path, registry_text(projects, {"ada": {"read": ["alpha"], "write": ["alpha"]}}))
    assert service.clients[0].access == {"alpha": "write"}


def test_version_2_is_refused_because_scoped_workstreams_are_not_offered(tmp_path: Path) -> None:
    text = "version = 2\n[[clients.workstreams]]\nproject = 'x'\n"
    refused(tmp_path, text, "Unsupported")


@pytest.mark.parametrize("version", ["", "version = 3", "version = true", 'version = "1"', "version = 1.0"])
def test_another_version_is_refused(tmp_path: Path, projects: dict[str, Project], version: str) -> None:
    text = registry_text(projects, GRANTS).replace("version = 1", version, 1)
    assert refused(tmp_path, text, "InvalidInput")["location"] == "$.version"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("version = 1", f"version = 1\nextra = '{SECRET}'"),
        ('key = "alpha"', f"key = \"alpha\"\nwrite = '{SECRET}'"),
        ('id = "ada"', f"id = \"ada\"\ntoken = '{SECRET}'"),
        ('id = "bob"', 'id = "bob"\nworkstreams = []'),
        ('id = "ada"', ""),
        ('key = "alpha"', ""),
        ('key = "alpha"', "key = 7"),
        ('key = "alpha"', 'key = ""'),
        ('key = "alpha"', f'key = "{SECRET} with spaces"'),
        ('key = "alpha"', 'key = "al/pha"'),
        ('key = "alpha"', 'key = "älpha"'),
        ('key = "alpha"', 'key = "alpha\\n"'),
        ('key = "alpha"', f'key = "{"a" * 129}"'),
        ('id = "ada"', 'id = "a b"'),
        ('token_env = "TOKEN_ada"', 'token_env = "TOKEN ada"'),
        ('read = ["beta"]', 'read = "beta"'),
        ('read = ["beta"]', 'read = ["gamma"]'),
        ('write = ["alpha"]', 'write = ["gamma"]'),
        ('read = ["beta"]', "read = []"),
        ("version = 1", 'version = 1\nallowed_hosts = ["http://host"]'),
        ("version = 1", 'version = 1\nallowed_hosts = [""]'),
        ("version = 1", 'version = 1\nallowed_origins = ["https://host/path"]'),
        ("version = 1", 'version = 1\nallowed_origins = ["*"]'),
        ("version = 1", 'version = 1\nallowed_origins = "https://host"'),
    ],
)
def test_what_does_not_belong_there_is_refused_without_being_repeated(
    tmp_path: Path, projects: dict[str, Project], old: str, new: str
) -> None:
    grants = {"ada": {"write": ["alpha"]}, "bob": {"read": ["beta"]}}
    refused(tmp_path, registry_text(projects, grants).replace(old, new, 1), "InvalidInput")


@pytest.mark.parametrize("missing", ["projects", "clients"])
def test_a_registry_without_projects_or_clients_is_refused(
    tmp_path: Path, projects: dict[str, Project], missing: str
) -> None:
    text = registry_text({} if missing == "projects" else projects, {} if missing == "clients" else GRANTS)
    refused(tmp_path, text, "InvalidInput")
    refused(tmp_path, text.replace("version = 1", f"version = 1\n{missing} = []", 1), "InvalidInput")


@pytest.mark.parametrize("table", ["projects", "clients"])
def test_more_than_a_thousand_entries_are_refused(tmp_path: Path, table: str) -> None:
    entry = {
        "projects": '[[projects]]\nkey = "k"\nroot = "/r"\nproject_id = "p"\n',
        "clients": '[[clients]]\nid = "c"\ntoken_env = "T"\n',
    }
    counts = {name: 1001 if name == table else 1 for name in entry}
    text = "version = 1\n" + "".join(entry[name] * count for name, count in counts.items())
    assert refused(tmp_path, text, "InvalidInput")["location"] == f"$.{table}"


@pytest.mark.parametrize(
    "text", [b"version = ", b"\xff\xfe", b"version = 1\nversion = 1\n", b"[" * 2000, f"x = {SECRET}".encode()]
)
def test_what_is_no_toml_is_refused_with_its_place(tmp_path: Path, text: bytes) -> None:
    path = tmp_path / "service.toml"
    path.write_bytes(text)
    with pytest.raises(AwrError) as found:
        load_service(path, environment=TOKENS)
    assert found.value.code == "InvalidInput"
    assert SECRET not in str(found.value.report())


def test_a_registry_over_one_mebibyte_is_refused(tmp_path: Path) -> None:
    refused(tmp_path, "#" * (REGISTRY_LIMIT + 1), "InvalidInput")


def test_a_registry_that_is_not_there_or_is_a_folder_is_refused(tmp_path: Path) -> None:
    for path, code in ((tmp_path / "none.toml", "NotFound"), (tmp_path, "InvalidInput")):
        with pytest.raises(AwrError) as found:
            load_service(path, environment=TOKENS)
        assert found.value.code == code


@pytest.mark.parametrize("kind", ["relative", "missing", "file", "folder", "nul"])
def test_a_root_that_is_no_initialized_project_is_refused(
    tmp_path: Path, projects: dict[str, Project], kind: str
) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("")
    root = {"relative": "alpha", "nul": "/\\u0000"}.get(kind, str(tmp_path / kind))
    text = registry_text(projects, GRANTS).replace(str(projects["alpha"].root), root, 1)
    assert refused(tmp_path, text, "InvalidInput")["location"] == "$.projects[0].root"


def test_a_root_that_is_a_link_is_served_where_it_leads(tmp_path: Path, projects: dict[str, Project]) -> None:
    (tmp_path / "link").symlink_to(projects["alpha"].root)
    text = registry_text(projects, GRANTS).replace(str(projects["alpha"].root), str(tmp_path / "link"), 1)
    service = loaded(tmp_path, text)
    assert service.projects["alpha"].root == projects["alpha"].root
    assert service.projects["alpha"].open().root == projects["alpha"].root


def test_a_project_with_another_id_than_stated_is_refused(tmp_path: Path, projects: dict[str, Project]) -> None:
    text = registry_text(projects, GRANTS).replace(identity(projects["alpha"]), "01HZZZZZZZZZZZZZZZZZZZZZZZ", 1)
    assert refused(tmp_path, text, "InvalidInput")["location"] == "$.projects[0].project_id"


@pytest.mark.parametrize("kind", ["key", "root", "project_id", "id", "link"])
def test_nothing_may_be_there_twice(tmp_path: Path, projects: dict[str, Project], kind: str) -> None:
    text = registry_text(projects, GRANTS)
    alpha, beta = projects["alpha"], projects["beta"]
    (tmp_path / "link").symlink_to(alpha.root)
    match kind:
        case "key":
            text = text.replace('key = "beta"', 'key = "alpha"')
        case "id":
            text = text.replace('id = "bob"', 'id = "ada"')
        case "project_id":
            text = text.replace(identity(beta), identity(alpha))
        case "root" | "link":
            second = alpha.root if kind == "root" else tmp_path / "link"
            text = text.replace(f'root = "{beta.root}"', f'root = "{second}"')
            text = text.replace(f'project_id = "{identity(beta)}"', f'project_id = "{identity(alpha)}"')
    refused(tmp_path, text, "InvalidInput")


@pytest.mark.parametrize(
    "token",
    [None, "", "x" * 31, "x" * 4097, "x" * 31 + " ", "x" * 40 + "\n", "ü" * 40, "x" * 20 + "\t" + "x" * 20],
)
def test_a_token_that_is_missing_or_unfit_is_refused_and_never_shown(
    tmp_path: Path, projects: dict[str, Project], token: str | None
) -> None:
    tokens = {"TOKEN_bob": TOKENS["TOKEN_bob"], **({} if token is None else {"TOKEN_ada": token})}
    details = refused(tmp_path, registry_text(projects, GRANTS), "InvalidInput", tokens=tokens)
    assert details["location"] == "$.clients[0].token_env"


@pytest.mark.parametrize("length", [32, 4096])
def test_a_token_of_the_bounds_is_taken(tmp_path: Path, projects: dict[str, Project], length: int) -> None:
    tokens = {**TOKENS, "TOKEN_ada": "~" * length}
    service = loaded(tmp_path, registry_text(projects, GRANTS), tokens=tokens)
    assert service.client_with(b"~" * length) is service.clients[0]


def test_two_clients_with_one_token_are_refused(tmp_path: Path, projects: dict[str, Project]) -> None:
    tokens = dict.fromkeys(TOKENS, token_of("ada"))
    details = refused(tmp_path, registry_text(projects, GRANTS), "InvalidInput", tokens=tokens)
    assert details["location"] == "$.clients[1].token_env"
