# SPDX-License-Identifier: GPL-2.0-or-later
"""Boot kernels interleaved, and add each boot's runs to the bundle of its kernel.

The bundle is copied after each boot, and marked as incomplete if boots are missing.
"""

import contextlib
import fcntl
import shlex
import shutil
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from schedperf.lab.vm.guest import Event, GuestFailed, Hypervisor, KvmFailed, boot
from schedperf.lab.vm.images import Kernel
from schedperf.lab.vm.script import SHARE, Work, write_script
from schedperf.model.errors import InputError
from schedperf_collectors.contract import temporary_prefix
from schedperf_collectors.machine.errors import RecordError, explain
from schedperf_collectors.machine.new_files import copy_all, open_unplanted, replacing
from schedperf_collectors.recorder.bundle import (
    BundleWriter,
    bundle_mode,
    check_no_partial,
    examine,
)
from schedperf_collectors.recorder.plan import MOST_RUNS, orders
from schedperf_collectors.recorder.source import format_source

# Under emulation, one boot in twenty hangs with any kernel.
_ATTEMPTS = 2

What = Literal["booting", "recording", "again", "booted", "warning"]


class KernelFailed(InputError):
    """A kernel did not boot, or its guest died, in all attempts.

    :param kernel: index of the kernel
    :param reason: one line
    :param is_first: whether it has no finished boot in this session
    """

    def __init__(self, message: str, kernel: int, reason: str, *, is_first: bool) -> None:
        super().__init__(message)
        self.kernel = kernel
        self.reason = reason
        self.is_first = is_first


class PlannedBoot(Struct, frozen=True, kw_only=True):
    """One planned boot.

    :param kernel: index of the kernel
    :param round: index of the round
    """

    kernel: int
    round: int


def plan_boots(kernels: int, boots: int) -> Sequence[PlannedBoot]:
    """Plan ``boots`` boots of each kernel, in ``boots`` rounds.

    Each round boots every kernel once, in the orders of a Williams design (two kernels: ABBA), so
    that drift of this machine affects all kernels alike. The comparison pairs the boots of a round.

    >>> "".join("AB"[boot.kernel] for boot in plan_boots(2, 4))
    'ABBAABBA'
    >>> "".join("ABC"[boot.kernel] for boot in plan_boots(3, 2))
    'ABCCBA'
    """
    return [
        PlannedBoot(kernel=kernel, round=number)
        for number, order in enumerate(orders(kernels, boots))
        for kernel in order
    ]


class Request(Struct, frozen=True, kw_only=True):
    """What to boot and record.

    :param kernels: kernels to boot, base first
    :param boots: number of boots of each kernel
    :param work: what each boot records
    :param output: directory for one bundle per kernel
    """

    kernels: Sequence[Kernel]
    boots: int
    work: Work
    output: Path


class News(Struct, frozen=True, kw_only=True):
    """An event of a session.

    :param what: a boot begins ("booting"), the recorder has an event ("recording"), a guest failed
        ("again", also after the last attempt), a boot is finished ("booted"), or a warning
    :param boot: number of the boot, from 1
    :param boots: total number of boots
    :param kernel: name of the kernel
    :param event: event of the recorder in the guest; None unless ``what`` is "recording"
    :param text: why a guest failed, or the warning; "" for all others
    :param spent_s: time since the session began
    :param left_s: estimated remaining time; None before the first boot is finished
    """

    what: What
    boot: int
    boots: int
    kernel: str
    event: Event | None = None
    text: str = ""
    spent_s: float = 0.0
    left_s: float | None = None


Tell = Callable[[News], None]


def bundle_path(output: Path, kernel: Kernel) -> Path:
    """Return where the bundle of a kernel is."""
    return output / f"{kernel.name}.tar"


@contextlib.contextmanager
def claimed(paths: Sequence[Path]) -> Iterator[None]:
    """Lock these bundles against other sessions; a killed session leaves no lock.

    :raises InputError: another session writes one of them, or the directory is not writable
    """
    with contextlib.ExitStack() as stack:
        for path in paths:
            lock = path.with_name(f"{path.name}.lock")
            try:
                file = stack.enter_context(open(lock, "ab", opener=open_unplanted))
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise InputError(
                    f"{path}: another `schedperf vm` is writing to this path; wait until that "
                    "command has finished, or choose another --output"
                ) from error
            except OSError as error:
                raise InputError(
                    f"{path}: cannot be written ({explain(error)}); choose another --output"
                ) from error
            stack.callback(lock.unlink, missing_ok=True)
        yield


