# SPDX-License-Identifier: GPL-2.0-or-later
"""Which kernels a night boots."""

import pytest

from schedperf.lab.night.job import Kernel
from schedperf.lab.night.kernels import choose_kernels, is_fixed
from schedperf.lab.night.machine import Installed
from schedperf.lab.night.state import NightError

INSTALLED = [
    Installed(release=release, installed_s=seconds)
    for release, seconds in (
        ("6.9.0", 1),
        ("6.18.0", 2),
        ("6.19.0-rc1", 3),
        ("6.19.0-rc2-00010-g0123456789ab", 4),
        ("6.19.0-rc2-00044-g89abcdef0123", 5),
    )
]


def _chosen(kernel: Kernel, installed: list[Installed] = INSTALLED) -> list[str]:
    return [each.release for each in choose_kernels(kernel, installed)]


def test_last_release_and_todays_kernel() -> None:
    assert _chosen(Kernel()) == ["6.18.0", "6.19.0-rc2-00044-g89abcdef0123"]


def test_yesterdays_kernel_only_if_the_job_says_so() -> None:
    chosen = choose_kernels(Kernel(yesterday=True), INSTALLED)
    assert [each.name for each in chosen] == ["base", "new", "yesterday"]
    assert chosen[-1].release == "6.19.0-rc2-00010-g0123456789ab"


def test_patterns() -> None:
    assert _chosen(Kernel(reference="6.9.*", new="*rc1")) == ["6.9.0", "6.19.0-rc1"]


def test_named_kernels_are_not_looked_for() -> None:
    kernel = Kernel(reference="6.1.0-47-amd64", new="6.1.0-50-amd64")
    assert is_fixed(kernel)
    assert _chosen(kernel, []) == ["6.1.0-47-amd64", "6.1.0-50-amd64"]


@pytest.mark.parametrize(
    ("kernel", "installed", "said"),
    [
        (Kernel(), [], "kernel.new: no installed kernel fits the default (installed: none)"),
        (Kernel(), INSTALLED[:1], "kernel.reference: no installed kernel"),
        (Kernel(new="7.*"), INSTALLED, "no installed kernel fits 7.*"),
        (Kernel(reference="6.18.0", new="6.18.0"), INSTALLED, "chosen for both base and new"),
        (Kernel(yesterday=True), INSTALLED[:2], "kernel.yesterday: no installed kernel"),
    ],
)
def test_too_few_kernels(kernel: Kernel, installed: list[Installed], said: str) -> None:
    with pytest.raises(NightError) as error:
        choose_kernels(kernel, installed)
    assert said in str(error.value)
