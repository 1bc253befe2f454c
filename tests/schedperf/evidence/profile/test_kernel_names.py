# SPDX-License-Identifier: GPL-2.0-or-later
"""Functions of the kernel have the names that the kernels of the sides have."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from schedperf.compare.bundles import compare_bundles
from schedperf.inputs.bundle.open import open_bundle
from schedperf.model.comparison import Comparison
from schedperf.model.schema import to_plain
from schedperf_generators.kernel import BUILD_ID, KernelImage, lay_out
from schedperf_generators.perf_data import write_perf_data
from schedperf_generators.profiles import profile

LIMIT_BYTES = 64 << 20
COMMON = ("startup_64", "__schedule", "schedule", "pipe_read", "ksys_read", "do_syscall_64",
          "finish_task_switch.isra.0")  # fmt: skip
OLD = (*COMMON, "load_balance", "newidle_balance", "kmem_cache_alloc", "update_cfs_group")
NEW = (*COMMON, "sched_balance_rq", "sched_balance_newidle", "kmem_cache_alloc_noprof",
       "update_cfs_group.isra.0")  # fmt: skip


def kernel_symbols(record: object) -> Iterator[str]:
    """Yield each symbol of the kernel in a record."""
    if isinstance(record, dict):
        if record.get("dso") == "[kernel]" and "symbol" in record:
            yield record["symbol"].removesuffix(" (interrupts)")
        for value in record.values():
            yield from kernel_symbols(value)
    elif isinstance(record, list | tuple):
        for value in record:
            yield from kernel_symbols(value)


def unknown_symbols(found: Comparison, tables: Sequence[str]) -> set[str]:
    known = {line.split()[2] for text in tables for line in text.splitlines()}
    symbols = set(kernel_symbols(to_plain(found)))
    assert symbols
    return {name for name in symbols - known if not name.startswith("[kernel] ")}


@pytest.mark.parametrize("name", ["deep-cgroup", "cluster-percpu", "deep-cgroup-arm64"])
def test_every_kernel_symbol_of_an_example_is_in_the_kallsyms_of_a_side(
    compared_example: Callable[[str], Comparison], name: str
) -> None:
    bundles = [open_bundle(Path(f"examples/{name}/{side}.tar.xz")) for side in ("base", "new")]
    tables = [bundle.read_text("boots/0/layout/kallsyms", LIMIT_BYTES) for bundle in bundles]
    assert unknown_symbols(compared_example(name), tables) == set()


@pytest.fixture
def compare_kernels(make_bundle: Callable[..., Path], tmp_path: Path) -> Callable[..., Any]:
    """Compare two kernels that have these functions: ``compare_kernels(OLD, NEW)``."""

    def compare(*functions: Sequence[str]) -> tuple[Comparison, list[str]]:
        paths, tables = [], []
        for number, names in enumerate(functions):
            kernel = KernelImage(functions=lay_out(names), build_id=BUILD_ID)
            counts = {
                (name, cpu): 30 + 5 * number * (rank % 3)
                for rank, name in enumerate(names)
                for cpu in range(2)
            }
            runs = [
                {"kind": "instrumented", "files": {"perf_profile/perf.data": write_perf_data(
                    profile(kernel, counts, seed=seed, chains=False))}}
                for seed in range(3)
            ]  # fmt: skip
            tables.append(kernel.kallsyms())
            paths.append(
                make_bundle(
                    tmp_path / f"{number}.tar",
                    runs=[{"time_s": 0.6}, {"time_s": 0.61}, *runs],
                    files={"boots/0/layout/kallsyms": tables[-1]},
                )
            )
        return compare_bundles([open_bundle(path) for path in paths]), tables

    return compare


@pytest.mark.parametrize(("base", "new"), [(OLD, OLD), (NEW, NEW), (OLD, NEW), (NEW, OLD)])
def test_functions_are_renamed_only_where_the_sides_differ(
    compare_kernels: Callable[..., Any], base: Sequence[str], new: Sequence[str]
) -> None:
    found, tables = compare_kernels(base, new)
    assert unknown_symbols(found, tables) == set()
    rows = found.sections["profile"].data.comparisons[0].events[0].points[0].rows
    renamed = {row.symbol: row.base_symbol for row in rows if row.base_symbol}
    pairs = zip(new[len(COMMON) :], base[len(COMMON) :], strict=True)
    assert renamed == {
        name: former for name, former in pairs if name != former and "update" not in name
    }
    # Each function is one row, with samples on both sides.
    assert all(row.share.base > 0.0 and row.share.new > 0.0 for row in rows)
