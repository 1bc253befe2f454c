# SPDX-License-Identifier: GPL-2.0-or-later
"""Open bundles: one tar with all captures of one kernel on one machine.

::

    bundle = open_bundle(Path("base.tar.xz"))
    bundle.boots[0].host.kernel.release
    bundle.read_text(f"{bundle.runs[0].folder}/stdout")

A bundle is untrusted. It is never unpacked, and opening it checks the
archive, the manifest, and every run.json and host.json. A member's checksum is
checked when the member is read; ``digest``, which each comparison uses,
reads all members. The format is in docs/bundle.md.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import TypeVar

from schedperf.inputs.bundle.host import parse_host
from schedperf.inputs.bundle.manifest import (
    Boot,
    CaptureEntry,
    Manifest,
    MetricRule,
    NewerFormat,
    Retest,
    Run,
    RunFile,
    Sequential,
    parse_manifest,
    parse_run,
    rebuild_manifest,
)
from schedperf.inputs.bundle.members import Members
from schedperf.inputs.bundle.tar import Archive
from schedperf.model.caveats import Caveat, caveat
from schedperf.model.errors import BundleError
from schedperf.model.host import read_host
from schedperf_collectors.contract import BUNDLE_VERSION, MANIFEST, boot_folder

__all__ = [
    "Boot",
    "Bundle",
    "CaptureEntry",
    "MetricRule",
    "Retest",
    "Run",
    "Sequential",
    "open_bundle",
]

# A manifest has 250 bytes per member, a multiple of the compressed size of a bundle of small files.
MAX_MANIFEST_BYTES = 32 << 20
MOST_MANIFEST_EXPANSION = 8
# host.json of a machine with 8192 CPUs has 1 MB; a run.json has 5 kB.
MAX_RECORD_BYTES = 8 << 20

_IN_BOOT = re.compile(r"boots/(0|[1-9][0-9]{0,5})/.")
_IN_RUN = re.compile(r"(boots/(?:0|[1-9][0-9]{0,5})/runs/[0-9]{3,6})/.")

Parsed = TypeVar("Parsed")


class Bundle:
    """An open bundle; it needs no closing.

    :ivar created: start of the recording, UTC, from the manifest; None if unknown
    :ivar incomplete_reason: why the recording ended early; None if it is complete
    :ivar planned_runs: number of planned runs, warm-up excluded; None if unknown
    :ivar workload: command templates of the workloads
    :ivar points: keys of the points, "groups=4"; "" for a workload without parameters
    :ivar treatment: fields of host.json that are meant to differ from the other side
    :ivar setup: the command that applied this side's setting; None if there was none
    :ivar service: the command of the service that ran during each run; None if there was none
    :ivar load: the command of the background load; None if there was none
    :ivar server: server of the workload whose tasks are accounted for; None if there was none
    :ivar rerun: how each workload was recorded; () if the recorder stored its commands
    :ivar source: commit that the kernel was built from; None if not given
    :ivar machine: site-specific name of this machine type; None if not given
    :ivar recordings: the commands that recorded the bundle; () if not recorded
    :ivar imported: format that the bundle was imported from; None if it was recorded
    :ivar better: direction by metric name, for metrics whose format does not state it
    :ivar sequential: interim looks during the recording; None if there were none
    :ivar retest: plan of the retest that recorded it; None for other recordings
    :ivar captures: the manifest's entry of each capture, stored, skipped or failed
    :ivar boots: the boots, by number
    :ivar caveats: damage that was skipped, and other limits of the data
    """

    def __init__(
        self,
        members: Members,
        manifest: Manifest,
        boots: Sequence[Boot],
        caveats: Sequence[Caveat],
    ) -> None:
        self.path = members.path
        self.label = manifest.label
        self.tool_version = manifest.tool_version
        self.created = manifest.created
        self.complete = manifest.complete
        self.incomplete_reason = manifest.incomplete_reason
        self.planned_runs = manifest.planned_runs
        self.workload = manifest.workload
        self.points = manifest.points
        self.treatment = manifest.treatment
        self.setup = manifest.setup
        self.service = manifest.service
        self.load = manifest.load
        self.server = manifest.server
        self.metric_rules = manifest.metric or ()
        self.rerun = manifest.rerun
        self.source = manifest.source
        self.machine = manifest.machine
        self.facts = manifest.facts
        self.recordings = manifest.recordings
        self.sequential = manifest.sequential
        self.retest = manifest.retest
        self.imported = manifest.imported
        self.better = manifest.better
        self.captures = manifest.captures
        self.boots = tuple(boots)
        self.caveats = tuple(caveats)
        self._members = members

    @property
    def runs(self) -> tuple[Run, ...]:
        """The runs of all boots, warm-up included."""
        return tuple(run for boot in self.boots for run in boot.runs)

    @property
    def runs_by_point(self) -> list[Run]:
        """The runs without warm-up, sorted by workload, point, boot and run.

        Workloads and points are in the order of the manifest.
        """
        workloads = {workload: index for index, workload in enumerate(self.workload)}
        points = {point: index for index, point in enumerate(self.points)}

        def place(run: Run) -> tuple[int, int, int, int]:
            workload = workloads.get(run.workload, len(workloads))
            return workload, points.get(run.point_key, len(points)), run.boot, run.run

        return sorted((run for run in self.runs if not run.warmup), key=place)

    @property
    def host_fields(self) -> Mapping[str, object]:
        """All of host.json of the first boot; {} if there is none."""
        return self.boots[0].host_fields if self.boots else {}

    @cached_property
    def digest(self) -> str:
        """SHA-256 over (name, SHA-256) of all members except the manifest: equal for equal data.

        :raises BundleError: a member does not match its checksum
        """
        return self._members.digest(without=MANIFEST)

    def names(self, prefix: str = "") -> tuple[str, ...]:
        """Return the sorted names of all members that begin with a prefix."""
        return self._members.names(prefix)

    @property
    def packed_bytes(self) -> int:
        """The size of the bundle's file."""
        return self._members.packed_bytes

    def size(self, name: str) -> int | None:
        """Return a member's size in bytes; None if there is no such member."""
        return self._members.bytes_of(name)

    def read(self, name: str, limit: int | None = None) -> bytes:
        """Return a member's bytes.

        :param limit: refuse a member with more bytes; None for no limit
        :raises BundleError: the member is missing, larger, or does not match its checksum; or the
            members read so far have too many bytes or JSON values together
        """
        return self._members.read(name, limit)

    def sha256(self, name: str) -> str:
        """Return the SHA-256 of a member, in hexadecimal.

        :raises BundleError: the member is missing or does not match its checksum
        """
        return self._members.checked_sha256(name)

    def extract(self, name: str, folder: Path, limit: int | None = None) -> Path:
        """Copy a member to a new file, instead of holding it in memory.

        :param folder: directory of the caller, who removes the file
        :param limit: as in :meth:`read`
        :return: the path of the file
        :raises BundleError: as :meth:`read`; or the file cannot be written
        """
        return self._members.extract(name, folder, limit)

    def read_text(self, name: str, limit: int | None = None) -> str:
        """Return a member as text; bytes that are not UTF-8 become U+FFFD.

        :param limit: refuse a member with more bytes; None for no limit
        :raises BundleError: as :meth:`read`
        """
        return self.read(name, limit).decode(errors="replace")

    def read_captured(self, name: str, limit: int) -> bytes:
        """Return the bytes of a text that a collector captured, and count its lines.

        :param limit: refuse a member with more bytes
        :raises BundleError: as :meth:`read`; or the texts read so far have too many lines together
        """
        content = self.read(name, limit)
        self._members.count_lines(name, content)
        return content

    def broken_members(self) -> tuple[str, ...]:
        """Read every member and return the names of those that do not match their checksum.

        :raises BundleError: the file was truncated after it was opened
        """
        return tuple(name for name in self.names() if not self._members.is_intact(name))


