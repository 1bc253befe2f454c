# SPDX-License-Identifier: GPL-2.0-or-later
"""Who may read a bundle: only root those of root, unless kernel addresses are left out of it."""

import os
import re
import stat
from pathlib import Path
from typing import Any

import pytest

pytestmark = [
    pytest.mark.system,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root, who alone sees kernel addresses"),
]

ONCE = ("-n", "1", "--warmup", "0", "-q")
NONE = (*ONCE, "--with", "none")
# The upper half of the address space, as kallsyms and logs print it.
ADDRESS = re.compile(rb"(?<![0-9a-f])ffff[0-9a-f]{12}(?![0-9a-f])")
# Binary; it has types and offsets.
BTF = "boots/0/layout/btf"


def mode_of(path: Path) -> str:
    return oct(stat.S_IMODE(path.stat().st_mode))


def test_only_root_reads_what_root_recorded(recorder: Any) -> None:
    for name in ("plain.tar", "packed.tar.xz"):
        assert recorder("record", "-o", name, *NONE, "--", "true").returncode == 0
        assert mode_of(recorder.folder / name) == "0o600"
    assert recorder("ab", "-o", "night", *NONE, "--", "true").returncode == 0
    assert mode_of(recorder.folder / "night-base.tar") == "0o600"
    assert mode_of(recorder.folder / "night-new.tar") == "0o600"


def test_the_files_of_a_running_recording_are_private_too(recorder: Any) -> None:
    script = "stat -c '%n %a' b.tar.partial b.tar.manifest"
    recorder("record", "-o", "b.tar", *NONE, "--", "sh", "-c", f"{script} >modes")
    modes = (recorder.folder / "modes").read_text().split("\n")[:2]
    assert modes == ["b.tar.partial 600", "b.tar.manifest 600"]


@pytest.mark.parametrize("name", ["b.tar", "b.tar.gz"])
def test_added_runs_never_widen_who_may_read(recorder: Any, name: str) -> None:
    path = recorder.folder / name
    recorder("record", "-o", name, "--shareable", *NONE, "--", "true")
    modes = [mode_of(path)]
    for more in (("--shareable",), (), ("--shareable",)):
        assert recorder("record", "--append", name, *more, *NONE, "--", "true").returncode == 0
        modes.append(mode_of(path))
    assert modes == ["0o644", "0o644", "0o600", "0o600"]


def test_a_shareable_bundle_has_no_kernel_address(recorder: Any, read_bundle: Any) -> None:
    arguments = (*ONCE, "--with", "default,bpf_placement", "--try", "perf_mem", "--", "true")
    assert recorder("record", "-o", "all.tar", *arguments).returncode == 0
    if not ADDRESS.search(read_bundle(recorder.folder / "all.tar").members[f"{BTF[:-3]}kallsyms"]):
        pytest.skip("needs kernel addresses in /proc/kallsyms")
    assert recorder("record", "-o", "b.tar", "--shareable", *arguments).returncode == 0
    written = read_bundle(recorder.folder / "b.tar")
    found = [name for name, data in written.members.items() if name != BTF and ADDRESS.search(data)]
    names = {name.rpartition("/")[2] for name in written.members}
    assert (found, names & {"kallsyms", "System.map", "perf.data"}) == ([], set())
    assert mode_of(recorder.folder / "b.tar") == "0o644"
    left_out = {
        entry["collector"]: entry["reason"]
        for entry in written.manifest["captures"]
        if "--shareable" in (entry["reason"] or "")
    }
    assert {"perf_profile", "perf_mem"} == set(left_out)
    assert "--shareable" in written.manifest["recordings"][0]["command"]


def test_a_named_collector_of_addresses_is_refused(recorder: Any) -> None:
    done = recorder("record", "-o", "b.tar", "--shareable", "--with", "perf_c2c", "--", "true")
    assert done.returncode == 2
    assert done.stderr == (
        "schedperf: error: --with perf_c2c: records kernel addresses, which --shareable leaves "
        "out; omit one of the two\n"
    )
