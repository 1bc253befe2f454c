# SPDX-License-Identifier: GPL-2.0-or-later
"""Record a command with what commits build, on this machine, which is not booted: runs count."""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from schedperf.inputs.git import Commit
from schedperf.model.errors import InputError
from schedperf.model.text import clean_line, cut
from schedperf_collectors.machine.errors import RecordError, explain
from schedperf_collectors.machine.orphans import end_with_parent
from schedperf_collectors.recorder.recover import recover

_HASH_DIGITS = 12
_USAGE = 2
_ERROR = "schedperf: error: "
_TAIL_BYTES = 64 << 10
_LONGEST_ERROR = 300


class Here:
    """Records a command in the directory of what a commit built.

    :param options: further options of ``record``
    :param words: the command
    """

    def __init__(self, options: Sequence[str], words: Sequence[str]) -> None:
        self._options = options
        self._words = words

    def boot(self, commit: Commit, built: Path, boots: int, bundle: Path) -> None:
        """Run the command in some processes, one after the other, and add the runs to a bundle.

        :param commit: what the bundle is about
        :param built: directory of what the commit built; the command runs in it
        :param boots: number of runs
        :raises InputError: the recorder cannot record, or was killed
        """
        # Bundles describe the commit of the kernel, which is another repository's.
        label = f"--label={commit.hash[:_HASH_DIGITS]}"
        target = [f"--append={bundle}"] if bundle.exists() else [f"--output={bundle}", label]
        command = [sys.executable, "-m", "schedperf", "record", *target, f"-n={boots}"]
        log = bundle.with_suffix(".log")
        status = _run([*command, *self._options, "--", *self._words], built, log)
        if status == _USAGE:
            raise InputError(f"{commit.hash[:_HASH_DIGITS]}: {_last_error(log)}")
        if status < 0:
            self.recover(bundle)
            raise InputError(
                f"{commit.hash[:_HASH_DIGITS]}: the recorder was killed by signal {-status}; "
                "repeat the command to continue"
            )

    def recover(self, bundle: Path) -> None:
        """Complete a bundle whose recording was killed.

        :raises InputError: it cannot be read or written, or is being recorded
        """
        try:
            recover(bundle)
        except RecordError as error:
            raise InputError(str(error)) from None


def _run(command: Sequence[str], folder: Path, log: Path) -> int:
    """Run a command to its end; return its exit status, -N after signal N.

    :raises InputError: it cannot be started
    """
    parent = os.getpid()
    try:
        with log.open("ab") as file:
            process = subprocess.Popen(
                command,
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                process_group=0,
                # If the search is killed, the recorder must not go on recording.
                preexec_fn=lambda: end_with_parent(parent),  # noqa: PLW1509 # prctl(2) only
            )
    except OSError as error:
        raise InputError(f"{error.filename or log}: {explain(error)}; see `df`") from None
    try:
        return process.wait()
    except BaseException:
        # The recorder keeps the finished runs.
        process.terminate()
        process.wait()
        raise


def _last_error(log: Path) -> str:
    with log.open("rb") as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - _TAIL_BYTES))
        lines = file.read().decode(errors="replace").splitlines()
    errors = [line.removeprefix(_ERROR) for line in lines if line.startswith(_ERROR)]
    last = (errors or lines or ["no output"])[-1]
    return cut(clean_line(last), _LONGEST_ERROR)
