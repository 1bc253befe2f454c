# SPDX-License-Identifier: GPL-2.0-or-later
"""No command opens or runs a file that a bundle names: system calls are traced."""

import io
import json
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import pytest

from tests.programs import skip_without_strace

EXAMPLE = Path(__file__).parents[2] / "examples" / "deep-cgroup"
HOSTILE = Path(__file__).parents[3] / "shared" / "data" / "hostile" / "source-vmlinux.tar.xz"
COMMIT = "0123456789abcdef0123456789abcdef01234567"
CALLS = "trace=open,openat,openat2,creat,execve,execveat,truncate,unlink,rename,renameat2"
# The commands run in one process, which takes a tenth of the time of one process each.
PROGRAM = """
import json, sys
from schedperf.cli import main
for arguments in json.loads(sys.argv[1]):
    print("status", main(arguments), *arguments, file=sys.stderr, flush=True)
"""

pytestmark = pytest.mark.system


def with_manifest(old: Path, new: Path, change: Callable[[str], str]) -> None:
    """Copy a bundle, and change the text of its manifest."""
    with tarfile.open(old) as source, tarfile.open(new, "w") as target:
        for member in source:
            file = source.extractfile(member)
            if file is None:
                continue
            content = file.read()
            if member.name == "manifest.json":
                content = change(content.decode()).encode()
                member.size = len(content)
            target.addfile(member, io.BytesIO(content))


def with_fields(changes: Mapping[str, object], text: str) -> str:
    return json.dumps({**json.loads(text), **changes})


def traced(folder: Path, *commands: list[str]) -> str:
    """Run commands of schedperf; return their system calls that take paths."""
    skip_without_strace()
    log = folder / "strace"
    program = ["strace", "-f", "--seccomp-bpf", "-s", "4096", "-e", CALLS, "-o", str(log)]
    done = subprocess.run(
        [*program, sys.executable, "-c", PROGRAM, json.dumps(commands)],
        cwd=folder, capture_output=True, text=True,
    )  # fmt: skip
    assert "internal error" not in done.stderr
    assert done.stderr.count("status ") == len(commands), done.stderr
    return log.read_text(errors="replace")


def test_no_file_that_a_bundle_names_is_opened(tmp_path: Path) -> None:
    named = tmp_path / "named"
    named.mkdir()
    for name in ("vmlinux", "program"):
        shutil.copy("/bin/true", named / name)
    vmlinux = {"commit": COMMIT, "vmlinux": str(named / "vmlinux")}
    (named / "source.json").write_text(json.dumps(vmlinux))
    program = str(named / "program")
    kernels = ["--kernel", "base=6.1.0-1", "--kernel", "new=6.1.0-2", "--on", "ssh:localhost"]
    options = {
        "vmlinux": ("ab", ["--source", json.dumps(vmlinux)]),
        "source": ("ab", ["--source", str(named / "source.json")]),
        "files": (
            "ab",
            ["--kernel-files", str(named), "--stop-file", program, "--against", program,
             "--timeout", "9", "--events", "1"],
        ),
        "boots": (
            "ab",
            [*kernels, "--source", f"base={json.dumps(vmlinux)}", "--power", program],
        ),
        "hook": (
            "ab", [*kernels, "--boot", f"command:{program}", "--console", program]
        ),
    }  # fmt: skip
    base = str(EXAMPLE / "base.tar.xz")
    bundles = []
    for name, (kind, words) in options.items():
        bundles.append(f"{name}.tar")
        command = ["schedperf", kind, "-o", program, *words, "--", "hackbench", "-p"]
        changes = {
            "setup": f". {program}; {program}",
            **dict.fromkeys(("service", "load", "label"), program),
            "recordings": [{"command": command}],
        }
        with_manifest(
            EXAMPLE / "new.tar.xz",
            tmp_path / bundles[-1],
            partial(with_fields, changes),
        )
    if HOSTILE.exists():
        bundles.append("hostile.tar")
        with_manifest(
            HOSTILE, tmp_path / bundles[-1], lambda text: text.replace("/etc/shadow", program)
        )
    first, *others = bundles
    log = traced(
        tmp_path,
        ["compare", base, first, "--json", "compare.json", "--html", "compare.html"],
        *(["compare", base, other] for other in others),
        *(["rerun", base, bundle, "--print"] for bundle in bundles),
        *(["rerun", bundle] for bundle in bundles),
        ["show", first],
        *([name, base, first] for name in ("profile", "layout", "c2c", "schedstat")),
        ["publish", "compare.json", "site", "--bundles"],
    )
    assert f'"{first}"' in log
    assert str(named) not in log
