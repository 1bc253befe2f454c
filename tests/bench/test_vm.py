# SPDX-License-Identifier: GPL-2.0-or-later
"""The table of PELT's loaders."""

from bench.vm.__main__ import lines

RECORD = {
    "kernel": "6.1.0-test",
    "seconds": {"libbpf": [1.52, 1.4], "bcc": [25.44]},
    "functions": {
        "update_cfs_group": {
            "mechanism": "fentry/fexit", "libbpf": 55787, "bcc": 55790, "breakpoint": 55821,
        },
        "update_load_avg": {"mechanism": None, "breakpoint": 106467},
    },
}  # fmt: skip


def test_each_loader_has_its_seconds_and_each_function_its_counts() -> None:
    _, libbpf, bcc, _, seen, unseen = lines(RECORD)
    assert libbpf.split() == ["libbpf", "1.5,", "1.4", "s"]
    assert bcc.split() == ["bcc", "25.4", "s"]
    assert seen.split() == ["update_cfs_group", "55787", "55790", "55821"]
    # What no program sees has no count, and never 0.
    assert unseen.split() == ["update_load_avg", "-", "-", "106467"]
