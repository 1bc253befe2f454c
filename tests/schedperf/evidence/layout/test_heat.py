# SPDX-License-Identifier: GPL-2.0-or-later
"""The table of hot variables: its form, and that kernels have what it names."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from schedperf.evidence.layout.heat import Use, heat_table, parse_heat
from schedperf.inputs.kernel.btf import Btf, Kind, parse_btf
from schedperf.model.errors import InputError
from tests.shared_data import shared_kernel

RUNNING = Path("/sys/kernel/btf/vmlinux")
ROW = '{ paths = ["wakeup"], written = "rarely", read = "own", in = ["fair.c:f"] }'

SET_WITHOUT_A_ROW = """
version = 1
[[together]]
unit = "percpu"
names = ["x"]
effect = "e"
reference = "r"
"""


def uses() -> list[Use]:
    return list({(use.unit, use.name): use for use in heat_table().uses.values()}.values())


def test_the_table_knows_variables_globals_and_fields() -> None:
    units = {use.unit for use in uses()}

    assert len(uses()) >= 200
    assert {"percpu", "globals", "struct rq", "struct cfs_rq", "struct task_group"} <= units


def test_every_row_names_a_function_and_a_path() -> None:
    for use in uses():
        assert use.functions, use.name
        assert use.paths, use.name


def test_every_measured_set_says_what_was_measured_and_by_whom() -> None:
    table = heat_table()

    said = [(rule.reference, rule.effect) for rule in table.together]
    said += [(rule.reference, rule.effect) for rule in table.apart]
    for reference, effect in said:
        assert re.search(r"20\d\d", reference), reference
        assert len(effect) > 40, effect


def test_the_pair_of_the_seed_is_read_mostly_beside_written_by_its_own_cpu() -> None:
    table = heat_table()
    llc_id, usage = (table.find("percpu", name) for name in ("sd_llc_id", "root_cpuacct_cpuusage"))

    assert llc_id is not None
    assert usage is not None
    assert llc_id.is_read_mostly
    assert usage.written == "own"
    assert table.is_together(llc_id, usage)


@pytest.mark.parametrize(
    ("unit", "entry", "found"),
    [
        ("struct rq", "__lock.raw_lock.val.counter", ("struct rq", "__lock")),
        ("struct rq", "cfs.avg.load_avg", ("struct cfs_rq", "avg.load_avg")),
        ("struct rq", "cfs.avg.load_sum", ("struct sched_avg", "load_sum")),
        ("struct rq", "avg_rt.util_avg", ("struct sched_avg", "util_avg")),
        ("struct rq", "cfs.removed.nr", ("struct cfs_rq", "removed")),
        ("struct task_struct", "se.avg.load_avg", ("struct sched_avg", "load_avg")),
        ("struct cfs_rq", "h_nr_running", ("struct cfs_rq", "h_nr_queued")),
        ("percpu", "timer_bases#2", ("percpu", "timer_bases")),
        ("globals", "nohz", ("globals", "nohz")),
    ],
)
def test_an_entry_is_found_by_its_path(unit: str, entry: str, found: tuple[str, str]) -> None:
    use = heat_table().find(unit, entry)

    assert use is not None
    assert (use.unit, use.name) == found


@pytest.mark.parametrize("entry", ["", ".", "cfs", "cfs.", "no_such", "nr_running2", "..avg"])
def test_an_entry_without_a_row_is_unknown(entry: str) -> None:
    assert heat_table().find("struct rq", entry) is None


def test_a_function_is_known_under_its_old_and_its_new_name() -> None:
    table = heat_table()
    rd, idle = table.find("struct rq", "rd"), table.find("struct rq", "avg_idle")

    assert rd is not None
    assert idle is not None
    assert "sched_balance_newidle" in table.common_functions(rd, idle)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "`version` is None"),
        ("version = 2", "`version` is 2"),
        ("version = 1\n[percpu\n", "fix the line"),
        ("version = 1\npercpu = 3", "percpu: invalid value '3'"),
        ("version = 1\n[percpu]\nx = 3", "percpu: x: invalid value '3'"),
        (f"version = 1\n[percpu]\nx = {ROW.replace('rarely', 'never')}", "unknown value 'never'"),
        (f"version = 1\n[percpu]\nx = {ROW.replace('wakeup', 'sleep')}", "unknown value 'sleep'"),
        (
            f"version = 1\n[percpu]\nx = {ROW.replace('fair.c:f', 'f')}",
            "(expected FILE:FUNCTION)",
        ),
        (
            f"version = 1\n[percpu]\nx = {ROW.replace('read', 'reads')}",
            "unknown keys: reads, missing keys: read;",
        ),
        (f"version = 1\n[percpu]\nx = {ROW[:-1]}, since = 6 }}", "invalid release '6'"),
        (f'version = 1\n[percpu]\nx = {ROW}\ny = {ROW[:-1]}, was = ["x"] }}', "'x' is duplicated"),
        ("version = 1\ntogether = 1", "invalid value of `together`"),
        (SET_WITHOUT_A_ROW, "rule names 'x', which has no row"),
        (
            'version = 1\n[[apart]]\nunit = "percpu"\nnames = []',
            "apart: invalid value '[]'",
        ),
        ("version = 1\n[embedded]\npercpu = 1", "embedded: invalid value '1'"),
    ],
)
def test_a_bad_table_is_refused_in_one_line(text: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_heat(text, "heat.toml")

    assert message in str(caught.value)
    assert str(caught.value).startswith("heat.toml: ")
    assert "\n" not in str(caught.value)


def release(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split(".")[:2]))


def expected_in(version: str) -> list[Use]:
    """Return the rows that every kernel of a release has, whatever it is built with."""
    return [
        use
        for use in uses()
        if use.only is None
        and (use.since is None or release(use.since) <= release(version))
        and (use.until is None or release(use.until) >= release(version))
    ]


def missing_fields(btf: Btf, version: str) -> list[str]:
    return [
        f"{use.unit}.{use.name}"
        for use in expected_in(version)
        if use.unit.startswith("struct ")
        if not any(
            has_field(btf, use.unit.removeprefix("struct "), n) for n in (use.name, *use.was)
        )
    ]


def has_field(btf: Btf, struct: str, path: str) -> bool:
    found = btf.find(struct, Kind.STRUCT)
    return any(_has(btf, type_id, path.split(".")) for type_id in found)


def _has(btf: Btf, type_id: int, path: list[str]) -> bool:
    for member in btf.members(btf.resolve(type_id)):
        if not member.name and _has(btf, member.type_id, path):
            return True
        if member.name == path[0]:
            return len(path) == 1 or _has(btf, member.type_id, path[1:])
    return False


def test_a_kernel_of_6_1_has_every_field_that_the_table_gives_it() -> None:
    btf = parse_btf((shared_kernel("tip", "btf") / "btf").read_bytes(), "btf")

    assert missing_fields(btf, "6.1") == []


def test_the_running_kernel_has_every_field_that_the_table_gives_it() -> None:
    version = Path("/proc/sys/kernel/osrelease").read_text(encoding="ascii")
    if release(re.sub(r"[^\d.].*", "", version)) < (6, 1):
        pytest.skip(f"the table was not read from kernels as old as {version}")
    if not RUNNING.exists():
        pytest.skip(f"needs a running kernel with BTF ({RUNNING})")
    btf = parse_btf(RUNNING.read_bytes(), "btf")

    # Options decide on a few, so only what most kernels are built with is asked for.
    missing = missing_fields(btf, re.sub(r"[^\d.].*", "", version))
    assert len(missing) <= 3, missing


def test_a_kernel_of_6_1_has_every_variable_that_the_table_gives_it(
    symbol_names: Callable[[str], set[str]],
) -> None:
    names = symbol_names("tip")
    missing = [
        use.name
        for use in expected_in("6.1")
        if use.unit in {"percpu", "globals"}
        if not any(name.partition(".")[0] in names for name in (use.name, *use.was))
    ]

    assert missing == []


def test_what_is_inlined_is_sampled_under_its_callers_names() -> None:
    table = parse_heat(
        'version = 1\n[inlined]\ninner = ["outer", "other"]\n[percpu]\n'
        'a = { paths = ["tick"], written = "own", read = "own", in = ["fair.c:inner"] }\n',
        "made",
    )
    use = table.find("percpu", "a")
    assert use is not None
    assert table.function_names(use) == {"inner"}
    assert table.sampled_names(use) == {"inner", "outer", "other"}


def test_callers_that_are_no_list_are_refused() -> None:
    with pytest.raises(InputError, match="inlined: inner: invalid value 'outer'"):
        parse_heat('version = 1\n[inlined]\ninner = "outer"\n', "made")


def test_all_that_is_inlined_touches_something_in_the_table() -> None:
    table = heat_table()
    known = {name for use in table.uses.values() for name in table.function_names(use)}
    assert table.inlined.keys() <= known


def test_the_variables_of_the_cluster_series_are_in_its_kernel(
    symbol_names: Callable[[str], set[str]],
) -> None:
    assert {"sd_cluster", "sd_share_id"} <= symbol_names("cluster")


@pytest.fixture
def symbol_names() -> Callable[[str], set[str]]:
    def read(kernel: str) -> set[str]:
        text = (shared_kernel(kernel) / "System.map").read_text(encoding="ascii")
        return {line.split()[2] for line in text.splitlines()}

    return read
