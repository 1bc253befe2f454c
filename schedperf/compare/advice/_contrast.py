# SPDX-License-Identifier: GPL-2.0-or-later
"""Provide base and one new side to the rules of ``next_steps``."""

from collections.abc import Mapping

from msgspec import Struct

from schedperf.compare.advice.intent import COMPARE, RERUN, Intent, intend
from schedperf.compare.advice.recorded import Program, Recorded
from schedperf.model.base_new import BASE
from schedperf.model.comparison import Comparison
from schedperf.model.host import has_other_kernel, read_host
from schedperf.model.rows import Row
from schedperf.model.sides import SideSummary
from schedperf.model.verdict import CHANGED
from schedperf.runs.values import ELAPSED

# Programs that boot the kernels; they cannot record one side without the others.
BOOTING = ("vm", "boots")


def kernel_images(images: Mapping[str, str]) -> tuple[str, ...]:
    """Return the arguments of ``--kernel`` for guests; the reader replaces the words in capitals.

    :param images: name of the side by name of the kernel

    >>> kernel_images({"tip": "base", "repair": "new2"})
    ('tip=BASE_BZIMAGE', 'repair=NEW2_BZIMAGE')
    """
    return tuple(f"{kernel}={side.upper()}_BZIMAGE" for kernel, side in images.items())


class Pair(Struct, frozen=True, kw_only=True):
    """How base and one new side were recorded, and how to record both again.

    :param program: the subcommand that records both sides again
    :param side: name of the new side
    """

    program: Program
    side: str
    base: Recorded
    new: Recorded

    @property
    def images(self) -> tuple[str, ...]:
        """Return the arguments of ``--kernel`` for guests, as :func:`kernel_images` does."""
        return kernel_images({self.base.stem: BASE, self.new.stem: self.side})

    @property
    def local_files(self) -> tuple[str, ...]:
        """Return the files that both commands use from the current directory."""
        return tuple(dict.fromkeys((*self.base.local_files, *self.new.local_files)))

    @property
    def prints_nothing(self) -> bool:
        """Return whether all output is empty, so that recording again gives no result."""
        return self.base.prints_nothing and self.new.prints_nothing

    @property
    def grows(self) -> bool:
        """Return whether runs can be appended to both bundles."""
        return not self.boots_itself and self.base.grows and self.new.grows

    @property
    def boots_itself(self) -> bool:
        """Return whether the program that records both sides also boots the kernels."""
        return self.program in BOOTING


class Contrast(Struct, frozen=True, kw_only=True):
    """The results and recordings of one new side and base.

    :param recordings: how the sides were recorded, by name; a side whose recording is unknown is
        missing
    """

    comparison: Comparison
    recordings: Mapping[str, Recorded]
    base: SideSummary
    new: SideSummary

    @property
    def name(self) -> str:
        """Return the name of the new side."""
        return self.new.name

    def has_caveat(self, code: str) -> bool:
        """Return whether base, the new side or the whole comparison has this caveat."""
        named = (BASE, self.name, None)
        return any(
            caveat.code == code and caveat.numbers.get("side") in named
            for caveat in self.comparison.caveats
        )

    def rows(self) -> list[Row]:
        """Return the primary rows of the new side; if it has none, all of its rows.

        Elapsed times of workloads without results are left out.
        """
        mine = [
            row
            for row in self.comparison.rows
            if row.side == self.name and row.metric != ELAPSED.name
        ]
        primary = [row for row in mine if row.family == "primary"]
        return primary or mine

    def has_verdict(self, *verdicts: str) -> bool:
        """Return whether a primary row of the new side has one of these verdicts."""
        return any(row.verdict in verdicts and row.family == "primary" for row in self.rows())

    def has_changed_latency(self) -> bool:
        """Return whether a row of any family whose metric has the word "latency" changed."""
        return any(
            row.side == self.name and row.verdict in CHANGED and "latency" in row.metric.split()
            for row in self.comparison.rows
        )

    def pair(self) -> Pair | None:
        """Return how both sides were recorded; None if no program can record both again.

        There is none if the recording of a side is unknown, if only one side was recorded in
        guests, or if interleaved sides or guests have no workload in common. If only one side was
        interleaved, ``program`` interleaves both, unless the kernels differ.
        """
        base, new = (self.recordings.get(name) for name in (BASE, self.name))
        if base is None or new is None:
            return None
        programs = {base.program, new.program}
        if programs in ({"vm"}, {"record"}) or self._are_of_same_boots(base, new):
            program = base.program
        elif "vm" in programs:
            # Guests cannot be interleaved with recordings of the machine itself.
            return None
        else:
            # Two kernels cannot be interleaved on one machine; two settings of one kernel can.
            program = "record" if self.has_other_kernel() else "ab"
        if program != "record" and not {*base.workloads} & {*new.workloads}:
            return None
        return Pair(program=program, side=self.name, base=base, new=new)

    def _are_of_same_boots(self, base: Recorded, new: Recorded) -> bool:
        return base.program == new.program == "boots" and base.words == new.words

    def rerun(self, *options: str, images: tuple[str, ...] = ()) -> tuple[Intent, ...]:
        """Return the command that records both sides again; () if there is none."""
        pair = self.pair()
        if pair is None:
            return ()
        known = pair.images if pair.program == "vm" else ()
        return (Intent(RERUN, (pair.base.path, pair.new.path), (*known, *images), options),)

    def has_other_kernel(self) -> bool:
        """Return whether the sides ran different kernels, not only one kernel with two settings."""
        return has_other_kernel(self.base.host, self.new.host)

    @property
    def imported(self) -> str | None:
        """Return the format from which a side was imported; None if both were recorded."""
        return self.new.imported or self.base.imported

    def is_virtual(self) -> bool:
        """Return whether one of the sides was recorded in a virtual machine."""
        kinds = {read_host(side.host).virtualisation.kind for side in (self.base, self.new)}
        return bool(kinds - {None, "none"})

    def compare(self, *options: str) -> Intent:
        """Return the command that compares base with the new side."""
        return intend(COMPARE, *options, paths=(self.base.path, self.new.path))
