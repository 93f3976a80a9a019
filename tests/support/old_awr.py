"""An executable that answers like an older or another AWR: this build with capabilities taken away, or worse manners.

It is a stand-in, and only for what cannot run here: builds that nobody can install any more.
"""

from __future__ import annotations

import sys
from pathlib import Path

__all__ = ["stand_in"]

_PROGRAM = """\
#!{python}
import io, json, os, signal, sys, time
from contextlib import redirect_stdout
from awr.surfaces.cli.app import run

MISSING, SLOW_AFTER, DIES_AFTER = {missing!r}, {slow_after!r}, {dies_after!r}
words = sys.argv[1:]
out = io.StringIO()
with redirect_stdout(out):
    code = run(words)
text = out.getvalue()
if "capabilities" in words and code == 0:
    body = json.loads(text)
    body["capabilities"] = [one for one in body["capabilities"] if one["id"] not in MISSING]
    text = json.dumps(body)
if SLOW_AFTER and SLOW_AFTER in " ".join(words):
    time.sleep(600)
if DIES_AFTER and DIES_AFTER in " ".join(words):
    os.kill(os.getpid(), signal.SIGKILL)
sys.stdout.write(text)
sys.exit(code)
"""


def stand_in(path: Path, *, missing: tuple[str, ...] = (), slow_after: str = "", dies_after: str = "") -> Path:
    """Write the program: one that lacks capabilities, or hangs or dies once it has carried a command out."""
    text = _PROGRAM.format(python=sys.executable, missing=missing, slow_after=slow_after, dies_after=dies_after)
    path.write_text(text)
    path.chmod(0o755)
    return path
