# SPDX-License-Identifier: GPL-2.0-or-later
"""The class of a machine: stable from kernel to kernel, another for another machine."""

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from schedperf.compare.bundles import compare_bundles
from schedperf.inputs.bundle.open import Bundle, open_bundle

MakeBundle = Callable[..., Path]
Classes = Callable[..., list[str | None]]

OTHER_KERNEL = {"release": "6.13.0", "version": "#2 SMP", "build_id": "ab" * 20}


@pytest.fixture
def classes(make_bundle: MakeBundle, tmp_path: Path) -> Classes:
    """Return the classes of base and of a side with other facts."""

    def compare(host: Mapping[str, Any] | None = {}, **new: Any) -> list[str | None]:
        paths = [make_bundle(tmp_path / "base.tar")]
        paths.append(make_bundle(tmp_path / "new.tar", host=host, **new))
        return [side.machine_class for side in compare_bundles(map_open(paths)).sides]

    return compare


def map_open(paths: list[Path]) -> list[Bundle]:
    return [open_bundle(path) for path in paths]


def test_it_is_twelve_digits_and_the_name_that_the_site_gives(classes: Classes) -> None:
    base, new = classes(manifest={"machine": "epyc-2s"})
    assert base is not None
    assert re.fullmatch(r"[0-9a-f]{12}", base)
    assert new == f"epyc-2s-{base}"


@pytest.mark.parametrize(
    "host",
    [
        {"system": {"hostname": "another", "machine_id_sha256": "ff" * 32, "boot_id": "x"}},
        {"kernel": OTHER_KERNEL, "sched": {"features": "PLACE_LAG NEW_FEATURE"}},
        {"kernel": OTHER_KERNEL, "cpu": {"mitigations": {"new_bug": "Not affected"}}},
        {"state": {"loadavg": [3.0, 2.0, 1.0]}, "tools": {"hackbench": "hackbench 9"}},
    ],
)
def test_other_kernels_and_names_of_hosts_are_of_the_same_class(
    classes: Classes, host: Mapping[str, Any]
) -> None:
    base, new = classes(host)
    assert base == new


def test_a_memory_that_kernels_report_differently_is_the_same(
    make_bundle: MakeBundle, tmp_path: Path
) -> None:
    sizes = [(8 << 30) - reserved for reserved in (1 << 20, 150 << 20, 400 << 20)]
    made = [
        make_bundle(tmp_path / f"{size}.tar", host={"memory": {"total_bytes": size}})
        for size in (*sizes, 16 << 30)
    ]
    found = [side.machine_class for side in compare_bundles(map_open(made)).sides]
    assert found[0] == found[1] == found[2] != found[3]


@pytest.mark.parametrize(
    "host",
    [
        {"cpu": {"model": "Another CPU"}},
        {"cpu": {"microcode": "0x99"}},
        {"memory": {"total_bytes": 64 << 30}},
        {"virtualisation": {"kind": "kvm"}},
    ],
)
def test_another_machine_is_of_another_class(classes: Classes, host: Mapping[str, Any]) -> None:
    base, new = classes(host)
    assert base != new


def test_what_is_meant_to_differ_is_left_out(classes: Classes) -> None:
    host = {"cgroup": {"depth": 7}}
    base, new = classes(host)
    assert base != new
    base, new = classes(host, treatment=["cgroup.depth"])
    assert base == new


def test_without_host_json_it_is_unknown(classes: Classes) -> None:
    assert classes(None)[1] is None
