"""Measure how fast a transcript is scanned, and what memory that takes, on a generated file.

Run `python bench/transcript_scan.py [--size-mb 1000] [--runs 5] [--host claude-code|codex|both]`. Each scan runs in a
fresh process. The plain reading that it is compared with iterates the same lines in the same process.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from awr.hosts.discovery import read_transcript

_SESSION = "b98f3e47-f041-42cd-952a-73bd8ec3d70e"
_WORDS = (
    "return value",
    "src/module/file.py:12:",
    "def handler(self, request):",
    '"quoted"',
    "\n    ",
    "error: expected `;`",
    "naïve café",
    "\t0x7f",
    "the quick brown fox",
)
#: Different rows to choose from; only ids, times and numbers are new in each row of the file.
_TEXTS = 400


def main() -> None:
    """Generate, scan and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size-mb", type=int, default=1000)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--host", choices=("claude-code", "codex", "both"), default="both")
    parser.add_argument("--scan", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.scan is not None:
        print(json.dumps(_scan(options.scan)))
        return
    hosts = ("claude-code", "codex") if options.host == "both" else (options.host,)
    print(f"machine: {platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}")
    for host in hosts:
        _measure(host, size_mb=options.size_mb, runs=max(3, options.runs))
    print(
        "This is not the speed of a cold disk: the file was just written and lies in the page cache. It is not the\n"
        "speed on every transcript either: many short rows cost more for each megabyte, and real rows differ. The\n"
        "memory is that of the whole process, with Python and its libraries."
    )


def _measure(host: str, *, size_mb: int, runs: int) -> None:
    with tempfile.TemporaryDirectory(prefix="awr-bench-") as folder:
        small, large = Path(folder, "small.jsonl"), Path(folder, "large.jsonl")
        small_mb = min(100, size_mb)
        _write(small, host=host, size=small_mb * 1_000_000)
        _write(large, host=host, size=size_mb * 1_000_000)
        small_peak = _fresh(small)["peak_kb"]
        scans = [_fresh(large) for _ in range(runs)]
    rates = [scan["rate"] for scan in scans]
    ratios = [scan["plain_rate"] / scan["rate"] for scan in scans]
    # A rate's p95 is the one that 95 % of the runs reach.
    slowest = sorted(rates)[max(0, math.floor(len(rates) * 0.05 + 0.5) - 1)]
    last = scans[-1]
    print(
        f"{host}: {size_mb} MB, {last['rows']:.0f} rows, {last['requests']:.0f} requests, "
        f"{last['boundaries']:.0f} compactions, {runs} runs"
    )
    print(f"  scan:  median {statistics.median(rates):,.0f} MB/s, p95 (slow end) {slowest:,.0f} MB/s")
    print(f"  ratio: {statistics.median(ratios):.1f}x the time of plain reading of the same lines in the same run")
    print(
        f"  peak memory: {small_peak / 1024:.1f} MiB at {small_mb} MB, "
        f"{max(scan['peak_kb'] for scan in scans) / 1024:.1f} MiB at {size_mb} MB"
    )


def _fresh(path: Path) -> dict[str, float]:
    command = [sys.executable, __file__, "--scan", str(path)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def _scan(path: Path) -> dict[str, float]:
    size = path.stat().st_size / 1e6
    start = time.perf_counter()
    transcript = read_transcript(path)
    middle = time.perf_counter()
    with path.open("rb", buffering=1 << 20) as file:
        rows = sum(1 for _ in file)
    end = time.perf_counter()
    if rows != transcript.rows:
        raise SystemExit(f"the scan saw {transcript.rows} rows of {rows}")
    return {
        "rate": size / (middle - start),
        "plain_rate": size / (end - middle),
        "rows": rows,
        "requests": sum(thread.requests for thread in transcript.threads),
        "boundaries": sum(len(thread.boundaries) for thread in transcript.threads),
        "peak_kb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss,
    }


def _write(path: Path, *, host: str, size: int) -> None:
    rows = _claude_rows() if host == "claude-code" else _codex_rows()
    written = 0
    with path.open("wb", buffering=1 << 20) as file:
        while written < size:
            written += file.write(next(rows))


def _texts(choose: random.Random, *, smallest: int, largest: int) -> list[str]:
    """Return JSON strings, quotes included, of texts of so many characters."""
    texts = []
    for _ in range(_TEXTS):
        wanted, words = choose.randint(smallest, largest), []
        while wanted > 0:
            words.append(choose.choice(_WORDS))
            wanted -= len(words[-1]) + 1
        texts.append(json.dumps(" ".join(words), ensure_ascii=False))
    return texts


def _claude_rows() -> Iterator[bytes]:
    choose = random.Random(7)
    answers, results = _texts(choose, smallest=200, largest=1200), _texts(choose, smallest=1000, largest=30_000)
    shared = (
        '"isSidechain":false,"userType":"external","entrypoint":"cli","cwd":"/home/dev/demo",'
        f'"sessionId":"{_SESSION}","version":"2.1.197","gitBranch":"main"'
    )
    tokens, number = 20_000, 0
    while True:
        number += 1
        tokens += choose.randint(200, 4000)
        when = f'"timestamp":"2026-11-30T20:{number // 60 % 60:02}:{number % 60:02}.000Z"'
        yield (
            f'{{"parentUuid":"{number:036}",{shared},"message":{{"id":"msg_{number:024}","type":"message",'
            f'"role":"assistant","model":"claude-opus-4-8","content":[{{"type":"text","text":{choose.choice(answers)}}},'
            f'{{"type":"tool_use","id":"toolu_{number:024}","name":"Bash","input":{{"command":"make test"}}}}],'
            f'"stop_reason":"tool_use","usage":{{"input_tokens":12,"cache_creation_input_tokens":800,'
            f'"cache_read_input_tokens":{tokens},"output_tokens":310,"service_tier":"standard"}}}},'
            f'"requestId":"req_{number:024}","type":"assistant","uuid":"a{number:035}",{when}}}\n'
        ).encode()
        yield (
            f'{{"parentUuid":"a{number:035}",{shared},"type":"user","message":{{"role":"user","content":[{{'
            f'"tool_use_id":"toolu_{number:024}","type":"tool_result","content":{choose.choice(results)}}}]}},'
            f'"uuid":"u{number:035}",{when}}}\n'
        ).encode()
        if tokens > 167_000:
            yield (
                f'{{"parentUuid":null,{shared},"type":"system","subtype":"compact_boundary","uuid":"b{number:035}",'
                f'{when},"compactMetadata":{{"trigger":"auto","preTokens":{tokens + 1122},"postTokens":700}}}}\n'
            ).encode()
            tokens = 20_000


def _codex_rows() -> Iterator[bytes]:
    choose = random.Random(7)
    answers, results = _texts(choose, smallest=200, largest=1200), _texts(choose, smallest=1000, largest=30_000)
    yield (
        '{"timestamp":"2026-11-30T20:00:00.000Z","ordinal":0,"type":"session_meta","payload":{"id":"'
        f'{_SESSION}","cwd":"/home/dev/demo","cli_version":"0.171.0","base_instructions":{{"text":{results[0]}}}}}}}\n'
    ).encode()
    tokens, running, number = 20_000, 0, 0
    while True:
        number += 1
        tokens += choose.randint(200, 4000)
        running += tokens + 20
        when = f'"timestamp":"2026-11-30T20:{number // 60 % 60:02}:{number % 60:02}.000Z"'
        usage = f'{{"input_tokens":{tokens},"cached_input_tokens":0,"output_tokens":20,"total_tokens":{tokens + 20}}}'
        totals = f'{{"input_tokens":{running},"cached_input_tokens":0,"output_tokens":0,"total_tokens":{running}}}'
        yield (
            f'{{{when},"type":"response_item","payload":{{"type":"message","id":"m_{number}","role":"assistant",'
            f'"content":[{{"type":"output_text","text":{choose.choice(answers)}}}]}}}}\n'
            f'{{{when},"type":"token_usage_record","payload":{{"response_id":"resp_{number:024}","usage":{usage},'
            f'"turn_token_usage":{usage},"thread_token_usage":{totals}}}}}\n'
            f'{{{when},"type":"response_item","payload":{{"type":"function_call_output","call_id":"c_{number}",'
            f'"output":{choose.choice(results)}}}}}\n'
            f'{{{when},"type":"event_msg","payload":{{"type":"token_count","info":{{"total_token_usage":{totals},'
            f'"last_token_usage":{usage},"model_context_window":258400}},"rate_limits":null}}}}\n'
        ).encode()
        if tokens > 230_000:
            yield (
                f'{{{when},"type":"compacted","payload":{{"message":{answers[0]},"replacement_history":[],'
                f'"window_number":{number}}}}}\n'
            ).encode()
            tokens = 20_000


if __name__ == "__main__":
    main()
