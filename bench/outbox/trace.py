# SPDX-License-Identifier: GPL-2.0-or-later
"""Run a function in a child process, and kill it before one of its system calls."""

import ctypes
import os
import signal
from collections.abc import Callable
from typing import NamedTuple

# Constants of <sys/ptrace.h>.
_TRACEME = 0
_SYSCALL = 24
_SETOPTIONS = 0x4200
_GET_SYSCALL_INFO = 0x420E
_TRACESYSGOOD = 1
_EXITKILL = 0x100000
_SYSCALL_STOP = signal.SIGTRAP | 0x80
_ENTRY = 1

# Numbers of the system calls that mark the phases of a delivery.
_NUMBERS = {
    "x86_64": {"connect": 42, "sendto": 44, "recvfrom": 45, "rename": 82},
    "aarch64": {"connect": 203, "sendto": 206, "recvfrom": 207, "rename": 38},
}

_libc = ctypes.CDLL(None, use_errno=True)
_libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
_libc.ptrace.restype = ctypes.c_long


class _SyscallInfo(ctypes.Structure):
    """The beginning of ``struct ptrace_syscall_info``."""

    _fields_ = (
        ("op", ctypes.c_uint8),
        ("arch", ctypes.c_uint32),
        ("instruction_pointer", ctypes.c_uint64),
        ("stack_pointer", ctypes.c_uint64),
        ("number", ctypes.c_uint64),
        ("arguments", ctypes.c_uint64 * 6),
    )


class Traced(NamedTuple):
    """What a child process did.

    :param calls: its system calls from the first counted one on: names of those in ``_NUMBERS``,
        numbers of the others
    :param killed: whether it was killed
    :param status: exit status; None if it was killed
    """

    calls: tuple[str, ...]
    killed: bool
    status: int | None


def run_traced(
    function: Callable[[], int], kill_before: int | None, first: str | None = "rename"
) -> Traced:
    """Run a function in a child process and trace its system calls.

    :param function: returns the exit status of the child
    :param kill_before: kill it before this system call, counted from the first that is counted,
        which is 0; None to let it end
    :param first: name of the first system call that is counted; None to count all
    :raises KeyError: the architecture is neither x86-64 nor arm64
    :raises OSError: ptrace fails
    """
    pid = os.fork()
    if pid == 0:
        _become(function)
    os.waitpid(pid, 0)
    _ptrace(_SETOPTIONS, pid, _TRACESYSGOOD | _EXITKILL)
    names = {number: name for name, number in _NUMBERS[os.uname().machine].items()}
    calls: list[str] = []
    pending = 0
    while True:
        _ptrace(_SYSCALL, pid, pending)
        pending = 0
        _, status = os.waitpid(pid, 0)
        if os.WIFEXITED(status):
            return Traced(tuple(calls), killed=False, status=os.WEXITSTATUS(status))
        if os.WIFSIGNALED(status):
            return Traced(tuple(calls), killed=True, status=None)
        if os.WSTOPSIG(status) != _SYSCALL_STOP:
            pending = os.WSTOPSIG(status)
            continue
        number = _entered(pid)
        if number is None:
            continue
        name = names.get(number, str(number))
        if not calls and first is not None and name != first:
            continue
        if len(calls) == kill_before:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            return Traced(tuple(calls), killed=True, status=None)
        calls.append(name)


def _become(function: Callable[[], int]) -> None:
    """In the child: stop until the parent traces it, call the function, and exit."""
    status = 1
    try:
        _libc.ptrace(_TRACEME, 0, None, None)
        os.kill(os.getpid(), signal.SIGSTOP)
        status = function()
    finally:
        os._exit(status)


def _entered(pid: int) -> int | None:
    """Return the number of the system call that a stopped child is about to make.

    Return None if it stopped at the end of a system call.

    :raises OSError: ptrace fails
    """
    info = _SyscallInfo()
    size = ctypes.sizeof(info)
    if _libc.ptrace(_GET_SYSCALL_INFO, pid, size, ctypes.byref(info)) < 0:
        raise OSError(ctypes.get_errno(), "PTRACE_GET_SYSCALL_INFO")
    return info.number if info.op == _ENTRY else None


def _ptrace(request: int, pid: int, data: int) -> None:
    if _libc.ptrace(request, pid, None, data) < 0:
        raise OSError(ctypes.get_errno(), f"ptrace request {request}")