def record_in_guests(request: Request, hypervisor: Hypervisor, tell: Tell) -> None:
    """Run all boots; after an error the bundles contain every finished boot.

    :param tell: function that is called with each event
    :raises KernelFailed: a guest failed in both attempts of a boot
    :raises KvmFailed: KVM cannot run the first boot
    :raises InputError: a recording in a guest failed, KVM cannot run a later boot, another session
        writes the bundles, or the name of the temporary directory is unsuitable
    :raises OSError: a file cannot be copied, or a bundle cannot be written
    """
    paths = [bundle_path(request.output, kernel) for kernel in request.kernels]
    with claimed(paths), tempfile.TemporaryDirectory(prefix=temporary_prefix()) as folder:
        session = _Session(request, hypervisor, tell, _plain(Path(folder)))
        try:
            session.run()
        except BaseException as error:
            session.mark("interrupted" if isinstance(error, KeyboardInterrupt) else str(error))
            raise


class _Session:
    def __init__(self, request: Request, hypervisor: Hypervisor, tell: Tell, work: Path) -> None:
        self._request = request
        self._hypervisor = hypervisor
        self._tell = tell
        self._id = uuid.uuid4().hex
        self._plan = plan_boots(len(request.kernels), request.boots)
        self._made = [0] * len(request.kernels)
        # The kernel in whose last boot the recorder stopped early but kept its finished runs.
        self._stopped: int | None = None
        self._began_s = time.monotonic()
        self._folders = [self._prepare(kernel, work) for kernel in request.kernels]

    def run(self) -> None:
        """Run all boots."""
        for number, planned in enumerate(self._plan):
            self._boot(number, planned)
            self._keep(planned.kernel)
            self._made[planned.kernel] += 1
            self._say("booted", number)

    def mark(self, reason: str) -> None:
        """Mark each bundle of this session that lacks boots as incomplete.

        :param reason: why boots are missing
        """
        planned = self._request.boots
        for kernel, made in enumerate(self._made):
            has_partial = kernel == self._stopped
            if made == planned or not (made or has_partial):
                continue
            incomplete = f"{reason} after {made} of {planned} boots"
            try:
                mark_incomplete(self._path(kernel), incomplete, planned - made - has_partial)
            except (InputError, OSError) as error:
                text = f"{self._path(kernel)}: could not be marked incomplete ({error})"
                self._say("warning", sum(self._made), text=text)

    def _prepare(self, kernel: Kernel, work: Path) -> Path:
        """Copy the files that boots need, so that a concurrent build does not change them.

        Modules are not copied but linked. Return the directory of the copies.
        """
        folder = work / kernel.name
        files = folder / "share" / "kernel"
        files.mkdir(parents=True)
        shutil.copyfile(kernel.image, folder / "image")
        if kernel.modules is not None:
            # virtme-ng searches for them next to the image.
            modules = folder / "lib" / "modules"
            modules.mkdir(parents=True)
            (modules / kernel.release).symlink_to(kernel.modules.resolve())
        for name, path in kernel.files.items():
            shutil.copyfile(path, files / name)
        (folder / "share" / "recorder").write_bytes(self._request.work.recorder)
        existing = bundle_path(self._request.output, kernel)
        if existing.exists():
            shutil.copyfile(existing, folder / "share" / "bundle.tar")
        return folder

    def _boot(self, number: int, planned: PlannedBoot) -> None:
        folder, share = self._folders[planned.kernel], self._share(planned)
        turn = f"{self._id},{planned.round},{number * MOST_RUNS}"
        kernel = self._request.kernels[planned.kernel]
        options = ["--turn", turn, "--kernel-files", f"{SHARE}/kernel"]
        options += _options_of(kernel, is_first=not (share / "bundle.tar").exists())
        hypervisor, name = _with_arguments(self._hypervisor, kernel), kernel.name
        before = _identity(share / "bundle.tar")
        write_script(share, self._request.work, f"{name}.tar", options)

        def hear(event: Event) -> None:
            self._say("recording", number, event=event)

        for attempt in range(_ATTEMPTS):
            self._say("booting", number)
            try:
                # Kernel messages take time, but explain a crash.
                boot(hypervisor, folder / "image", share, hear, is_verbose=attempt > 0)
            except KvmFailed as error:
                if not any(self._made):
                    raise
                raise InputError(
                    f"{name}: boot {number + 1} failed: {error.reason}; record again with "
                    "--accel tcg"
                ) from None
            except GuestFailed as error:
                failure = error.reason
                self._say("again", number, text=failure)
            except InputError as error:
                if _identity(share / "bundle.tar") != before:
                    self._keep(planned.kernel)
                    self._stopped = planned.kernel
                raise InputError(f"{name}: boot {number + 1}: {error}") from None
            else:
                return
        raise KernelFailed(
            f"{name}: the guest failed in all {_ATTEMPTS} attempts ({failure}); see docs/vm.md",
            planned.kernel,
            failure,
            is_first=not self._made[planned.kernel],
        )

    def _say(self, what: What, number: int, event: Event | None = None, text: str = "") -> None:
        done = sum(self._made)
        spent_s = time.monotonic() - self._began_s
        left = len(self._plan) - done
        self._tell(
            News(
                what=what,
                boot=number + 1,
                boots=len(self._plan),
                kernel=self._request.kernels[self._plan[number].kernel].name,
                event=event,
                text=text,
                spent_s=spent_s,
                left_s=spent_s / done * left if done else None,
            )
        )

    def _keep(self, kernel: int) -> None:
        mode = bundle_mode(shareable="--shareable" in self._request.work.arguments)
        keep_bundle(self._folders[kernel] / "share" / "bundle.tar", self._path(kernel), mode)

    def _share(self, planned: PlannedBoot) -> Path:
        return self._folders[planned.kernel] / "share"

    def _path(self, kernel: int) -> Path:
        return bundle_path(self._request.output, self._request.kernels[kernel])


