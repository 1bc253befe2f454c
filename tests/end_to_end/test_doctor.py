# SPDX-License-Identifier: GPL-2.0-or-later
"""``schedperf doctor`` says what is true of this machine; test_guest_traces.py asks a guest."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from schedperf.inputs.bundle.open import open_bundle

pytestmark = [pytest.mark.system, pytest.mark.xdist_group("machine")]

KHEADERS = Path("/sys/kernel/kheaders.tar.xz")
HEADERS = Path("/lib/modules", os.uname().release, "build")


def schedperf(*arguments: str, cwd: Path | None = None) -> str:
    command = [sys.executable, "-m", "schedperf", *arguments]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=True).stdout


@pytest.fixture(scope="module")
def examined() -> Mapping[str, Any]:
    """Let the doctor try every collector here; return what it says of each."""
    collectors = json.loads(schedperf("doctor", "--json"))["collectors"]
    return {one["name"]: one for one in collectors}


def test_whatever_is_refused_has_a_reason_and_whatever_works_has_none(
    examined: Mapping[str, Any],
) -> None:
    assert examined
    for name, one in examined.items():
        assert one["status"] in {"ok", "skipped"}, f"{name}: {one['reason']}"
        assert bool(one["reason"]) == (one["status"] == "skipped")


@pytest.mark.parametrize(
    ("collector", "place"),
    [("schedstat", "/proc/schedstat"), ("sched_debug", "/sys/kernel/debug/sched")],
)
def test_a_file_that_this_kernel_lacks_is_named(
    examined: Mapping[str, Any], collector: str, place: str
) -> None:
    if Path(place).exists():
        assert examined[collector]["status"] == "ok"
    else:
        assert examined[collector]["status"] == "skipped"
        assert place in examined[collector]["reason"]
        assert examined[collector]["remedy"]


def test_without_headers_nothing_is_compiled_by_bcc_and_the_remedy_is_a_package() -> None:
    if HEADERS.exists() or KHEADERS.exists():
        pytest.skip("this kernel's headers are here")
    done = schedperf("doctor", "--json", "--set", "bpf_pelt.loader=bcc")
    [pelt] = [one for one in json.loads(done)["collectors"] if one["name"] == "bpf_pelt"]
    assert pelt["status"] == "skipped"
    assert any(word in pelt["reason"] for word in ("headers", "python3-bpfcc"))
    assert any(words in pelt["remedy"] for words in ("apt-get install", "CONFIG_IKHEADERS=y"))


def test_programs_that_this_kernel_refuses_are_told_with_what_was_tried(
    examined: Mapping[str, Any], tmp_path: Path
) -> None:
    if examined["bpf_placement"]["status"] != "ok":
        pytest.skip(f"bpf_placement: {examined['bpf_placement']['reason']}")
    arguments = ["-n", "1", "--instrumented", "1", "--warmup", "0", "--with", "bpf_placement"]
    schedperf("record", "-q", "-o", "here.tar", *arguments, "--", "true", cwd=tmp_path)
    bundle = open_bundle(tmp_path / "here.tar")
    (run,) = [run for run in bundle.runs if run.kind == "instrumented"]
    found = json.loads(bundle.read(f"{run.folder}/bpf_placement/placement.json"))
    refused = {name: one for name, one in found["programs"].items() if one["mechanism"] is None}
    assert all(one["reason"] for one in refused.values())
    if found["mechanism"] == "bpf":
        # The doctor says the same in one line.
        told = examined["bpf_placement"]["hint"] or ""
        words = [one["reason"].rpartition(": ")[2] for one in refused.values()]
        assert all(word in told for word in words)
        assert bool(told) == bool(refused)
