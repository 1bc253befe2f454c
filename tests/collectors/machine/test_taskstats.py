# SPDX-License-Identifier: GPL-2.0-or-later
"""Messages of taskstats are read as include/uapi/linux/taskstats.h has them, and no others."""

import errno
import os
import struct
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from schedperf_collectors.contract import Unavailable
from schedperf_collectors.machine import taskstats
from schedperf_collectors.machine.system import System
from schedperf_collectors.machine.taskstats import Exit, Exits

FAMILY = 27
SIZE = 400
# Offsets in struct taskstats, version 12 and later.
OFFSETS = {
    "cpu_delay_total": ("Q", 24),
    "cpu_run_virtual_total": ("Q", 72),
    "ac_pid": ("I", 128),
    "ac_ppid": ("I", 132),
    "ac_etime": ("Q", 144),
    "ac_utime": ("Q", 152),
    "ac_stime": ("Q", 160),
    "ac_minflt": ("Q", 168),
    "ac_majflt": ("Q", 176),
    "ac_tgid": ("I", 368),
}
USED = {
    "cpu_delay_total": 11,
    "cpu_run_virtual_total": 12,
    "ac_etime": 13,
    "ac_utime": 14,
    "ac_stime": 15,
    "ac_minflt": 16,
    "ac_majflt": 17,
}


def stats(version: int = 13, comm: bytes = b"busy", **values: int) -> bytes:
    """A struct taskstats."""
    content = bytearray(SIZE)
    struct.pack_into("=H", content, 0, version)
    content[80 : 80 + len(comm)] = comm
    for name, value in values.items():
        kind, offset = OFFSETS[name]
        struct.pack_into(f"={kind}", content, offset, value)
    return bytes(content)


def attribute(kind: int, value: bytes) -> bytes:
    return struct.pack("=HH", 4 + len(value), kind) + value + bytes(-len(value) % 4)


def message(kind: int, content: bytes) -> bytes:
    return struct.pack("=IHHII", 16 + len(content), kind, 0, 1, 0) + content


def of_task(content: bytes, aggregate: int = 4) -> bytes:
    # TASKSTATS_TYPE_AGGR_PID with TYPE_PID, an empty TYPE_NULL as padding, and TYPE_STATS.
    nested = attribute(1, b"\0\0\0\0") + attribute(0, b"") + attribute(3, content)
    body = struct.pack("=BBH", 2, 1, 0) + attribute(aggregate | 0x8000, nested)
    return message(FAMILY, body)


def ended(pid: int, **values: Any) -> bytes:
    return of_task(stats(ac_pid=pid, ac_tgid=pid, **values))


class Kernel:
    """A socket of the kernel's end.

    :ivar errors: error number of each answer, by "family", "get" and "register"
    :ivar own: the struct taskstats that a request gets
    :ivar coming: what comes after the registration; an error number is an error
    """

    def __init__(self) -> None:
        self.errors: dict[str, int] = {}
        self.own = stats(cpu_run_virtual_total=1)
        self.coming: list[bytes | int] = []
        self.registered = b""
        self.is_open = False
        self._answers: list[bytes] = []
        self._file = os.open(os.devnull, os.O_RDONLY)

    def socket(self, *_: int) -> "Kernel":
        if error := self.errors.get("socket"):
            raise OSError(error, os.strerror(error))
        self.is_open = True
        return self

    def bind(self, _: object) -> None:
        pass

    def settimeout(self, _: object) -> None:
        pass

    def setsockopt(self, *_: int) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    def fileno(self) -> int:
        return self._file

    def close(self) -> None:
        self.is_open = False

    def send(self, request: bytes) -> None:
        length, kind = struct.unpack_from("=IH", request)
        assert length == len(request)
        (asked,) = struct.unpack_from("=H", request, 22)
        if kind == 16:
            step = "family"
            answer = message(16, b"\1\1\0\0" + attribute(1, struct.pack("=H", FAMILY)))
        elif asked == 1:
            step, answer = "get", of_task(self.own)
        else:
            assert (kind, asked) == (FAMILY, 3)
            step, answer = "register", b""
            self.registered = request[24:].rstrip(b"\0")
        if error := self.errors.get(step):
            answer = b""
            self._answers.append(message(2, struct.pack("=i", -error) + request))
            return
        # What other tasks send meanwhile is not the answer.
        self._answers.append(answer + message(2, struct.pack("=i", 0) + request))

    def recv(self, _: int) -> bytes:
        if self._answers:
            return self._answers.pop(0)
        if not self.coming:
            raise BlockingIOError
        coming = self.coming.pop(0)
        if isinstance(coming, int):
            raise OSError(coming, os.strerror(coming))
        return coming

    def end(self) -> None:
        os.close(self._file)


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> Iterator[Kernel]:
    kernel = Kernel()
    fake = SimpleNamespace(socket=kernel.socket, AF_NETLINK=16, SOCK_RAW=3, SOL_SOCKET=1)
    monkeypatch.setattr(taskstats, "socket", fake)
    yield kernel
    kernel.end()


