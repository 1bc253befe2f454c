# SPDX-License-Identifier: GPL-2.0-or-later
"""Provide base and one new side to the rules of ``next_steps``."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from schedperf.compare.advice.rerun import (
    MOST_WORKLOADS,
    Pair,
    Program,
    Recording,
    as_argument,
    join,
)
from schedperf.model.comparison import BASE, Comparison, Row, SideSummary
from schedperf.model.host import has_other_kernel, read_host


@dataclass(frozen=True, kw_only=True, slots=True)
class Contrast:
    """What was found of one new side against base.

    :param recordings: how the sides were recorded, by name; a side without one is not in it
    """

    comparison: Comparison
    recordings: Mapping[str, Recording]
    base: SideSummary
    new: SideSummary

    @property
    def name(self) -> str:
        return self.new.name

    def has_caveat(self, code: str) -> bool:
        """Is this weakness known of base, of the new side, or of the whole?"""
        named = (BASE, self.name, None)
        return any(
            caveat.code == code and caveat.numbers.get("side") in named
            for caveat in self.comparison.caveats
        )

    def rows(self) -> list[Row]:
        mine = [row for row in self.comparison.rows if row.side == self.name]
        primary = [row for row in mine if row.family == "primary"]
        return primary or mine

    def has_verdict(self, *verdicts: str) -> bool:
        return any(row.verdict in verdicts and row.family == "primary" for row in self.rows())

    def pair(self, rows: Sequence[Row] = ()) -> Pair | None:
        """Return what records both sides again: the workloads of some rows, else of all.

        Where one side alone was interleaved, both are, unless the kernels differ; None where no
        program records both.
        """
        sides = self._recordings()
        if sides is None:
            return None
        base, new = sides
        affected = {row.workload for row in rows or self.rows()}
        both = {work.name for work in new.workloads}
        common = [work for work in base.workloads if work.name in both]
        chosen = [work for work in common if work.name in affected] or common
        if not chosen:
            return None
        return Pair(base=base, new=new, workloads=tuple(chosen[:MOST_WORKLOADS]))

    def pair_of_base(self) -> Pair | None:
        """Return what records both sides with the workloads of base; None if nothing does."""
        sides = self._recordings()
        if sides is None:
            return None
        base, new = sides
        alike = replace(new, rules=base.rules, collectors=base.collectors)
        return Pair(base=base, new=alike, workloads=base.workloads[:MOST_WORKLOADS])

    def _recordings(self) -> tuple[Recording, Recording] | None:
        base, new = (self.recordings.get(name) for name in (BASE, self.name))
        if base is None or new is None:
            return None
        programs = {base.program, new.program}
        if programs in ({"vm"}, {"record"}):
            return base, new
        if "vm" in programs:
            # Guests cannot be interleaved with recordings of the machine itself.
            return None
        # Two kernels cannot be interleaved on one machine, two settings of one can.
        program: Program = "record" if self.has_other_kernel() else "ab"
        return replace(base, program=program), replace(new, program=program)

    def local_files(self, commands: Sequence[str]) -> list[str]:
        """Return what commands take from the directory in which the sides were recorded."""
        recordings = [
            self.recordings[name] for name in (BASE, self.name) if name in self.recordings
        ]
        files = dict.fromkeys(file for recording in recordings for file in recording.local_files)
        return [file for file in files if any(file in command for command in commands)]

    def has_other_kernel(self) -> bool:
        """Is the kernel itself what differs? Nobody can revert a setting."""
        return has_other_kernel(self.base.host, self.new.host)

    def is_virtual(self) -> bool:
        """Was one of the sides recorded in a virtual machine?"""
        kinds = {read_host(side.host).virtualisation.kind for side in (self.base, self.new)}
        return bool(kinds - {None, "none"})

    def compare(self, *options: str) -> str:
        paths = (as_argument(self.base.path), as_argument(self.new.path))
        return join("compare", *paths, *options)
