# SPDX-License-Identifier: GPL-2.0-or-later
"""Define records of the compared sides: what was recorded, and how their machines differ."""

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

from msgspec import Struct

Severity = Literal["treatment", "blocking", "noted", "ignored"]
Origin = Literal["kernel", "owner", "unknown"]


class GitSource(Struct, frozen=True, kw_only=True):
    """The commit that a side's kernel was built from, as given to the recorder."""

    tree: Annotated[str | None, "URL of the repository"]
    ref: Annotated[str | None, "branch or tag"]
    commit: str
    subject: str | None
    author: Annotated[str | None, "name and e-mail address of the author"]
    committed: Annotated[str | None, "date of the commit, ISO 8601"]
    describe: Annotated[str | None, "output of git describe"]
    dirty: Annotated[bool, "true if the work tree had uncommitted changes"]
    committer: Annotated[str | None, "name and e-mail address of the committer"] = None
    patches: Annotated[tuple[str, ...], "patches that were applied on top of the commit"] = ()
    links: Annotated[tuple[str, ...], "values of the commit's Link: trailers"] = ()
    build_id: Annotated[
        str | None, "build id of the vmlinux, equal to the running kernel's; null if not given"
    ] = None


class Program(Struct, frozen=True, kw_only=True):
    """A program or script that a workload runs."""

    name: Annotated[str, "base name of the file"]
    version: Annotated[str | None, "as it prints it; null if unknown"]
    sha256: str


class Recording(Struct, frozen=True, kw_only=True):
    """One command that recorded runs; the boots of one command are one recording."""

    command: Annotated[tuple[str, ...], "the command line, one word per item"]
    minutes: Annotated[float | None, "its duration; null if unknown"]
    programs: tuple[Program, ...]


class SideSummary(Struct, frozen=True, kw_only=True):
    """One side of a comparison: a bundle or a table.

    :param name: "base", "new", then "new2", "new3" …
    :param label: the label in the bundle
    :param path: the file's name as the user gave it
    :param digest: SHA-256 over all captured members; equal if the data are equal
    :param created: start of the recording, UTC; None if not recorded
    :param boots: None if a table of numbers does not record it
    :param runs_clean: number of successful clean runs, without warm-up; None if a table of
        published means does not record it
    :param host: the first boot's host.json, without its raw dumps; {} without one
    """

    name: str
    label: str
    path: str
    digest: str
    created: str | None
    complete: bool
    boots: int | None
    runs_clean: int | None
    runs_instrumented: int
    runs_failed: int
    host: Mapping[str, object]
    recorded_by: Annotated[
        str | None, "name and version of the recording program; null if not recorded"
    ]
    source: Annotated[
        GitSource | None, "commit of the kernel; null if not given to the recorder"
    ] = None
    machine_class: Annotated[
        str | None,
        "class of machines with comparable results: the name that the site gives and a hash of the "
        "fields of host.json that block comparisons; null without host.json",
    ] = None
    imported: Annotated[
        str | None, "format that the side was imported from, e.g. mmtests; null if recorded"
    ] = None
    recordings: Annotated[
        tuple[Recording, ...], "the commands that recorded it; empty if not recorded"
    ] = ()
    runs_discarded: Annotated[
        int, "runs that did not measure what they should and are not used, as caveats explain"
    ] = 0


class Difference(Struct, frozen=True, kw_only=True):
    """One field of host.json (or of the workload) that is not equal on two sides.

    Boots of one side are compared, too: ``side`` is then this side, and ``base`` and ``new`` are
    the values of its first and of another boot.

    :param path: dotted path in host.json: ``cpu.microcode``; ``setup``, ``service``, ``load``,
        ``workload`` and ``metric.NAME`` are what the recorder was given; ``host.json`` and
        ``machine`` state that a machine is not described
    :param base: value of base; None if missing
    :param severity: "treatment" is intended or due to the kernels, "blocking" prevents a
        comparison, and "noted" is only reported
    :param origin: for a field with a kernel default, if the kernels differ: "kernel" if the value
        is that default, "owner" if an administrator set it, "unknown" if that is not recorded; else
        None
    """

    path: str
    side: str
    base: object
    new: object
    severity: Severity
    reason: str
    origin: Origin | None = None

    @property
    def is_part_of_change(self) -> bool:
        """Return whether the field differs because the kernels do, as far as is known.

        False if an administrator set it, or if it has no kernel default.
        """
        return self.severity == "treatment" and self.origin in ("kernel", "unknown")


class OptionDifference(Struct, frozen=True, kw_only=True):
    """One option of the kernel's configuration that is not equal on two sides.

    :param name: ``CONFIG_PREEMPT``
    :param base: as in the file: ``y``, ``250``, ``"text"``; None if not set
    :param toolchain: whether it describes the compiler, another tool, the name of the build or a
        signing key
    """

    side: str
    name: str
    base: str | None
    new: str | None
    toolchain: bool = False


class Comparability(Struct, frozen=True, kw_only=True):
    """Whether the sides are comparable, and their differences.

    :param compared: number of fields of host.json that are known of both sides or differ, without
        ignored ones
    :param options: differing options of the kernel's configuration, if the bundles contain it
    :param equal: dotted paths of the fields of host.json that are known of all sides and equal,
        except ignored fields; empty if a side has no host.json
    """

    comparable: bool
    compared: int
    differences: tuple[Difference, ...]
    options: tuple[OptionDifference, ...] = ()
    equal: tuple[str, ...] = ()

    derived: ClassVar[tuple[str, ...]] = ("part_of_change",)

    @property
    def part_of_change(self) -> tuple[str, ...]:
        """Return the paths of the differences that are part of the change of kernel, once each."""
        paths = (each.path for each in self.differences if each.is_part_of_change)
        return tuple(dict.fromkeys(paths))