@pytest.fixture
def system(make_system: Callable[..., System]) -> System:
    return make_system({"sys/devices/system/cpu/possible": "0-3\n"})


@pytest.fixture
def read(kernel: Kernel, system: System) -> Callable[..., Exits]:
    def read_all(*coming: bytes | int) -> Exits:
        exits = Exits(system)
        kernel.coming = list(coming)
        exits.read()
        assert kernel.coming == []
        return exits

    return read_all


def test_all_fields_are_read(read: Callable[..., Exits], kernel: Kernel) -> None:
    exits = read(of_task(stats(ac_pid=5, ac_tgid=4, ac_ppid=3, comm=b"a b\xff)", **USED)))
    [found] = exits
    assert found == Exit(5, 4, 3, found.seen_us, 13, 12, 11, 14, 15, 16, 17, 0)
    assert exits.commands == ["a b\N{REPLACEMENT CHARACTER})"]
    assert kernel.registered == b"0-3"


def test_values_of_any_size_are_kept(read: Callable[..., Exits]) -> None:
    largest = dict.fromkeys(USED, (1 << 64) - 1)
    [found] = read(ended((1 << 32) - 1, **largest))
    assert (found.pid, found.exec_ns, found.waiting_ns) == ((1 << 32) - 1, (1 << 64) - 1, found[6])


def test_messages_of_one_datagram_and_names_are_kept_in_order(read: Callable[..., Exits]) -> None:
    names = [b"one", b"two", b"one", b"x" * 32]
    exits = read(b"".join(ended(n, comm=name) for n, name in enumerate(names)), ended(9))
    assert [found.pid for found in exits] == [0, 1, 2, 3, 9]
    assert [exits.commands[found.command] for found in exits] == [
        "one",
        "two",
        "one",
        "x" * 32,
        "busy",
    ]
    assert len(exits.commands) == 4
    assert len(exits) == 5


def test_the_sum_of_a_process_is_no_task(read: Callable[..., Exits]) -> None:
    assert list(read(of_task(stats(), aggregate=5))) == []


def test_what_came_before_is_forgotten(read: Callable[..., Exits], kernel: Kernel) -> None:
    exits = read(ended(1))
    kernel.coming = [ended(2)]
    exits.forget()
    kernel.coming = [ended(3)]
    exits.read()
    assert [found.pid for found in exits] == [3]


WHOLE = ended(7)


@pytest.mark.parametrize(
    "broken",
    [
        *(WHOLE[:length] for length in (0, 1, 15, 16, 19, 20, 23, 24, 27, 40, 60, len(WHOLE) - 40)),
        of_task(b""),
        of_task(stats()[:-100]),
        # Attributes and a message without length.
        message(FAMILY, struct.pack("=BBHHH", 2, 1, 0, 0, 4) + bytes(500)),
        message(FAMILY, struct.pack("=BBHHHHH", 2, 1, 0, 12, 4, 0, 3) + bytes(500)),
        struct.pack("=IHHII", 0, FAMILY, 0, 1, 0) + bytes(500),
        struct.pack("=IHHII", 17, FAMILY, 0, 1, 0) + bytes(500),
        # Longer than the datagram.
        struct.pack("=IHHII", 1 << 31, FAMILY, 0, 1, 0) + b"\2\1\0\0" + attribute(1, b""),
        b"\xff" * 1000,
        bytes(range(256)) * 4,
    ],
    ids=range(21),
)
def test_what_is_no_message_of_a_task_is_left_out(
    read: Callable[..., Exits], broken: bytes
) -> None:
    assert [found.pid for found in read(ended(1), broken, ended(2))] == [1, 2]


def test_random_bytes_are_never_an_error(read: Callable[..., Exits]) -> None:
    # A few bytes of a whole message are others.
    datagrams = []
    for seed in range(2000):
        changed = bytearray(WHOLE)
        for n in range(1 + seed % 3):
            at = (seed * 7919 + n * 104_729) % (48 if seed % 2 else len(WHOLE))
            changed[at] = (seed * 31 + n * 17) % 256
        datagrams.append(bytes(changed))
    exits = read(*datagrams, ended(77))
    assert list(exits)[-1].pid == 77


