# SPDX-License-Identifier: GPL-2.0-or-later
"""Files, the kernel log and programs are read within limits; what is missing has a reason."""

from collections.abc import Callable
from pathlib import Path

import pytest

from schedperf_collectors.contract import Unavailable, format_cpu_list, parse_cpu_list
from schedperf_collectors.machine.system import System, bracketed, run

MakeSystem = Callable[..., System]


def test_a_file_larger_than_the_limit_is_refused(make_system: MakeSystem) -> None:
    system = make_system({"big": b"x" * 100})
    assert system.bytes("/big", limit=100) == b"x" * 100
    with pytest.raises(Unavailable, match="^/big: larger than 99 bytes$"):
        system.bytes("/big", limit=99)


def test_an_endless_file_is_not_read_to_its_end() -> None:
    with pytest.raises(Unavailable, match="larger than"):
        System().bytes("/dev/zero", limit=1 << 20)


def test_reasons_name_the_file_as_it_is_called_on_that_machine(make_system: MakeSystem) -> None:
    system = make_system({"folder/file": "", "text": "x"})
    for name, reason in (
        ("/none", "/none: no such file or directory"),
        ("/folder", "/folder: is a directory"),
        ("/folder/file", "/folder/file: empty"),
    ):
        with pytest.raises(Unavailable, match=f"^{reason}$"):
            system.text(name)
    with pytest.raises(Unavailable, match="^/text: not a number: 'x'$"):
        system.integer("/text")


def test_folders_are_listed_in_natural_order(make_system: MakeSystem) -> None:
    system = make_system(
        {f"cpus/cpu{cpu}/online": "1" for cpu in (10, 9, 0)} | {"cpus/cpufreq": ""}
    )
    assert system.names("/cpus", r"cpu\d+") == ["/cpus/cpu0", "/cpus/cpu9", "/cpus/cpu10"]


def test_the_kernel_log_is_one_message_a_line(make_system: MakeSystem) -> None:
    records = (
        "6,0,0,-;Linux version 6.1.0 (gcc; ld)\n"
        "6,1,0,-;pci 0000:00:01.0: found\n SUBSYSTEM=pci\n DEVICE=+pci:0000:00:01.0\n"
    )
    log = make_system({"dev/kmsg": records}).kernel_log()
    assert log == "Linux version 6.1.0 (gcc; ld)\npci 0000:00:01.0: found"


def test_this_machines_kernel_log_is_read_to_its_end() -> None:
    try:
        log = System().kernel_log()
    except Unavailable as error:
        pytest.skip(f"needs root or kernel.dmesg_restrict=0: {error.reason}")
    assert len(log.splitlines()) > 10
    assert not log.startswith(("6,", "5,"))


@pytest.mark.parametrize(
    ("text", "cpus"),
    [("0\n", [0]), ("0-3,8", [0, 1, 2, 3, 8]), ("", []), ("0-1,4-5", [0, 1, 4, 5])],
)
def test_cpu_lists_are_parsed(text: str, cpus: list[int]) -> None:
    assert parse_cpu_list(text) == cpus


@pytest.mark.parametrize(
    "text", ["x", "-1", "0-", "3-1", "0-99999999", "1;2", "0-999999", "0-65535," * 3]
)
def test_what_is_no_cpu_list_is_refused(text: str) -> None:
    with pytest.raises(Unavailable, match="invalid CPU list"):
        parse_cpu_list(text)


def test_the_chosen_word_is_the_marked_one() -> None:
    assert bracketed("always [madvise] never") == "madvise"
    assert bracketed("none voluntary (full)", "()") == "full"
    with pytest.raises(Unavailable, match="no value is selected in"):
        bracketed("always madvise never")


def test_programs_that_are_missing_slow_or_failing_say_so(tmp_path: Path) -> None:
    assert run(["sh", "-c", "echo $LC_ALL; echo err >&2"]) == "C\nerr"
    for command, timeout_s, reason in (
        (["no-such-program"], 1.0, "no-such-program is not on PATH"),
        (["sleep", "9"], 0.1, "sleep did not finish within 0.1 s"),
        (["sh", "-c", "echo why; exit 3"], 5.0, "sh: exit status 3: why"),
        ([str(tmp_path)], 1.0, f"{tmp_path}: permission denied"),
    ):
        with pytest.raises(Unavailable, match=f"^{reason}$"):
            run(command, timeout_s)


@pytest.mark.parametrize(
    ("cpus", "text"), [([], ""), ([3], "3"), ([0, 1, 2, 8], "0-2,8"), ([1, 3, 4], "1,3-4")]
)
def test_lists_of_cpus_are_the_kernels(cpus: list[int], text: str) -> None:
    assert format_cpu_list(cpus) == text
