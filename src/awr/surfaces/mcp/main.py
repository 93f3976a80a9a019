"""Where the `awr-mcp` program starts. What it needs is imported once its arguments make sense."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

__all__ = ["main"]


def main() -> None:
    """Serve one project on stdio and leave with an exit code."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: list[str]) -> int:
    """Return 0 after a clean end, 1 when serving could not start, 2 for a wrong call."""
    parser = _parser()
    try:
        given = parser.parse_args(arguments)
    except SystemExit as leaving:
        return int(leaving.code or 0)
    from awr.errors import AwrError, io_error

    try:
        from awr.project import existing_folder

        root = existing_folder(Path(given.project or "."))
        from awr.surfaces.mcp.stdio import serve_stdio

        serve_stdio(root)
        return 0
    except AwrError as error:
        return _refused(error)
    except OSError as error:
        return _refused(io_error(error))
    except KeyboardInterrupt:
        return 130


def _parser() -> argparse.ArgumentParser:
    from importlib.metadata import version

    parser = argparse.ArgumentParser(
        prog="awr-mcp",
        description="Serve AWR's operations to an agent as tools, on standard input and output.",
        epilog="Example: awr-mcp --project /srv/billing",
        allow_abbrev=False,
    )
    parser.add_argument("--project", metavar="PATH", help="the project folder; the present one if left out")
    parser.add_argument("--version", action="version", version=f"awr-mcp {version('awr')}")
    return parser


def _refused(error: object) -> int:
    import msgspec

    sys.stderr.write(msgspec.json.encode(error.report()).decode() + "\n")  # type: ignore[attr-defined]
    return 1


if __name__ == "__main__":
    main()
