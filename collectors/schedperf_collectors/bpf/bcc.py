# SPDX-License-Identifier: GPL-2.0-or-later
"""Compile and attach BPF programs with the distribution's bcc.

bcc prints the reason of a failure on standard error and raises an :class:`Exception` that often has
less detail, so both are used.
"""

from __future__ import annotations

import ctypes
import importlib
import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any, Callable

from schedperf_collectors.bpf.probes import FENTRY, Programs, as_root
from schedperf_collectors.contract import Unavailable, cut
from schedperf_collectors.machine.cpu import possible_cpus
from schedperf_collectors.machine.system import System, last_line, or_none, run
from schedperf_collectors.plugin import Skipped

# Where bcc looks for headers, in this order (src/cc/frontends/clang/kbuild_helper.cc).
HEADERS = ("/lib/modules/{release}/build", "/sys/kernel/kheaders.tar.xz")
_KHEADERS = "boot a kernel with CONFIG_IKHEADERS=y"
# A reason is one line in a bundle; a compiler's message may name a path of any length.
LONGEST_REASON = 200


class BccPrograms(Programs):
    """The compiled programs of one capture.

    The text contains ``kfunc__NAME`` and ``kretfunc__NAME`` for the entry and exit of function
    ``NAME``. bcc derives the target of fentry and fexit from these names; kprobes run the same
    code. The program of a tracepoint is ``count__NAME``.
    """

    def __init__(self, bpf: Any) -> None:
        self._bpf = bpf
        self.cpus = possible_cpus(System())

    def attach_pair(self, mechanism: str, name: str) -> None:
        bpf, function = self._bpf, name.encode()
        entry, end = b"kfunc__" + function, b"kretfunc__" + function
        try:
            if mechanism == FENTRY:
                _attach_both(
                    partial(bpf.attach_kfunc, entry),
                    partial(bpf.attach_kretfunc, end),
                    partial(bpf.detach_kfunc, entry),
                )
            else:
                _attach_both(
                    partial(bpf.attach_kprobe, event=function, fn_name=entry),
                    partial(bpf.attach_kretprobe, event=function, fn_name=end),
                    partial(bpf.detach_kprobe, function, entry),
                )
        except Unavailable:
            self._unload(entry, end)
            raise

    def attach_raw_tracepoint(self, name: str) -> None:
        tracepoint, function = name.encode(), b"count__" + name.encode()
        _attempt(partial(self._bpf.attach_raw_tracepoint, tp=tracepoint, fn_name=function))

    def write(self, table: str, index: int, value: int) -> None:
        array = self._bpf[table]
        array[ctypes.c_int(index)] = ctypes.c_uint64(value)

    def read(self, table: str, index: int) -> dict[int, Any]:
        values = self._bpf[table][ctypes.c_int(index)]
        # The kernel returns one value per possible CPU in ascending order, without gaps.
        return dict(zip(self.cpus, values))

    def close(self) -> None:
        self._bpf.cleanup()

    def _unload(self, *programs: bytes) -> None:
        # Programs that were loaded for one mechanism cannot be attached by another.
        for program in programs:
            loaded = self._bpf.funcs.pop(program, None)
            if loaded is not None:
                os.close(loaded.fd)


def compile_programs(system: System, text: str, constants: Mapping[str, int]) -> BccPrograms:
    """Compile a text in bcc's C.

    :param text: the programs, named as :class:`BccPrograms` requires
    :param constants: values of macros that it uses, by name
    :raises Skipped: bcc or the kernel's headers are missing, or bcc cannot compile here
    """
    bcc = _import_bcc()
    check_headers(system)
    # The constructor would attach every program by name and stop at the first error.
    manual = type("Manual", (bcc.BPF,), {"_trace_autoload": lambda _self: None})
    flags = [f"-D{name}={value}" for name, value in constants.items()]
    try:
        return BccPrograms(_attempt(partial(manual, text=text, cflags=flags)))
    except Unavailable as error:
        raise Skipped(f"bcc cannot compile the BPF programs: {error.reason}", as_root()) from error


def check_headers(system: System) -> None:
    """Look for the kernel headers that bcc compiles against.

    :raises Skipped: they are not installed
    """
    release = system.text("/proc/sys/kernel/osrelease")
    if not any(system.exists(pattern.format(release=release)) for pattern in HEADERS):
        raise Skipped(
            f"the headers of kernel {release}, which bcc needs, are not installed",
            _headers_remedy(f"linux-headers-{release}"),
        )


def _headers_remedy(package: str) -> str:
    if shutil.which("apt-cache") and not or_none(lambda: run(["apt-cache", "show", package])):
        return f"{_KHEADERS} (apt has no package {package})"
    return f"run `apt-get install {package}`, or {_KHEADERS}"


def _import_bcc() -> Any:
    try:
        return importlib.import_module("bcc")
    except ModuleNotFoundError:
        raise Skipped(
            "python3-bpfcc is not installed", "run `apt-get install python3-bpfcc`"
        ) from None
    except (ImportError, OSError) as error:
        # The Python part is installed, but its library is missing or of another version.
        raise Skipped(
            f"bcc cannot be imported: {_shorten(str(error))}", "run `apt-get install python3-bpfcc`"
        ) from error


def _attach_both(
    first: Callable[[], object], second: Callable[[], object], undo_first: Callable[[], object]
) -> None:
    _attempt(first)
    try:
        _attempt(second)
    except Unavailable:
        _attempt(undo_first)
        raise


def _attempt(step: Callable[[], Any]) -> Any:
    """Call bcc and capture its output.

    Exceptions of subclasses of :class:`Exception`, which bcc itself does not raise, pass unchanged.

    :raises Unavailable: bcc failed; the reason is the first line of its output with "error", else
        the last line, else the text of its exception
    """
    with tempfile.TemporaryFile() as printed:
        try:
            with _printing_to(printed.fileno()):
                return step()
        except Exception as error:
            if type(error) is not Exception:  # bcc raises nothing narrower
                raise
            printed.seek(0)
            text = printed.read().decode("utf-8", "replace")
            raise Unavailable(_reason(text, str(error))) from error


@contextmanager
def _printing_to(file: int) -> Iterator[None]:
    # bcc is a C library: it prints to the file descriptors, and buffers standard output.
    flush = ctypes.CDLL(None).fflush
    kept = {stream: os.dup(stream) for stream in (1, 2)}
    flush(None)
    try:
        for stream in kept:
            os.dup2(file, stream)
        yield
    finally:
        flush(None)
        for stream, copy in kept.items():
            os.dup2(copy, stream)
            os.close(copy)


def _reason(printed: str, raised: str) -> str:
    errors = [line for line in printed.splitlines() if re.search(r"\berror\b", line)]
    return _shorten(errors[0] if errors else last_line(printed) or raised)


def _shorten(text: str) -> str:
    return cut(" ".join(text.split()).rstrip(".").lower(), LONGEST_REASON)
