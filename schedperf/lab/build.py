# SPDX-License-Identifier: GPL-2.0-or-later
"""Build commits, each in the same check-out, and cache the results by the hash of their tree.

::

    builds/TREE/bzImage, System.map, config    a kernel; System.map and config are optional
    builds/TREE/modules/lib/modules/RELEASE    its modules, if it has any
    builds/TREE/cmdline                        further arguments for its command line; optional
    builds/TREE.log                            what the build printed

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
from functools import cache
from pathlib import Path
from typing import IO

from msgspec import Struct
from msgspec.structs import replace

from schedperf.inputs.bundle.durable import write_durably
from schedperf.inputs.bundle.files import read_regular
from schedperf.inputs.git import Checkouts
from schedperf.lab.failed import Failed
from schedperf.lab.group import end_group, signals_delayed
from schedperf.lab.vm.images import Kernel, read_kernel
from schedperf.model.errors import InputError
from schedperf.model.text import clean_line

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
_KEY_DIGITS = 12
_VERSION_LIMIT_S = 10.0
# What programs print if errno is ENOSPC: such a commit may build on another day.
_FULL = "no space left on device"

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


class BuildFailed(Failed):
    """A commit does not build."""


class _Late(BuildFailed):
    """A build was killed at its time limit."""


class Recipe(Struct, frozen=True, kw_only=True):
    """How commits are built.

    :param command: shell command, run in the check-out
    :param config: configuration of the kernel; None if the command provides it
    :param limit_s: time limit in seconds; a longer build is killed
    :param makes_kernel: whether a result without a kernel image is a failure
    :param compiler_options: further options of the kernel's C compiler; the command gets them, and
        those of the user, in ``KCFLAGS``
    """

    command: str
    config: Path | None
    limit_s: float
    makes_kernel: bool = True
    compiler_options: str = ""

    def key(self) -> str:
        """Return a hash of the command, configuration, compiler options and compiler versions."""
        config = b"" if self.config is None else self.config.read_bytes()
        texts = (*_toolchain(), *filter(None, [self.compiler_options]))
        parts = (self.command.encode(), config, *map(str.encode, texts))
        return hashlib.sha256(b"\0".join(parts)).hexdigest()


class Builder:
    """Builds commits one after the other in one check-out, so that objects are reused.

    There is a check-out per recipe. If a build was killed or fails, the check-out is removed; a
    build that failed among the objects of an earlier commit is repeated without them.

    :param checkouts: the repository of the check-out
    :param folder: directory of the results
    """

    def __init__(self, checkouts: Checkouts, folder: Path, recipe: Recipe) -> None:
        self._checkouts = checkouts
        self._folder = folder
        self._recipe = recipe

    def existing(self, commit: str) -> Path | None:
        """Return the directory of a result that the same recipe made from the same tree.

        :param commit: full hash
        :return: None if there is none
        """
        result = self._folder / self._checkouts.tree_of(commit)
        try:
            same = (result / _KEY).read_text() == self._recipe.key()
        except OSError:
            return None
        return result if same else None

    def build(self, commit: str) -> Path:
        """Return the directory of a commit's result; build it if there is none.

        :param commit: full hash
        :raises BuildFailed: the command fails, takes too long or leaves no kernel image
        :raises InputError: the log or the result cannot be written
        """
        existing = self.existing(commit)
        if existing is not None:
            return existing
        try:
            return self._build(commit)
        except OSError as error:
            raise self._full(error.filename, error.strerror or str(error)) from error

    def _build(self, commit: str) -> Path:
        name = f"tree-{self._recipe.key()[:_KEY_DIGITS]}"
        # This file is left if a build does not end well: objects may then be damaged.
        running = self._folder / f"{name}.building"
        if running.exists():
            self._checkouts.remove(name)
        has_objects = self._checkouts.has(name)
        self._folder.mkdir(parents=True, exist_ok=True)
        write_durably(running, b"")
        try:
            result = self._run(commit, self._checkouts.move(name, commit))
        except BuildFailed as error:
            self._checkouts.remove(name)
            running.unlink()
            if has_objects and not isinstance(error, _Late):
                return self._build(commit)
            raise
        running.unlink()
        return result

    def _run(self, commit: str, tree: Path) -> Path:
        hash_ = self._checkouts.tree_of(commit)
        partial, result = self._folder / f"{hash_}.partial", self._folder / hash_
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir()
        environment = {
            **os.environ,
            "SCHEDPERF_OUT": str(partial.resolve()),
            "SCHEDPERF_COMMIT": commit,
        }
        if self._recipe.config is not None:
            environment["SCHEDPERF_CONFIG"] = str(self._recipe.config.resolve())
        if self._recipe.compiler_options:
            given = environment.get("KCFLAGS", "")
            environment["KCFLAGS"] = f"{given} {self._recipe.compiler_options}".strip()
        log, limit_s = self._folder / f"{hash_}.log", self._recipe.limit_s
        status, said = run_logged(self._recipe.command, tree, environment, log, limit_s)
        if status is None:
            raise _Late(f"not finished after {limit_s:.0f} s (--build-timeout); log: {log}")
        if status and _FULL in said.lower():
            raise self._full(None, said)
        if status:
            raise BuildFailed(f"exit status {status}: {said or 'no output'}; log: {log}")
        if self._recipe.makes_kernel and find_image(partial) is None:
            raise BuildFailed(f"the build left no bzImage in $SCHEDPERF_OUT; log: {log}")
        write_durably(partial / _KEY, self._recipe.key().encode())
        shutil.rmtree(result, ignore_errors=True)
        partial.rename(result)
        return result

    def _full(self, name: object, reason: str) -> InputError:
        return InputError(
            f"{name or self._folder}: {reason.lower()}; free space there, or give another "
            "--output, and repeat the command"
        )


@cache
def _toolchain() -> tuple[str, ...]:
    """Return the first lines that the compilers, the linker and the assembler print as versions."""
    versions = []
    for program in (os.environ.get("CC") or "cc", "ld", "as", "clang", "rustc"):
        try:
            ran = subprocess.run(
                [*shlex.split(program), "--version"], stdin=subprocess.DEVNULL,
                capture_output=True, timeout=_VERSION_LIMIT_S, check=False,
            )  # fmt: skip
        except (OSError, ValueError, subprocess.TimeoutExpired):
            continue
        versions.append(ran.stdout.partition(b"\n")[0].decode("utf-8", "replace"))
    return tuple(versions)


def run_logged(
    command: str, folder: Path, environment: Mapping[str, str], log: Path, limit_s: float
) -> tuple[int | None, str]:
    """Run a shell command; return its exit status, and its first error, or else its last line.

    The status is None if the command was killed at its time limit, and the line is "" without
    output. The output is written to a file; of more than 8 MiB, the middle is left out.

    :param folder: working directory
    :param limit_s: time limit in seconds
    :raises OSError: the log cannot be written
    """
    with signals_delayed() as deliver:
        process = subprocess.Popen(
            ["/bin/sh", "-c", command],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=deliver,  # noqa: PLW1509 # this process has one thread
        )
        try:
            deliver()
            with log.open("wb") as file:
                tail = _copy_output(process, file, time.monotonic() + limit_s)
            is_over = process.poll() is not None
            status = process.returncode if is_over else None
        finally:
            end_group(process)
            if process.stdout is not None:
                process.stdout.close()
    lines = [clean_line(line) for line in tail.decode("utf-8", "replace").splitlines()]
    wanted = (_FULL, "error:")
    errors = (line for what in wanted for line in lines if what in line.lower())
    return status, next(errors, next(filter(None, reversed(lines)), ""))[:200]


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