def test_tasks_beyond_the_limit_are_counted(
    read: Callable[..., Exits], kernel: Kernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(taskstats, "MOST_EXITS", 3)
    exits = read(*(ended(n) for n in range(5)))
    assert [found.pid for found in exits] == [0, 1, 2]
    assert exits.left_out == 2
    exits.forget()
    assert (len(exits), exits.left_out) == (0, 0)
    kernel.coming = [ended(8)]
    exits.read()
    assert [found.pid for found in exits] == [8]


def test_reading_goes_on_after_messages_were_lost(read: Callable[..., Exits]) -> None:
    exits = read(ended(1), errno.ENOBUFS, ended(2))
    assert [found.pid for found in exits] == [1, 2]


def test_another_error_is_raised(read: Callable[..., Exits]) -> None:
    with pytest.raises(OSError, match="Bad file descriptor"):
        read(errno.EBADF)


def netlink_table(inode: int, drops: int, digits: str = "") -> dict[str, str]:
    """/proc/net/netlink with two sockets; ``digits`` are appended to the inode of the second."""
    row = "0000000000000000 16  4242       00000000 0        0        0     2        "
    table = (
        "sk               Eth Pid        Groups   Rmem     Wmem     Dump  Locks    Drops    Inode\n"
        f"{row}5        1{inode} \n"
        f"{row}{drops}        {inode}{digits}  \n"
    )
    return {"proc/net/netlink": table}


def test_lost_messages_are_those_of_this_socket(
    read: Callable[..., Exits], kernel: Kernel, make_system: Callable[..., System]
) -> None:
    exits = read()
    inode = os.fstat(kernel.fileno()).st_ino
    assert exits.lost() is None
    make_system(netlink_table(inode, 7))
    assert exits.lost() == 7
    make_system(netlink_table(inode, 7, digits="1"))
    assert exits.lost() is None


def test_messages_that_were_lost_before_are_forgotten(
    read: Callable[..., Exits], kernel: Kernel, make_system: Callable[..., System]
) -> None:
    exits = read()
    inode = os.fstat(kernel.fileno()).st_ino
    make_system(netlink_table(inode, 7))
    exits.forget()
    assert exits.lost() == 0
    make_system(netlink_table(inode, 9))
    assert exits.lost() == 2
    # How many were lost before is not known.
    make_system({"proc/net/netlink": ""})
    exits.forget()
    make_system(netlink_table(inode, 9))
    assert exits.lost() is None


@pytest.mark.parametrize("version", [12, 13, 14, 16, 17])
def test_versions_with_these_fields_are_read(kernel: Kernel, system: System, version: int) -> None:
    kernel.own = stats(version, cpu_run_virtual_total=1)
    Exits(system)


def test_a_kernel_without_cpu_and_waiting_times_is_unavailable(
    kernel: Kernel, system: System
) -> None:
    # Without CONFIG_TASK_DELAY_ACCT all messages have zeros there; this process has used CPU time.
    kernel.own = stats(ac_etime=5000, ac_utime=1000)
    with pytest.raises(Unavailable, match="no CPU and waiting times") as caught:
        Exits(system)
    assert caught.value.remedy == "boot a kernel with CONFIG_TASK_DELAY_ACCT=y"
    assert not kernel.is_open


@pytest.mark.parametrize("version", [0, 8, 11, 15])
def test_other_versions_are_not_read(kernel: Kernel, system: System, version: int) -> None:
    kernel.own = stats(version)
    expected = f"version {version} of the kernel's taskstats .expected 12 or newer, except 15.$"
    with pytest.raises(Unavailable, match=expected):
        Exits(system)
    assert not kernel.is_open


@pytest.mark.parametrize("own", [b"", b"\x0d", stats()[:371]])
def test_an_answer_that_is_too_short_is_not_read(
    kernel: Kernel, system: System, own: bytes
) -> None:
    kernel.own = own
    with pytest.raises(Unavailable, match="of the kernel's taskstats"):
        Exits(system)
    assert not kernel.is_open


@pytest.mark.parametrize(
    ("step", "error", "says"),
    [
        ("socket", errno.EPROTONOSUPPORT, "taskstats: protocol not supported"),
        ("family", errno.ENOENT, "this kernel has no taskstats (CONFIG_TASKSTATS)"),
        (
            "get",
            errno.EPERM,
            "taskstats: operation not permitted; run as root, or with CAP_NET_ADMIN",
        ),
        ("register", errno.EINVAL, "taskstats do not work inside a pid or user namespace"),
    ],
)
def test_a_refusal_says_why(
    kernel: Kernel, system: System, step: str, error: int, says: str
) -> None:
    kernel.errors[step] = error
    with pytest.raises(Unavailable) as caught:
        Exits(system)
    assert caught.value.say() == says
    assert not kernel.is_open


def test_a_machine_that_does_not_say_its_cpus_is_unavailable(
    kernel: Kernel, make_system: Callable[..., System]
) -> None:
    with pytest.raises(Unavailable, match="cpu/possible"):
        Exits(make_system({}))
    assert not kernel.is_open


def test_scaled_times_add_up_to_the_time_of_the_scheduler() -> None:
    task = Exit(1, 1, 0, 0, 9_000, 4_000_000, 0, 6_000, 2_000, 0, 0, 0)
    assert task.scaled()[5:9] == (4_000_000, 0, 3_000, 1_000)
    # Without a tick, all of it counts as user time.
    assert task._replace(user_us=0, system_us=0).scaled()[7:9] == (4_000, 0)
