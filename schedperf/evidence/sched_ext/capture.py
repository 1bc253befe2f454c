# SPDX-License-Identifier: GPL-2.0-or-later
"""Parse ``sched_ext.json``: the files of /sys/kernel/sched_ext before and after a run.

>>> text = '{"before": {"state": "enabled", "enable_seq": "3", "ops": "lavd"}, "after": {}}'
>>> parse_sched_ext(text.encode(), "sched_ext.json").before.scheduler
'lavd'
"""

from typing import Annotated

from msgspec import Meta, Struct

from schedperf.inputs.bundle.json import decode

FOLDER = "sched_ext"
FILE = "sched_ext.json"
# Limit on the file size; it has two states with six values each.
LARGEST_BYTES = 16 << 10

ENABLED = "enabled"
# Name of a scheduler without a name; kernels before v6.12-rc3 lack root/ops.
UNNAMED = "unnamed scheduler"

# Longest value; names of schedulers have at most 127 characters, numbers 20.
Word = Annotated[str, Meta(max_length=128)]
Number = Annotated[str, Meta(pattern=r"\A[0-9]{1,20}\Z")]


class State(Struct, frozen=True, kw_only=True):
    """The state of sched_ext as the kernel prints it; fields that the kernel lacks are None.

    :param state: "disabled", "enabling", "enabled", "disabling"
    :param enable_seq: number of schedulers loaded since boot
    :param ops: name of the loaded scheduler
    :param switch_all: "1" if all tasks are switched to it
    :param nr_rejected: tasks that the scheduler refused
    """

    state: Word | None = None
    enable_seq: Number | None = None
    ops: Word | None = None
    switch_all: Number | None = None
    nr_rejected: Number | None = None

    @property
    def scheduler(self) -> str | None:
        """Name of the loaded scheduler, or ``UNNAMED``; None if none is loaded."""
        return (self.ops or UNNAMED) if self.state == ENABLED else None


class SchedExtCapture(Struct, frozen=True, kw_only=True):
    """The states before and after one run."""

    before: State
    after: State

    @property
    def rejected(self) -> int | None:
        """Tasks that the scheduler refused during the run; None if not recorded."""
        counts = self.before.nr_rejected, self.after.nr_rejected
        return None if None in counts else int(counts[1] or 0) - int(counts[0] or 0)


def parse_sched_ext(content: bytes, where: str) -> SchedExtCapture:
    """Parse the capture of one run.

    :param where: bundle and member, for messages
    :raises BundleError: the file is damaged
    """
    return decode(content, SchedExtCapture, where)
