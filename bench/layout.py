# SPDX-License-Identifier: GPL-2.0-or-later
"""Measure how fast two kernels' layouts are read; for comparison `pahole` and `codiff`.

The input is the BTF of the running kernel, and a generated System.map with as many symbols as that
of a distribution's kernel. `bench/layout.py BASE NEW` reads two directories with btf and System.map
instead. Each program is a process of its own. For the reader alone, the CPU time is also printed
without that of a Python process that only imports it. The command `schedperf layout` is measured
with its imports, also on two files of 16 kB whose structs take long to lay out.
"""

import os
import shutil
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

ROUNDS = 7
BTF = Path("/sys/kernel/btf/vmlinux")
# A distribution's kernel: symbols in all, per-CPU variables, variables of .data and .bss.
SYMBOLS, PERCPU, GLOBALS = 90_000, 360, 19_000
IMPORTS = (
    "import sys; from pathlib import Path; "
    "from schedperf.evidence.layout.sources import load_kernel"
)
# Peak memory in KiB; ru_maxrss would hold that of the process which started this one.
LOAD = (
    f"{IMPORTS}; kernels = [load_kernel(Path(path)) for path in sys.argv[1:]]; "
    "status = Path('/proc/self/status').read_text(); "
    "print(status.partition('VmHWM:')[2].split()[0])"
)


def write_symbols(path: Path) -> None:
    """Write a System.map with as many symbols as that of a distribution's kernel."""
    rows = [(0, "D", "__per_cpu_start"), (0x34000, "D", "__per_cpu_end")]
    rows += [(64 + 512 * number, "D", f"percpu_{number}") for number in range(PERCPU)]
    base, data = 0xFFFFFFFF81000000, 0xFFFFFFFF82E00000
    functions = SYMBOLS - PERCPU - GLOBALS
    rows += [(base + 64 * number, "t", f"function_{number}") for number in range(functions)]
    rows += [(data, "D", "_sdata"), (data + 64 * GLOBALS, "D", "_edata")]
    rows.append((data + 64 * GLOBALS + 4096, "B", "_end"))
    rows += [(data + 64 * number, "d", f"variable_{number}") for number in range(GLOBALS)]
    path.write_text("".join(f"{at:016x} {letter} {name}\n" for at, letter, name in sorted(rows)))


def write_hostile(path: Path, offset: int) -> None:
    """Write BTF of a struct rq with a union of 990 fields, which all occupy the same bytes.

    :param offset: offset of the union in the struct, in bytes
    """
    strings = b"\0int\0rq\0u\0x\0" + b"".join(b"m%d\0" % number for number in range(990))
    fields, at = [], len(b"\0int\0rq\0u\0x\0")
    for number in range(990):
        fields += [at, 1, 0]
        at += len(b"m%d\0" % number)
    words = [
        1,
        1 << 24,
        4,
        32,
        8,
        5 << 24 | 990,
        8,
        *fields,
        5,
        4 << 24 | 1,
        256,
        10,
        2,
        8 * offset,
    ]
    types = struct.pack(f"<{len(words)}I", *words)
    header = struct.pack("<HBBIIIII", 0xEB9F, 1, 0, 24, 0, len(types), len(types), len(strings))
    path.write_bytes(header + types + strings)


def measure(command: list[str]) -> tuple[float, float, str]:
    """Return wall and CPU seconds of a command, and its stdout; its exit status does not matter."""
    start, before = time.perf_counter(), os.times()
    done = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False
    )
    wall, after = time.perf_counter() - start, os.times()
    cpu = after.children_user + after.children_system
    return wall, cpu - before.children_user - before.children_system, done.stdout


def inputs(folder: Path) -> dict[str, list[str]]:
    """Return the paths of base and new, by kind of file: "btf" and "System.map".

    :param folder: directory for generated files
    :raises SystemExit: no directories are given, and the running kernel has no BTF
    """
    if len(sys.argv) == 3:  # noqa: PLR2004 # base and new
        sides = [Path(argument) for argument in sys.argv[1:]]
        return {name: [str(side / name) for side in sides] for name in ("btf", "System.map")}
    if not BTF.exists():
        sys.exit(f"{BTF}: no such file; give two directories with btf and System.map")
    write_symbols(folder / "System.map")
    copies = []
    for side in ("base", "new"):
        (folder / f"{side}.btf").write_bytes(BTF.read_bytes())
        copies.append(str(folder / f"{side}.btf"))
    return {"btf": copies, "System.map": [str(folder / "System.map")] * 2}


def main() -> None:
    """Measure all programs, interleaved, and print one line per program."""
    with tempfile.TemporaryDirectory() as folder:
        files = inputs(Path(folder))
        python = [sys.executable, "-c"]
        commands = {"python and imports alone": [*python, IMPORTS]}
        commands |= {
            f"schedperf, two kernels from {name}": [*python, LOAD, *paths]
            for name, paths in files.items()
        }
        base, new = files["btf"]
        hostile = []
        for number, offset in enumerate((0, 64)):
            hostile.append(str(Path(folder) / f"hostile{number}.btf"))
            write_hostile(Path(hostile[-1]), offset)
        layout = [sys.executable, "-m", "schedperf", "layout"]
        commands["schedperf layout, two BTFs, whole"] = [*layout, base, new]
        commands["schedperf layout, two hostile BTFs, whole"] = [*layout, *hostile]
        if shutil.which("pahole"):
            commands["pahole, both as text"] = ["sh", "-c", 'pahole "$1"; pahole "$2"', "sh",
                                                base, new]  # fmt: skip
        if shutil.which("codiff"):
            commands["codiff (compares DWARF only)"] = ["codiff", base, new]
        times: dict[str, list[tuple[float, float]]] = {name: [] for name in commands}
        printed = dict.fromkeys(commands, "")
        for _ in range(ROUNDS):
            for name, command in commands.items():
                *taken, printed[name] = measure(command)
                times[name].append((taken[0], taken[1]))
    print(f"two kernels' layouts, median of {ROUNDS} runs in turn")
    imports = median(cpu for _, cpu in times["python and imports alone"])
    for name, values in times.items():
        wall, cpu = (median(column) for column in zip(*values, strict=True))
        line = f"  {name:<42} {wall:6.2f} s wall {cpu:6.2f} s CPU"
        if name.startswith("schedperf, "):
            peak = int(printed[name]) / 1024
            line += f"   {cpu - imports:6.2f} s CPU beyond imports   {peak:4.0f} MiB"
        print(line)


if __name__ == "__main__":
    main()
