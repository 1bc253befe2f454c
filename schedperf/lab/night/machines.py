# SPDX-License-Identifier: GPL-2.0-or-later
"""Run the nights of all machines of a lab, one process each."""

import os
import subprocess
import sys
from collections.abc import Sequence

from schedperf.lab.night.lab import Lab
from schedperf.lab.night.process import passing_signals
from schedperf.lab.night.state import NightError
from schedperf_collectors.machine.errors import explain
from schedperf_collectors.machine.orphans import end_with_parent

_TRY_AGAIN = 75


def run_machines(lab: Lab, options: Sequence[str]) -> int:
    """Run ``schedperf night run`` for each machine at the same time, and forward signals.

    :param options: more options of the command
    :return: 75 if a night must be run again; else the largest exit status
    :raises NightError: a process cannot be started
    """
    parent = os.getpid()
    processes: list[subprocess.Popen[bytes]] = []

    def send(signum: int) -> None:
        for process in processes:
            process.send_signal(signum)

    with passing_signals(send):
        try:
            for machine in lab.machines:
                words = ["night", "run", str(lab.path), "--machine", machine.name, *options]
                processes.append(
                    subprocess.Popen(
                        [sys.executable, "-m", "schedperf", *words],
                        stdin=subprocess.DEVNULL,
                        # If this process is killed, the nights must not go on.
                        preexec_fn=lambda: end_with_parent(parent),  # noqa: PLW1509 # prctl(2) only
                    )
                )
        except OSError as error:
            raise NightError(f"{sys.executable}: {explain(error)}") from error
        finally:
            statuses = [process.wait() for process in processes]
    # A process that a signal has ended has a negative status.
    ended = [128 - status if status < 0 else status for status in statuses]
    return _TRY_AGAIN if _TRY_AGAIN in ended else max(ended)
