# SPDX-License-Identifier: GPL-2.0-or-later
"""Build the kernel of a commit in its check-out, and cache the result by the commit's hash.

::

    builds/HASH/bzImage, System.map, config    the kernel; System.map and config are optional
    builds/HASH/modules/lib/modules/RELEASE    its modules, if it has any
    builds/HASH/cmdline                        further arguments for its command line; optional
    builds/HASH.log                            what the build printed

A directory gets its final name when it is complete, so a killed build leaves no usable result.
"""

import contextlib
import hashlib
import os
import selectors
import shlex
import shutil
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import IO

from msgspec import Struct
from msgspec.structs import replace

from schedperf.inputs.bundle.files import read_regular
from schedperf.lab.group import end_group
from schedperf.lab.vm.images import Kernel, read_kernel
from schedperf.model.errors import InputError
from schedperf.model.text import clean_line

BUILD_LIMIT_S = 7200.0
# A build of all modules with its warnings prints several megabytes.
LOG_LIMIT_BYTES = 8 << 20
_TAIL_BYTES = 1 << 14
_CHUNK_BYTES = 1 << 16
_LOOK_S = 0.2
# The kernel accepts command lines of 2048 bytes.
_ARGUMENTS_BYTES = 1024
_IMAGES = ("bzImage", "vmlinuz", "arch/x86/boot/bzImage")
_SYSTEM_MODULES = Path("/lib/modules")
_KEY = "build"

DEFAULT_BUILD = """\
set -e
cp "$SCHEDPERF_CONFIG" .config
make olddefconfig
make -j"$(nproc)" bzImage
cp arch/x86/boot/bzImage System.map "$SCHEDPERF_OUT"
cp .config "$SCHEDPERF_OUT/config"
if grep -q '=m$' .config; then
    make -j"$(nproc)" modules
    make INSTALL_MOD_PATH="$SCHEDPERF_OUT/modules" INSTALL_MOD_STRIP=1 modules_install
fi
"""


