# SPDX-License-Identifier: GPL-2.0-or-later
"""Receive taskstats: one message of the kernel for each task (thread) that ends on this machine.

Formats: include/uapi/linux/taskstats.h, Documentation/accounting/taskstats.rst. From version 12 on,
the first with the process of a thread, fields were appended only, except in version 15, which moved
them.

A message is sent before the end of the task, so what the task does later is not in it. CPU time
that the scheduler has not accounted yet is missing, too: that of a task that lives shorter than a
tick may be 0. The time that a task waited for a CPU is complete.
"""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import struct
import sys
import time
from array import array
from collections.abc import Iterator
from typing import NamedTuple

from schedperf_collectors.contract import Unavailable
from schedperf_collectors.machine.system import System, unavailable

# Versions of struct taskstats with the offsets below.
FIRST_VERSION, MOVED_VERSION = 12, 15
# 100 bytes each; 5,000 tasks per second for three minutes.
MOST_EXITS = 1_000_000
_BUFFER_BYTES = 64 << 20
_DATAGRAM_BYTES = 1 << 16

# From include/uapi/linux/netlink.h, genetlink.h and taskstats.h; asm-generic/socket.h.
_NETLINK_GENERIC = 16
_SO_RCVBUFFORCE = 33
_NLM_F_REQUEST, _NLM_F_ACK = 1, 4
_NLMSG_ERROR = 2
_GENL_ID_CTRL, _CTRL_CMD_GETFAMILY = 16, 3
_CTRL_ATTR_FAMILY_ID, _CTRL_ATTR_FAMILY_NAME = 1, 2
_TASKSTATS_CMD_GET, _ATTR_PID, _ATTR_REGISTER_CPUMASK = 1, 1, 3
_TYPE_STATS, _TYPE_AGGR_PID = 3, 4
_HEADER, _GENERIC, _ATTRIBUTE = struct.Struct("=IHHII"), struct.Struct("=BBH"), struct.Struct("=HH")
_TYPE_MASK = 0x3FFF

# cpu_delay_total; cpu_run_virtual_total, ac_comm; ac_pid, ac_ppid, ac_etime, ac_utime, ac_stime,
# ac_minflt, ac_majflt; ac_tgid.
_FIELDS = struct.Struct("=24xQ40xQ32s16xII8xQQQQQ184xI")


class Exit(NamedTuple):
    """One task that ended.

    :param process: pid of its process
    :param parent: pid of the parent of its process
    :param seen_us: when its message was read, on the monotonic clock
    :param lifetime_us: elapsed time from its start to its message
    :param exec_ns: CPU time as the scheduler counts it
    :param waiting_ns: time that it was runnable but not running
    :param user_us: CPU time in user mode by ticks
    :param system_us: CPU time in kernel mode by ticks
    :param minor_faults: page faults without I/O
    :param command: index into :attr:`Exits.commands`
    """

    pid: int
    process: int
    parent: int
    seen_us: int
    lifetime_us: int
    exec_ns: int
    waiting_ns: int
    user_us: int
    system_us: int
    minor_faults: int
    major_faults: int
    command: int

    def scaled(self) -> Exit:
        """Return it with user and system time that add up to ``exec_ns``, as in /proc/PID/stat.

        The kernel scales the times of a running task (``cputime_adjust``), but not those of this
        message, so that only scaled times may be subtracted from each other.
        """
        exec_us, ticks_us = self.exec_ns // 1000, self.user_us + self.system_us
        user_us = exec_us * self.user_us // ticks_us if ticks_us else exec_us
        return self._replace(user_us=user_us, system_us=exec_us - user_us)


_WIDTH = len(Exit._fields)


