# SPDX-License-Identifier: GPL-2.0-or-later
"""Check measured wakeup latencies, here or in a guest: ``python -m bench.wakeup_latency``.

Percentiles are compared with an independent computation from the same trace, maxima with perf
sched, and BPF with perf in the same run. A known delay that is added to every 40th wakeup must be
found in the tail and not in the median. Exits with status 1 if one of the checks fails.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from schedperf.lab.vm.guest import GuestFailed, Hypervisor, boot
from schedperf.lab.vm.machine import make_machine, total_memory, try_kvm
from schedperf.lab.vm.script import ALIVE, ALIVE_S, BOOTED, PREPARE, SHARE
from schedperf.model.errors import InputError

ROOT = Path(__file__).parents[2]
PLANTED = Path(__file__).with_name("planted.py")
KERNELS = Path(os.environ.get("SCHEDPERF_KERNELS", ROOT.parent / "shared" / "kernels"))
SOURCES = ("schedperf", "collectors/schedperf_collectors", "bench/wakeup_latency")
GUEST_LIMIT_S = 600.0
# Largest relative error of a percentile: the width of a bin.
LARGEST_ERROR = 1 / 16
# perf prints microseconds.
PRINTED_MS = 0.001
# BPF and perf read the clock one after the other, and the one called second waits for the first.
LARGEST_DIFFERENCE, LARGEST_DIFFERENCE_US = 0.15, 5.0
# Smallest ratio of p99, and largest ratio of p50. The planted delay is 20 ms; the tasks that run
# after it on the same CPU find cold caches.
FEWEST_TIMES, MOST_TIMES = 5.0, 1.5

SCRIPT = f"""\
exec 9>{SHARE}/events
echo '{BOOTED}' >&9
while sleep {ALIVE_S}; do echo '{ALIVE}' >&9; done &
{PREPARE}
export TMPDIR=/run PYTHONPATH={SHARE}/source XDG_CACHE_HOME={SHARE}
export PYTHONDONTWRITEBYTECODE=1
cd /run
@PYTHON@ -m bench.wakeup_latency.checks >{SHARE}/record.json 2>{SHARE}/log &&
@RECORD@ >>{SHARE}/log 2>&1 && cp planted-*.tar {SHARE}
echo $? >{SHARE}/status
"""


def parse_arguments(arguments: Sequence[str]) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.wakeup_latency", description=__doc__)
    parser.add_argument("--guest", action="store_true", help="in a guest, not here")
    parser.add_argument("--kernel", type=Path, default=KERNELS / "tip" / "bzImage")
    return parser.parse_args(arguments)


def record_planted(python: str, planted: str, policy: str) -> list[str]:
    """Return the command that records planted.py: base with a low priority of the burner, new high.

    It writes ``planted-base.tar`` and ``planted-new.tar`` into the working directory.

    :param python: path of the interpreter
    :param planted: path of planted.py
    :param policy: "nice" or "fifo"
    """
    low, high = {"nice": ("19", "-20"), "fifo": ("1", "3")}[policy]
    return [
        *(python, "-m", "schedperf_collectors", "ab", "-o", "planted"),
        *("-n", "1", "--warmup", "0", "--instrumented", "5", "--with", "wakeup_latency"),
        *("--base-setup", f"echo {low} >/run/burner", "--new-setup", f"echo {high} >/run/burner"),
        *("--", "sh", "-c", f"/usr/bin/python3 {planted} {policy} $(cat /run/burner)"),
    ]


def run_here(folder: Path) -> Any:
    """Run checks.py on this machine and record the planted delay; return the JSON of checks.py.

    :param folder: where the bundles of the planted delay are written
    :raises CalledProcessError: a command fails
    """
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'collectors'}"}
    checks = [sys.executable, "-m", "bench.wakeup_latency.checks"]
    done = subprocess.run(checks, env=environment, stdout=subprocess.PIPE, check=True)
    recording = record_planted(sys.executable, str(PLANTED), "fifo")
    subprocess.run(recording, env=environment, cwd=folder, check=True, stderr=subprocess.DEVNULL)
    return json.loads(done.stdout)


def run_in_guest(image: Path, folder: Path) -> Any:
    """Do the same as :func:`run_here` in a guest with 4 CPUs on 2 nodes; return the same JSON.

    :param image: path of the kernel image
    :param folder: empty folder that is shared with the guest; the bundles are written there
    :raises GuestFailed: the guest ends or hangs before its script has finished
    :raises InputError: a command of the script fails, or this machine has too little memory
    """
    python = str(Path(sys.prefix).resolve() / "bin" / "python")
    planted = f"{SHARE}/source/bench/wakeup_latency/{PLANTED.name}"
    recording = " ".join(
        f"'{word}'" if not word.isalnum() else word
        for word in record_planted(python, planted, "nice")
    )
    for source in SOURCES:
        shutil.copytree(
            ROOT / source,
            folder / "source" / source.removeprefix("collectors/"),
            ignore=shutil.ignore_patterns("__pycache__"),
        )
    script = SCRIPT.replace("@PYTHON@", python).replace("@RECORD@", recording)
    (folder / "run").write_text(script)
    qemu = shutil.which("qemu-system-x86_64") or "qemu-system-x86_64"
    hypervisor = Hypervisor(
        vng=shutil.which("vng", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
        or "vng",
        machine=make_machine(4, 2, 1, "4G", total_memory()),
        is_kvm=try_kvm(qemu).is_kvm,
        kernel_arguments="",
        silence_s=GUEST_LIMIT_S,
    )
    boot(hypervisor, image, folder, lambda _: None)
    return json.loads((folder / "record.json").read_bytes())


def compare_planted(folder: Path) -> dict[str, Any]:
    """Compare the bundles of the planted delay.

    :return: the rows of the wakeup latency of the sleeper on all nodes, by percentile such as
        "p99", and the metrics of all findings ("findings")
    """
    bundles = [str(folder / f"planted-{side}.tar") for side in ("base", "new")]
    command = [sys.executable, "-m", "schedperf", "compare", *bundles, "--format", "json"]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, check=False)
    record = json.loads(done.stdout)
    rows = record["sections"]["wakeup_latency"]["data"]["rows"]
    return {
        row["quantile"]: row for row in rows if row["command"] == "sleeper" and row["node"] is None
    } | {"findings": [finding["metric"] for finding in record["findings"]]}


def judge(checks: Mapping[str, Any], planted: Mapping[str, Any]) -> Iterator[tuple[str, bool]]:
    """Yield a text for each check, and whether the check passes.

    :param checks: the JSON of checks.py
    :param planted: the return value of :func:`compare_planted`
    """
    trace, bpf = checks["trace"], checks["bpf"]
    error = trace["largest error of a percentile"]
    yield (
        f"{trace['waits']} waits of {trace['commands']} commands: counts equal to perf script",
        trace["counts equal"] and not trace["lost"],
    )
    yield f"percentiles within 1/16: largest error {error:.1%}", error <= LARGEST_ERROR
    yield "maxima equal those of perf script", trace["maxima equal"]
    for kind, tool in (
        ("wakeups", "timehist"),
        ("wakeups and preemptions", "latency"),
    ):
        ours, theirs = trace[f"max of {kind}, ms"], trace[f"max of perf sched {tool}, ms"]
        same = abs(ours - theirs) <= PRINTED_MS
        yield f"max of {kind} {ours:.3f} ms, perf sched {tool} {theirs:.3f} ms", same
    if "reason" in bpf:
        yield f"BPF: {bpf['reason']}", False
    else:
        waits = bpf["waits"]
        # On some hosts perf misses wakeups and switches without reporting it.
        missed = bpf["missed by perf"]
        text = f"{waits[0]} waits counted by BPF, {waits[1]} by perf, which missed up to {missed}"
        yield text, 0 <= waits[0] - waits[1] <= missed
        for name, (ours, low, high) in bpf["us"].items():
            to = "" if low == high else " or more" if high is None else f" to {high}"
            text = f"{name} {ours} us with BPF, {low}{to} us with perf"
            yield (
                text,
                ours >= low - limit_of(low) and (high is None or ours <= high + limit_of(high)),
            )
    p50, p99 = planted["p50"], planted["p99"]
    yield f"planted delay: {_describe(p99)}", bool(p99["changed"]) and p99["ratio"] >= FEWEST_TIMES
    yield f"planted delay: {_describe(p50)}", p50["ratio"] <= MOST_TIMES
    name = "wakeup latency p99 of sleeper"
    yield f"finding: {name}", name in planted["findings"]


def limit_of(us: float) -> float:
    """Return by how many us BPF may differ from a latency of perf in us."""
    return LARGEST_DIFFERENCE * us + LARGEST_DIFFERENCE_US


def _describe(row: Mapping[str, Any]) -> str:
    low, high = (row[end] and f"{row[end]:.4g}" for end in ("ci_low", "ci_high"))
    values = f"{1e3 * row['base']:.4g} -> {1e3 * row['new']:.4g} ms"
    return f"{row['quantile']} {values}, ratio {row['ratio']:.4g} [{low}, {high}]"


def main(arguments: Sequence[str]) -> int:
    """Print each check; return 1 if one of them fails or no guest boots, else 0."""
    asked = parse_arguments(arguments)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        try:
            checks = run_in_guest(asked.kernel, folder) if asked.guest else run_here(folder)
        except (GuestFailed, InputError) as error:
            log = folder / "log"
            print(f"no guest: {error}\n{log.read_text() if log.exists() else ''}")
            return 1
        results = [*judge(checks, compare_planted(folder))]
    for text, holds in results:
        print(f"{'ok    ' if holds else 'FAILED'} {text}")
    return 0 if all(holds for _, holds in results) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