def _options_of(kernel: Kernel, *, is_first: bool) -> Iterator[str]:
    """Yield the options of ``record`` that differ from kernel to kernel.

    :param is_first: whether the boot writes a new bundle
    """
    if kernel.label is not None and is_first:
        yield f"--label={kernel.label}"
    if kernel.source is not None:
        yield f"--source={format_source(kernel.source)}"


def _with_arguments(hypervisor: Hypervisor, kernel: Kernel) -> Hypervisor:
    words = filter(None, (hypervisor.kernel_arguments, kernel.arguments))
    return replace(hypervisor, kernel_arguments=" ".join(words))


def _identity(path: Path) -> tuple[int, int] | None:
    """Return values that change when a guest replaces a file; None if the file does not exist."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    return status.st_ino, status.st_mtime_ns


def _plain(folder: Path) -> Path:
    """Return the directory if its name is safe in virtme-ng's shell command and QEMU's options.

    :raises InputError: the name is not safe
    """
    if shlex.quote(str(folder)) != str(folder) or "," in str(folder) or "=" in str(folder):
        raise InputError(
            f"{folder.parent}: invalid directory name for virtme-ng (expected letters, digits "
            "and /, e.g. /tmp); set TMPDIR to another directory"
        )
    return folder


def check_bundles(paths: Sequence[Path], *, may_exist: bool) -> None:
    """Reject bundles that would be overwritten, or that runs cannot be added to.

    :param may_exist: whether boots are added to existing bundles
    :raises InputError: a bundle exists but must not, runs cannot be added to it, or
        ``NAME.partial`` of an unfinished recording is beside it
    """
    for path in paths:
        if path.exists() and not may_exist:
            raise InputError(
                f"{path}: already exists; use --add-boots to add boots to it, or choose another "
                "--output"
            )
        try:
            check_no_partial(path)
            if path.exists():
                examine(path)
        except RecordError as error:
            raise InputError(str(error)) from error


def keep_bundle(made: Path, path: Path, mode: int) -> None:
    """Copy a bundle to its final path, completely or not at all.

    :param mode: permissions of the file, before the umask is applied
    :raises OSError: the file cannot be written
    """
    with replacing(path, mode) as file, made.open("rb") as bundle:
        copy_all(bundle, file)


def mark_incomplete(path: Path, reason: str, missing: int) -> None:
    """Record in a bundle that boots are missing.

    :param missing: number of missing boots
    :raises InputError: the bundle cannot be read or changed
    :raises OSError: there is no space
    """
    try:
        existing = examine(path)
        manifest, boots = existing.manifest, len(existing.boots)
        runs = manifest.get("planned_runs")
        expected = runs + runs * missing // boots if isinstance(runs, int) and boots else None
        BundleWriter(path, existing).finish(
            {
                **manifest,
                "complete": False,
                "incomplete_reason": reason,
                "planned_runs": expected,
            }
        )
    except RecordError as error:
        raise InputError(str(error)) from error