class Exits:
    """The tasks that have ended since :meth:`forget`, in the order of their messages.

    :ivar commands: names of all tasks, each once
    :ivar left_out: number of tasks beyond the first :data:`MOST_EXITS`
    """

    def __init__(self, system: System) -> None:
        """Ask the kernel for the messages of all CPUs.

        :raises Unavailable: the kernel has no taskstats, another version of them, or no CPU and
            waiting times in them, or this user may not read them
        """
        self.commands: list[str] = []
        self.left_out = 0
        self._system = system
        self._drops_before: int | None = 0
        self._numbers: dict[bytes, int] = {}
        self._table = array("Q")
        try:
            self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETLINK_GENERIC)
        except OSError as error:
            raise _refused(error) from error
        try:
            self._register(system.text("/sys/devices/system/cpu/possible").encode())
        except BaseException:
            self._socket.close()
            raise

    def _register(self, cpus: bytes) -> None:
        try:
            self._socket.bind((0, 0))
            with contextlib.suppress(PermissionError):
                self._socket.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, _BUFFER_BYTES)
            name = _attribute(_CTRL_ATTR_FAMILY_NAME, b"TASKSTATS\0")
            answer = dict(_attributes(self._ask(_GENL_ID_CTRL, _CTRL_CMD_GETFAMILY, name)))
            family = int.from_bytes(answer.get(_CTRL_ATTR_FAMILY_ID, b""), sys.byteorder)
            own = _attribute(_ATTR_PID, struct.pack("=I", os.getpid()))
            # Reading this clock makes the scheduler account for this thread's CPU time until now.
            time.thread_time()
            _check_own(self._ask(family, _TASKSTATS_CMD_GET, own))
            mask = _attribute(_ATTR_REGISTER_CPUMASK, cpus + b"\0")
            self._ask(family, _TASKSTATS_CMD_GET, mask)
            self._socket.settimeout(0)
        except OSError as error:
            raise _refused(error) from error

    def _ask(self, family: int, command: int, attributes: bytes) -> bytes:
        """Send a request; return the attributes of the answer, which is empty if there is none.

        :raises OSError: the kernel refuses the request
        """
        body = _GENERIC.pack(command, 1, 0) + attributes
        flags = _NLM_F_REQUEST | _NLM_F_ACK
        self._socket.send(_HEADER.pack(_HEADER.size + len(body), family, flags, 1, 0) + body)
        answer = b""
        while True:
            for kind, content in _messages(self._socket.recv(_DATAGRAM_BYTES)):
                if kind == _NLMSG_ERROR:
                    (code,) = struct.unpack_from("=i", content)
                    if code:
                        raise OSError(-code, os.strerror(-code))
                    return answer
                answer = content[_GENERIC.size :]

    def __len__(self) -> int:
        return len(self._table) // _WIDTH

    def __iter__(self) -> Iterator[Exit]:
        table = self._table
        return (Exit(*table[at : at + _WIDTH]) for at in range(0, len(table), _WIDTH))

    def read(self) -> None:
        """Read all messages that have come."""
        while True:
            try:
                datagram = self._socket.recv(_DATAGRAM_BYTES)
            except BlockingIOError:
                return
            except OSError as error:
                # The kernel has dropped messages, which /proc/net/netlink counts.
                if error.errno != errno.ENOBUFS:
                    raise
                continue
            seen_us = time.monotonic_ns() // 1000
            for _, content in _messages(datagram):
                self._add(content, seen_us)

    def _add(self, content: bytes, seen_us: int) -> None:
        stats = _stats_of(content[_GENERIC.size :])
        # Other messages are sums of a process.
        if stats is not None and len(stats) >= _FIELDS.size:
            self._append(stats, seen_us)

    def _append(self, stats: bytes, seen_us: int) -> None:
        if len(self) >= MOST_EXITS:
            self.left_out += 1
            return
        waiting, execution, comm, pid, parent, *others, process = _FIELDS.unpack_from(stats)
        lifetime, user, system, minor, major = others
        used = (lifetime, execution, waiting, user, system, minor, major)
        self._table.extend((pid, process, parent, seen_us, *used, self._number_of(comm)))

    def _number_of(self, comm: bytes) -> int:
        number = self._numbers.setdefault(comm, len(self.commands))
        if number == len(self.commands):
            self.commands.append(comm.partition(b"\0")[0].decode("utf-8", "replace"))
        return number

    def forget(self) -> None:
        """Read and drop all messages so far."""
        self.read()
        self._table = array("Q")
        self.left_out = 0
        self._drops_before = self._drops()

    def lost(self) -> int | None:
        """Return how many messages since :meth:`forget` were dropped; None if that is unknown."""
        drops = self._drops()
        if drops is None or self._drops_before is None:
            return None
        return drops - self._drops_before

    def _drops(self) -> int | None:
        """Return how many messages the kernel has dropped; None if it does not report that."""
        inode = str(os.fstat(self._socket.fileno()).st_ino)
        with contextlib.suppress(Unavailable):
            # sk Eth Pid Groups Rmem Wmem Dump Locks Drops Inode
            for line in self._system.text("/proc/net/netlink").splitlines():
                *_, drops, number = line.split()
                if number == inode:
                    return int(drops)
        return None

    def close(self) -> None:
        """Stop receiving messages."""
        self._socket.close()


def _refused(error: OSError) -> Unavailable:
    if error.errno == errno.ENOENT:
        return Unavailable("this kernel has no taskstats (CONFIG_TASKSTATS)")
    if error.errno == errno.EINVAL:
        return Unavailable("taskstats do not work inside a pid or user namespace")
    refused = unavailable("taskstats", error)
    if error.errno == errno.EPERM:
        refused.remedy = "run as root, or with CAP_NET_ADMIN"
    return refused


def _stats_of(attributes: bytes) -> bytes | None:
    """Return the struct taskstats of a task; None if the message is not of a single task."""
    aggregate = dict(_attributes(attributes)).get(_TYPE_AGGR_PID)
    return None if aggregate is None else dict(_attributes(aggregate)).get(_TYPE_STATS)


def _check_own(attributes: bytes) -> None:
    """Check the message about this process, which has used CPU time.

    :raises Unavailable: its version is unknown, or the kernel leaves CPU and waiting time at 0
    """
    stats = _stats_of(attributes) or b""
    version = int.from_bytes(stats[:2], sys.byteorder)
    if version < FIRST_VERSION or version == MOVED_VERSION or len(stats) < _FIELDS.size:
        raise Unavailable(
            f"version {version} of the kernel's taskstats (expected {FIRST_VERSION} or newer, "
            f"except {MOVED_VERSION})"
        )
    _, exec_ns, *_ = _FIELDS.unpack_from(stats)
    if not exec_ns:
        raise Unavailable(
            "no CPU and waiting times in this kernel's taskstats",
            "boot a kernel with CONFIG_TASK_DELAY_ACCT=y",
        )


def _attribute(kind: int, value: bytes) -> bytes:
    length = _ATTRIBUTE.size + len(value)
    return _ATTRIBUTE.pack(length, kind) + value + bytes(-length % 4)


def _attributes(content: bytes) -> Iterator[tuple[int, bytes]]:
    at = 0
    while at + _ATTRIBUTE.size <= len(content):
        length, kind = _ATTRIBUTE.unpack_from(content, at)
        if length < _ATTRIBUTE.size:
            return
        yield kind & _TYPE_MASK, content[at + _ATTRIBUTE.size : at + length]
        at += length + -length % 4


def _messages(datagram: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield type and content of each netlink message of a datagram."""
    at = 0
    while at + _HEADER.size <= len(datagram):
        length, kind, *_ = _HEADER.unpack_from(datagram, at)
        if length < _HEADER.size:
            return
        yield kind, datagram[at + _HEADER.size : at + length]
        at += length + -length % 4
