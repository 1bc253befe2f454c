# SPDX-License-Identifier: GPL-2.0-or-later
"""Provide base and one new side to the rules of ``next_steps``."""

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from schedperf.compare.advice.rerun import Program, Recording, as_argument, join
from schedperf.model.comparison import BASE, Comparison, Row, SideSummary
from schedperf.model.host import has_other_kernel, read_host
from schedperf.model.verdict import CHANGED

KERNEL = "--kernel"
# Programs that boot the kernels; no side can be recorded without the others.
BOOTING = ("vm", "boots")


def kernel_images(images: Mapping[str, str]) -> tuple[str, ...]:
    """Return the options that name the kernels of guests; their images are words in capitals.

    :param images: name of the side by name of the kernel

    >>> kernel_images({"tip": "base", "repair": "new2"})
    ('--kernel', 'tip=BASE_BZIMAGE', '--kernel', 'repair=NEW2_BZIMAGE')
    """
    return name_images(f"{kernel}={side.upper()}_BZIMAGE" for kernel, side in images.items())


def name_images(images: Iterable[str]) -> tuple[str, ...]:
    """Return the options for these images, each once: ``tip=BASE_BZIMAGE``."""
    return tuple(word for image in dict.fromkeys(images) for word in (KERNEL, image))


def split_images(options: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the images that options name, and the other options."""
    before = ["", *options]
    pairs = [pair for pair in zip(before, options, strict=False) if pair[1] != KERNEL]
    images = [word for last, word in pairs if last == KERNEL]
    return images, [word for last, word in pairs if last != KERNEL]


class Pair(Struct, frozen=True, kw_only=True):
    """How base and one new side were recorded, and what records both again.

    :param side: name of the new side
    """

    program: Program
    side: str
    base: Recording
    new: Recording

    @property
    def images(self) -> tuple[str, ...]:
        """Return the options that name the kernels of guests, for the reader to complete."""
        return kernel_images({self.base.stem: BASE, self.new.stem: self.side})

    @property
    def local_files(self) -> tuple[str, ...]:
        """Return what both take from the directory in which they are run."""
        return tuple(dict.fromkeys((*self.base.local_files, *self.new.local_files)))

    @property
    def prints_nothing(self) -> bool:
        """Is all output of both sides empty, so that recording it again gives no result?"""
        return self.base.prints_nothing and self.new.prints_nothing

    @property
    def grows(self) -> bool:
        """Can runs be appended to both bundles?"""
        return not self.boots_itself and self.base.grows and self.new.grows

    @property
    def boots_itself(self) -> bool:
        """Does the program that records both boot the kernels?"""
        return self.program in BOOTING


class Contrast(Struct, frozen=True, kw_only=True):
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

    def has_changed_latency(self) -> bool:
        return any(
            row.side == self.name and row.verdict in CHANGED and "latency" in row.metric.split()
            for row in self.comparison.rows
        )

    def pair(self) -> Pair | None:
        """Return how both sides were recorded; None where no program records both again.

        Where one side alone was interleaved, both are, unless the kernels differ.
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
            # Two kernels cannot be interleaved on one machine, two settings of one can.
            program = "record" if self.has_other_kernel() else "ab"
        if program != "record" and not {w.name for w in base.workloads} & {
            w.name for w in new.workloads
        }:
            return None
        return Pair(program=program, side=self.name, base=base, new=new)

    def _are_of_same_boots(self, base: Recording, new: Recording) -> bool:
        bootings = [side.workloads[0].options.booting for side in (base, new)]
        return bootings[0] is not None and bootings[0] == bootings[1]

    def rerun(self, *options: str) -> tuple[str, ...]:
        """Return the command that records both sides again; () where nothing does."""
        pair = self.pair()
        if pair is None:
            return ()
        images = pair.images if pair.program == "vm" else ()
        return (join("rerun", pair.base.path, pair.new.path, *images, *options),)

    def has_other_kernel(self) -> bool:
        """Is the kernel itself what differs? Nobody can revert a setting."""
        return has_other_kernel(self.base.host, self.new.host)

    @property
    def imported(self) -> str | None:
        """Return the format from which a side was imported; None if both were recorded."""
        return self.new.imported or self.base.imported

    def is_virtual(self) -> bool:
        """Was one of the sides recorded in a virtual machine?"""
        kinds = {read_host(side.host).virtualisation.kind for side in (self.base, self.new)}
        return bool(kinds - {None, "none"})

    def compare(self, *options: str) -> str:
        paths = (as_argument(self.base.path), as_argument(self.new.path))
        return join("compare", *paths, *options)