class BuildFailed(Exception):
    """A commit does not build.

    :param reason: one line
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Builder(Struct, frozen=True, kw_only=True):
    """Builds kernels with one command and configuration.

    :param folder: directory of the results
    :param command: shell command, run in the check-out
    :param config: configuration of the kernel; None if the command provides it
    :param limit_s: time limit in seconds; a longer build is killed
    """

    folder: Path
    command: str
    config: Path | None
    limit_s: float

    def existing(self, commit: str) -> Path | None:
        """Return the directory of a kernel that the same command built with the same configuration.

        :param commit: full hash
        :return: None if there is none
        """
        result = self.folder / commit
        try:
            same = (result / _KEY).read_text() == self._key()
        except OSError:
            return None
        return result if same else None

    def build(self, commit: str, tree: Path) -> Path:
        """Build a check-out; return the directory of the kernel.

        :param commit: full hash
        :param tree: the check-out
        :raises BuildFailed: the command fails, takes too long or leaves no kernel image
        :raises InputError: the log or the result cannot be written
        """
        try:
            return self._build(commit, tree)
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise InputError(
                f"{error.filename or self.folder}: {reason}; free space there, or give another "
                "--output, and repeat the command"
            ) from error

    def _build(self, commit: str, tree: Path) -> Path:
        partial = self.folder / f"{commit}.partial"
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        environment = {
            **os.environ,
            "SCHEDPERF_OUT": str(partial.resolve()),
            "SCHEDPERF_COMMIT": commit,
        }
        if self.config is not None:
            environment["SCHEDPERF_CONFIG"] = str(self.config.resolve())
        log = self.folder / f"{commit}.log"
        status, last = run_logged(self.command, tree, environment, log, self.limit_s)
        if status is None:
            raise BuildFailed(
                f"not finished after {self.limit_s:.0f} s (--build-timeout); log: {log}"
            )
        if status:
            raise BuildFailed(f"exit status {status}: {last or 'no output'}; log: {log}")
        if find_image(partial) is None:
            raise BuildFailed(f"the build left no bzImage in $SCHEDPERF_OUT; log: {log}")
        (partial / _KEY).write_text(self._key())
        result = self.folder / commit
        shutil.rmtree(result, ignore_errors=True)
        partial.rename(result)
        return result

    def _key(self) -> str:
        config = b"" if self.config is None else self.config.read_bytes()
        return hashlib.sha256(self.command.encode() + b"\0" + config).hexdigest()


def run_logged(
    command: str, folder: Path, environment: Mapping[str, str], log: Path, limit_s: float
) -> tuple[int | None, str]:
    """Run a shell command; return its exit status and its last line that is not empty.

    The status is None if the command was killed at its time limit, and the line is "" without
    output. The output is written to a file; of more than 8 MiB, the middle is left out.

    :param folder: working directory
    :param limit_s: time limit in seconds
    :raises OSError: the log cannot be written
    """
    process = subprocess.Popen(
        ["/bin/sh", "-c", command],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        with log.open("wb") as file:
            tail = _copy_output(process, file, time.monotonic() + limit_s)
        is_over = process.poll() is not None
        status = process.returncode if is_over else None
    finally:
        end_group(process)
        if process.stdout is not None:
            process.stdout.close()
    lines = [clean_line(line) for line in tail.decode("utf-8", "replace").splitlines()]
    return status, next((line for line in reversed(lines) if line), "")[:200]


def _copy_output(process: "subprocess.Popen[bytes]", file: IO[bytes], deadline_s: float) -> bytes:
    """Copy the output of a process until it ends, or until the deadline; return its last 16 KiB.

    :param deadline_s: on the monotonic clock
    """
    assert process.stdout is not None
    tail, written, left_out = b"", 0, 0
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        while time.monotonic() < deadline_s:
            # A daemon that the build started may keep the pipe open.
            is_over = process.poll() is not None
            data = b""
            if selector.select(0 if is_over else _LOOK_S):
                data = os.read(process.stdout.fileno(), _CHUNK_BYTES)
                if not data:
                    with contextlib.suppress(subprocess.TimeoutExpired):
                        process.wait(max(0.0, deadline_s - time.monotonic()))
                    break
            elif is_over:
                break
            tail = (tail + data)[-_TAIL_BYTES:]
            kept = data[: max(0, LOG_LIMIT_BYTES - written)]
            file.write(kept)
            written += len(kept)
            left_out += len(data) - len(kept)
    if left_out:
        file.write(f"\n[{left_out} bytes of output left out; their end:]\n".encode() + tail)
    return tail


def find_image(folder: Path) -> Path | None:
    """Return the kernel image of a directory; None if there is none."""
    paths = [folder / name for name in _IMAGES]
    paths += sorted(folder.glob("vmlinuz-*")) + sorted(folder.glob("boot/vmlinuz-*"))
    return next((path for path in paths if path.is_file()), None)


def read_built(folder: Path, name: str, label: str) -> Kernel:
    """Read the kernel of a directory that :class:`Builder` or another builder wrote.

    :param name: name of its bundle
    :param label: label of its bundle
    :raises InputError: the directory has no kernel image, a guest cannot boot the image, or
        ``cmdline`` is invalid
    """
    image = find_image(folder)
    if image is None:
        raise InputError(
            f"{folder}: no kernel image (expected a file {', '.join(_IMAGES)}); build it"
        )
    inside = folder / "modules" / "lib" / "modules"
    kernel = read_kernel(name, image, None, inside if inside.is_dir() else _SYSTEM_MODULES)
    own = inside / kernel.release
    return replace(
        kernel,
        label=label,
        arguments=_read_arguments(folder / "cmdline"),
        modules=own if own.is_dir() else kernel.modules,
    )


def _read_arguments(path: Path) -> str:
    if not path.exists():
        return ""
    text = read_regular(path, _ARGUMENTS_BYTES, "kernel arguments").decode("utf-8", "replace")
    line = " ".join(text.split())
    if not (line.isascii() and line.isprintable()):
        raise InputError(f"{path}: invalid kernel arguments (expected printable ASCII); correct it")
    # virtme-ng splits arguments as a shell does.
    return shlex.join(line.split())
