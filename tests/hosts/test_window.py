"""Where the effective window comes from."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from awr.hosts.window import Window, WindowSources, claude_folder

ENVIRONMENT = "CLAUDE_CODE_AUTO_COMPACT_WINDOW"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "home"
    folder.mkdir()
    return folder


def settings_file(path: Path, value: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"autoCompactWindow": value}))
    return path


def claude_window(
    home: Path, *, cwd: Path | None = None, model: str | None = None, stated: str | None = None, config: str = ""
) -> Window:
    environment = {"HOME": str(home), "CLAUDE_CONFIG_DIR": config}
    sources = WindowSources(environment if stated is None else {**environment, ENVIRONMENT: stated})
    return sources.window("claude-code", row_tokens=None, cwd=None if cwd is None else str(cwd), model=model)


def test_users_number_comes_before_everything(home: Path) -> None:
    sources = WindowSources({"HOME": str(home), ENVIRONMENT: "300000"}, user_tokens=120_000)

    assert sources.window("codex", row_tokens=95_000, cwd=None, model=None) == Window(120_000, "user")


def test_hosts_row_comes_before_environment_and_settings(home: Path) -> None:
    sources = WindowSources({"HOME": str(home), ENVIRONMENT: "300000"})

    assert sources.window("codex", row_tokens=95_000, cwd=None, model="gpt-5") == Window(95_000, "row")


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("250000", 250_000),
        (" 250000 tokens", 250_000),
        ("500k", 100_000),
        ("1e6", 100_000),
        ("99999999999999999999999", 1_000_000),
        ("1", 100_000),
    ],
)
def test_environment_is_read_and_bounded_as_the_host_does(home: Path, text: str, tokens: int) -> None:
    assert claude_window(home, stated=text) == Window(tokens, "env")


@pytest.mark.parametrize("text", ["", "k500", "-5", "0", "none", "٣٠٠٠٠٠"])
def test_environment_without_a_number_states_nothing(home: Path, text: str) -> None:
    assert claude_window(home, stated=text) == Window(None, None)


def test_environment_of_one_host_says_nothing_about_another(home: Path) -> None:
    sources = WindowSources({"HOME": str(home), ENVIRONMENT: "300000"})

    assert sources.window("codex", row_tokens=None, cwd=None, model=None) == Window(None, None)


def test_nearest_settings_file_wins(home: Path, tmp_path: Path) -> None:
    project = tmp_path / "project"
    settings_file(home / ".claude" / "settings.json", 300_000)
    assert claude_window(home, cwd=project) == Window(300_000, "setting")
    settings_file(project / ".claude" / "settings.json", 400_000)
    assert claude_window(home, cwd=project) == Window(400_000, "setting")
    settings_file(project / ".claude" / "settings.local.json", 500_000)
    assert claude_window(home, cwd=project) == Window(500_000, "setting")
    assert claude_window(home, cwd=project, stated="600000") == Window(600_000, "env")


def test_configured_folder_replaces_the_home_folder(home: Path, tmp_path: Path) -> None:
    settings_file(home / ".claude" / "settings.json", 300_000)
    settings_file(tmp_path / "config" / "settings.json", 350_000)

    assert claude_window(home, config=str(tmp_path / "config")) == Window(350_000, "setting")
    assert claude_folder({"HOME": str(home)}) == home / ".claude"


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b'{"autoCompactWindow":"300000"}', b'{"autoCompactWindow":true}']
)
def test_bad_settings_file_sets_nothing(home: Path, content: bytes) -> None:
    settings_file(home / ".claude" / "settings.json", 0).write_bytes(content)

    assert claude_window(home) == Window(None, None)


def test_oversized_settings_file_sets_nothing(home: Path) -> None:
    path = settings_file(home / ".claude" / "settings.json", 300_000)
    path.write_bytes(path.read_bytes() + b" " * 1024 * 1024)

    assert claude_window(home) == Window(None, None)


def test_settings_that_are_a_pipe_set_nothing(home: Path) -> None:
    (home / ".claude").mkdir()
    os.mkfifo(home / ".claude" / "settings.json")

    assert claude_window(home) == Window(None, None)


def test_relative_or_impossible_folder_is_not_searched(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings_file(tmp_path / ".claude" / "settings.json", 300_000)
    monkeypatch.chdir(tmp_path)

    assert claude_window(home, cwd=Path()) == Window(None, None)
    assert claude_window(home, cwd=Path("/a\0b")) == Window(None, None)


def test_table_value_is_shown_and_never_measured(home: Path) -> None:
    window = claude_window(home, model="claude-sonnet-4-5")

    assert (window.tokens, window.source, window.measured) == (200_000, "table", None)


@pytest.mark.parametrize("model", ["claude-sonnet", "gpt-5", "nothing-like-it", None])
def test_model_that_the_table_does_not_name_exactly_has_no_window(home: Path, model: str | None) -> None:
    assert claude_window(home, model=model) == Window(None, None)