def open_bundle(path: Path, *, salvage: bool = False) -> Bundle:
    """Open a bundle: plain, gz, xz or zst, whatever its suffix.

    :param salvage: read as much of a damaged bundle as possible and list in ``caveats`` what is
        missing; a ``.partial`` file is always read this way
    :raises BundleError: the file cannot be read, is not a bundle, exceeds a limit, has a newer
        major format version, or is damaged; with ``salvage``, damage is an error only if nothing
        can be read
    """
    salvage = salvage or path.name.endswith(".partial")
    return _Opening(Members(Archive(path, salvage=salvage)), salvage=salvage).open()


class _Opening:
    """Opens one bundle; each step may find damage."""

    def __init__(self, members: Members, *, salvage: bool) -> None:
        self.members = members
        self.salvage = salvage
        self.caveats: list[Caveat] = []

    def open(self) -> Bundle:
        path, damage = self.members.path, self.members.damage
        if not self.members.names():
            raise BundleError(f"{path}: {damage or 'no members'}; record or copy it again")
        if damage:
            self._note("damaged", problem=damage)
        manifest = self._read_manifest()
        if manifest:
            self._expect(manifest)
        files = self._read_runs()
        boots = self._read_boots(files)
        if not manifest:
            if not boots:
                raise BundleError(
                    f"{path}: invalid bundle (expected {MANIFEST} or boots/); give a file that "
                    "schedperf recorded, e.g. base.tar"
                )
            manifest = self._rebuild(files)
            self._expect(manifest)
        for note in manifest.imported.notes if manifest.imported else ():
            self.caveats.append(caveat("import-note", label=manifest.label, note=note))
        return Bundle(self.members, manifest, boots, self.caveats)

    def _note(self, code: str, **numbers: object) -> None:
        self.caveats.append(caveat(code, bundle=self.members.path.name, **numbers))

    def _trouble(self, problem: str, advice: str = "") -> None:
        """Refuse a damaged bundle; with ``salvage``, note the damage instead.

        :param problem: the member and its damage
        :param advice: what to do
        :raises BundleError: without ``salvage``
        """
        if not self.salvage:
            raise BundleError(f"{self.members.path}: {problem}", advice)
        self._note("damaged", problem=problem)

    def _parse(self, name: str, limit: int, parse: Callable[[bytes, str], Parsed]) -> Parsed | None:
        """Read and parse a member; with ``salvage``, return None if it is damaged.

        :raises BundleError: the member is damaged (without ``salvage``), or has a newer format
        """
        try:
            return parse(self.members.read(name, limit), name)
        except NewerFormat as error:
            raise BundleError(f"{self.members.path}: {error}") from None
        except BundleError as error:
            self._trouble(error.problem.removeprefix(f"{self.members.path}: "), error.advice)
            return None

    def _read_manifest(self) -> Manifest | None:
        """Return the manifest; None if it is missing or damaged.

        :raises BundleError: as :meth:`_parse`
        """
        if self.members.bytes_of(MANIFEST) is None:
            return None
        most_bytes = max(MAX_MANIFEST_BYTES, MOST_MANIFEST_EXPANSION * self.members.packed_bytes)
        parse = partial(parse_manifest, most_values=self.members.most_json_values // 2)
        manifest = self._parse(MANIFEST, most_bytes, parse)
        major, minor = BUNDLE_VERSION
        if manifest and manifest.version.minor > minor:
            self._note(
                "newer-format", found=f"{major}.{manifest.version.minor}", known=f"{major}.{minor}"
            )
        return manifest

    def _expect(self, manifest: Manifest) -> None:
        """Compare the manifest's members with the archive's; use its checksums from now on.

        :raises BundleError: a listed member is missing (without ``salvage``)
        """
        listed = {entry.path: entry.sha256 for entry in manifest.captures if entry.status == "ok"}
        self.members.expected = {name: sha256 for name, sha256 in listed.items() if sha256}
        names = {name for name in self.members.names() if name != MANIFEST}
        for name in sorted(listed.keys() - names):
            self._trouble(f"{name} is in the manifest but not in the archive", "copy it again")
        if unlisted := sorted(names - listed.keys()):
            self._note("unlisted-members", count=len(unlisted), first=unlisted[0])

    def _read_runs(self) -> tuple[RunFile, ...]:
        folders = dict.fromkeys(match[1] for match in self._matches(_IN_RUN))
        recorded = [
            name for name in folders if self.members.bytes_of(f"{name}/run.json") is not None
        ]
        if unfinished := sorted(folders.keys() - set(recorded)):
            self._note("unfinished-runs", count=len(unfinished), first=unfinished[0])
        files = []
        for folder in recorded:
            file = self._parse(f"{folder}/run.json", MAX_RECORD_BYTES, parse_run)
            if file and file.folder == folder:
                files.append(file)
            elif file:
                self._trouble(f"{folder}/run.json describes another run ({file.folder})")
        return tuple(sorted(files, key=lambda file: (file.boot, file.run)))

    def _read_boots(self, runs: Sequence[Run]) -> tuple[Boot, ...]:
        numbers = sorted({int(match[1]) for match in self._matches(_IN_BOOT)})
        by_boot: dict[int, list[Run]] = {number: [] for number in numbers}
        for run in runs:
            by_boot[run.boot].append(run)
        return tuple(self._read_boot(number, by_boot[number]) for number in numbers)

    def _read_boot(self, number: int, runs: Sequence[Run]) -> Boot:
        fields = self._read_host(number)
        return Boot(
            number=number,
            host=read_host(fields),
            host_fields=fields,
            runs=tuple(runs),
            folder=boot_folder(number),
        )

    def _read_host(self, boot: int) -> Mapping[str, object]:
        name = f"{boot_folder(boot)}/host.json"
        if self.members.bytes_of(name) is None:
            self._note("no-host", boot=boot)
            return {}
        return self._parse(name, MAX_RECORD_BYTES, parse_host) or {}

    def _matches(self, pattern: re.Pattern[str]) -> Iterator[re.Match[str]]:
        for name in self.members.names("boots/"):
            if match := pattern.match(name):
                yield match

    def _rebuild(self, files: Sequence[RunFile]) -> Manifest:
        """Rebuild a manifest from the run.json files and the names of the other members."""
        self._note("rebuilt-manifest")
        listed = {entry.path for file in files for entry in file.captures}
        rest = [
            CaptureEntry(
                collector=_collector_of(name),
                path=name,
                sha256=None,
                bytes=self.members.bytes_of(name),
                seconds=None,
                status="ok",
                reason=None,
            )
            for name in self.members.names()
            if name not in listed and name != MANIFEST
        ]
        return rebuild_manifest(self.members.path.name.partition(".")[0], files, rest)


def _collector_of(name: str) -> str:
    """Return the collector that wrote a member, from its name or directory."""
    folder, _, file = name.rpartition("/")
    plain = {
        "run.json": "record",
        "host.json": "host",
        "stdout": "workload",
        "stderr": "workload",
        "service.txt": "service",
    }
    return plain.get(file, folder.rpartition("/")[2])
