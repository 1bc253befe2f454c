# SPDX-License-Identifier: GPL-2.0-or-later
"""Set nice value, slice and latency-nice of this process for its children to inherit.

Kernels ignore unknown fields in sched_setattr(2), so the slice is read back.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct

from schedperf_collectors.machine.errors import RecordError

# System call number of sched_setattr(2), by architecture (else that of asm-generic);
# sched_getattr(2) has the next number.
_SETATTR = {"x86_64": 314, "i686": 351, "armv7l": 380, "ppc64": 355, "ppc64le": 355, "s390x": 345}
_SETATTR_GENERIC = 274

# struct sched_attr: size, policy, flags, nice, priority, runtime, deadline, period, util_min,
# util_max; the patches of latency-nice add one field.
_ATTR = struct.Struct("=IIQiIQQQII")
_LATENCY_NICE = struct.Struct("=i")
_RUNTIME = 5

_KEEP_ALL = 0x18
_FLAG_LATENCY_NICE = 0x80

# SCHED_OTHER and SCHED_BATCH.
_FAIR = (0, 3)


def set_nice(nice: int) -> None:
    """Set this process's nice value.

    :raises RecordError: this user may not set this value
    """
    try:
        os.setpriority(os.PRIO_PROCESS, 0, nice)
    except OSError as error:
        raise RecordError(
            f"--nice {nice}: {(error.strerror or str(error)).lower()}; run as root, or give a "
            "larger value"
        ) from error


def set_slice(slice_ns: int) -> None:
    """Set this process's slice in the fair class: ``sched_runtime`` of its attributes.

    :raises RecordError: the process is not in the fair class, the kernel does not support or allow
        it, or the kernel uses another slice
    """
    size, policy, *rest = _get()
    if policy not in _FAIR:
        raise RecordError(
            "--slice: this process is not scheduled by the fair class (expected SCHED_OTHER or "
            "SCHED_BATCH); leave out --slice"
        )
    fields = [size, policy, *rest]
    fields[_RUNTIME] = slice_ns
    _set(_ATTR.pack(*fields), "--slice")
    actual_ns = _get()[_RUNTIME]
    if actual_ns == 0:
        raise RecordError(
            "--slice: this kernel has no slices per task (expected Linux 6.12 or later); leave out "
            "--slice"
        )
    if actual_ns != slice_ns:
        raise RecordError(
            f"--slice: this kernel uses {actual_ns} ns instead of {slice_ns} ns (expected 100us to "
            "100ms); give a slice in this range"
        )


def set_latency_nice(latency_nice: int) -> None:
    """Set this process's latency-nice, which only kernels with out-of-tree patches have.

    :raises RecordError: the kernel does not support it, or refuses the value
    """
    attributes = _ATTR.pack(
        _ATTR.size + _LATENCY_NICE.size, 0, _FLAG_LATENCY_NICE | _KEEP_ALL, *(0,) * 7
    )
    _set(attributes + _LATENCY_NICE.pack(latency_nice), "--latency-nice")


def _set(attributes: bytes, option: str) -> None:
    try:
        _call(0, ctypes.create_string_buffer(attributes, len(attributes)), 0)
    except OSError as error:
        if option == "--latency-nice" and error.errno in {errno.EINVAL, errno.E2BIG}:
            raise RecordError(
                "--latency-nice: this kernel does not support it (mainline Linux does not); boot a "
                "kernel with the latency-nice patches, or use --slice"
            ) from error
        raise RecordError(
            f"{option}: {(error.strerror or str(error)).lower()}; leave out {option}"
        ) from error


def _get() -> tuple[int, ...]:
    buffer = ctypes.create_string_buffer(_ATTR.size)
    try:
        _call(1, buffer, _ATTR.size, 0)
    except OSError as error:
        raise RecordError(
            f"--slice: cannot read the attributes of this process ({error.strerror}); leave out "
            "--slice"
        ) from error
    return _ATTR.unpack(buffer.raw)


def _call(offset: int, *arguments: object) -> None:
    number = _SETATTR.get(os.uname().machine, _SETATTR_GENERIC) + offset
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.syscall(number, 0, *arguments) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
