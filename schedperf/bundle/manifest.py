# SPDX-License-Identifier: GPL-2.0-or-later
"""Parse manifest.json, run.json and host.json into records; docs/bundle.md describes them.

Each ``parse_`` function takes untrusted bytes and where they are from, and
raises :class:`~schedperf.model.errors.BundleError` that names the invalid field.
"""

import itertools
import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Literal

from msgspec import Meta, Struct, field
from msgspec.json import Decoder

from schedperf.bundle.json import DAMAGED, Count, Sentence, convert, decode, parse_json
from schedperf.model.errors import BundleError
from schedperf.model.host import Host
from schedperf.model.run import Kind
from schedperf_collectors.contract import BUNDLE_VERSION, MOST_BUDGETED, point_key, run_folder

# The largest number of runs of `record`; each may be a separate point.
MOST_POINTS = 100_000
# A kernel, a setting, and some more.
MOST_FACTORS = 16
# Reports print the levels of factors within a sentence.
_LEVEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+-]{0,63}\Z")
# The longest lists that users give: fields that are meant to differ, metric rules.
MOST_PATHS = 1_000
MOST_RULES = 100
MOST_OPTIONS = 1_000
# host.json has about 200 values; each that differs between two machines becomes a row.
MOST_HOST_VALUES = 10_000
# Notes of an importer, each of which becomes a caveat, and the name of its format.
MOST_NOTES = 100
LONGEST_FORMAT = 40
# LKP has 2,000 metrics per run; each may have a direction that a user gave.
MOST_DIRECTIONS = 10_000

# What --source accepts of a commit.
LONGEST_LINE = 500
MOST_LINES = 100
MOST_PROGRAMS = 64
MOST_RECORDINGS = 10_000
# Names that --machine accepts.
MACHINE = r"^[A-Za-z0-9][A-Za-z0-9_.+-]{0,63}$"

Status = Literal["ok", "skipped", "failed"]
Direction = Literal["higher", "lower"]

Quantity = Annotated[float, Meta(ge=0)]
Budget = Annotated[int, Meta(ge=1, le=MOST_BUDGETED)]
Points = Annotated[tuple[str, ...], Meta(max_length=MOST_POINTS)]
Factors = Annotated[Mapping[str, str], Meta(max_length=MOST_FACTORS)]
Paths = Annotated[tuple[str, ...], Meta(max_length=MOST_PATHS)]
Directions = Annotated[Mapping[str, Direction], Meta(max_length=MOST_DIRECTIONS)]


class MetricRule(Struct, frozen=True, kw_only=True):
    """A rule that the user gave with ``--metric``.

    :param regex: its first group is the number
    """

    name: str
    unit: str
    better: Direction
    regex: str


Line = Annotated[str, Meta(min_length=1, max_length=LONGEST_LINE)]
Lines = Annotated[tuple[Line, ...], Meta(max_length=MOST_LINES)]
Digest = Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]
MetricRules = Annotated[tuple[MetricRule, ...], Meta(max_length=MOST_RULES)]


class Sequential(Struct, frozen=True, kw_only=True):
    """The sequential looks of a recording.

    :param against: digest of the bundle it compared with
    :param first: runs of each point before the first look
    :param max_runs: run budget of each point
    :param looks: number of runs of each point at each look; None without a manifest
    :param stopped: why it ended; None if it was interrupted
    """

    against: str | None = None
    first: Budget
    max_runs: Budget
    looks: tuple[Budget, ...] | None = None
    stopped: str | None = None

    def __post_init__(self) -> None:
        """Refuse looks that exceed the budget."""
        if self.first > self.max_runs:
            raise ValueError(
                f'"first" is {self.first} (expected at most "max_runs", which is {self.max_runs})'
            )
        looks = (0, *(self.looks or ()))
        is_rising = all(first < second for first, second in itertools.pairwise(looks))
        if not is_rising or looks[-1] > self.max_runs:
            raise ValueError(
                f'invalid "looks" (expected increasing numbers of runs, at most {self.max_runs})'
            )


Words = Annotated[tuple[str, ...], Meta(max_length=MOST_OPTIONS)]


class Rerun(Struct, frozen=True, kw_only=True):
    """How the runs of one workload were recorded, for recording them again.

    :param program: "record", "ab", "vm" or "boots" (`ab --kernel`); another of a newer recorder
    :param options: its options that nothing else in the bundle shows; untrusted
    """

    workload: str
    program: str
    options: Words


class SourceEntry(Struct, frozen=True, kw_only=True):
    """The commit that the kernel was built from, as ``--source`` declared it."""

    commit: Annotated[str, Meta(pattern="^[0-9a-f]{40}([0-9a-f]{24})?$")]
    tree: Line | None = None
    ref: Line | None = None
    subject: Line | None = None
    author: Line | None = None
    committer: Line | None = None
    committed: Line | None = None
    describe: Line | None = None
    dirty: bool = False
    patches: Lines = ()
    links: Lines = ()
    build_id: Line | None = None

    def __post_init__(self) -> None:
        """Refuse texts that are not one printable line: mails and pages quote them."""
        for name in self.__struct_fields__:
            value = getattr(self, name)
            texts = value if isinstance(value, tuple) else (value,)
            for text in texts:
                if isinstance(text, str) and not text.isprintable():
                    raise ValueError(f'invalid "{name}" (expected one line of printable text)')


class ProgramEntry(Struct, frozen=True, kw_only=True):
    """A program or script that the workload runs, by its base name."""

    name: Line
    sha256: Digest


class RecordingEntry(Struct, frozen=True, kw_only=True):
    """One command that recorded runs of the bundle; untrusted.

    :param minutes: None if it was killed
    """

    command: Words
    minutes: Quantity | None = None
    programs: Annotated[tuple[ProgramEntry, ...], Meta(max_length=MOST_PROGRAMS)] = ()


class ImportSource(Struct, frozen=True, kw_only=True):
    """Where an imported bundle comes from.

    :param format: name of the importer: "mmtests"
    :param notes: what was not read or is not known, one sentence each
    """

    format: Annotated[str, Meta(max_length=LONGEST_FORMAT)]
    notes: Annotated[tuple[Sentence, ...], Meta(max_length=MOST_NOTES)] = ()


class CaptureEntry(Struct, frozen=True, kw_only=True):
    """One capture, or why it is missing.

    :param path: path of the member, or of its directory if it is missing
    :param sha256: None if nothing is stored, or if there is no manifest
    :param seconds: time the collector took
    :param reason: one line if it was skipped or failed
    """

    collector: str
    path: str
    sha256: str | None = None
    bytes: Count | None = None
    seconds: Quantity | None = None
    status: Status
    reason: str | None = None


class ServiceRun(Struct, frozen=True, kw_only=True):
    """The service that ran during one run; untrusted.

    :param program: path of the program
    :param version: first line of what it prints with ``--version``; None if not asked, or none
    :param end: how it ended: "exit status 0"
    """

    command: Sentence
    program: Sentence
    sha256: Digest | None = None
    version: Sentence | None = None
    end: Sentence | None = None


class Run(Struct, frozen=True, kw_only=True):
    """One run, from its run.json; keys as in docs/bundle.md.

    :param order: position in the recording session, over all points and both sides
    :param side: of ``ab``, e.g. "base"; None in other recordings
    :param factors: level of each factor of a design: {"kernel": "new", "setting": "on"}
    :param wall_s: from fork to exit
    :param left_behind: names of processes that the workload left running after its end
    :param imported: name of the format that the run was imported from; None if it was recorded
    :param source: where its results are in the imported files; None if they were recorded
    :param service: program that ran during the run; None without one
    :param discarded: why its measurements must not be used, as a clause; None if they may be used
    :param output_left_out: bytes that the recorder left out, by stream: {"stdout": 1073741824}
    """

    boot: Count
    run: Count
    boot_id: str | None = None
    workload: str
    command: tuple[str, ...]
    point: Mapping[str, str]
    point_key: str
    kind: Kind
    warmup: bool
    block: Count
    round: Count | None = None
    side: str | None = None
    factors: Factors = field(default_factory=dict)
    session: str | None = None
    order: Count
    start: str | None = None
    exit_status: int | None = None
    signal: int | None = None
    failure: str | None = None
    wall_s: Quantity | None = None
    rusage: Mapping[str, Quantity] | None = None
    metric: MetricRules | None = None
    left_behind: tuple[Sentence, ...] = ()
    imported: str | None = None
    source: Sentence | None = None
    output_left_out: Mapping[str, Count] = field(default_factory=dict)
    service: ServiceRun | None = None
    discarded: Sentence | None = None

    def __post_init__(self) -> None:
        """Refuse a key that does not match the point, and unprintable names of factors."""
        key = point_key(dict(self.point))
        if self.point_key != key:
            raise ValueError(f'"point_key" does not match "point" (expected "{key}")')
        for text in itertools.chain.from_iterable(self.factors.items()):
            if not _LEVEL.match(text):
                raise ValueError(
                    '"factors" has an invalid name (expected at most 64 letters, digits and _ . '
                    "+ -)"
                )

    @property
    def folder(self) -> str:
        """Folder of its captures: "boots/0/runs/000"."""
        return run_folder(self.boot, self.run)

    @property
    def origin(self) -> str:
        """Where a reader finds what it printed: in the imported files, or in the bundle."""
        return self.source or self.folder

    @property
    def metric_rules(self) -> tuple[MetricRule, ...]:
        """The rules by which its metrics are read from its output."""
        return self.metric or ()

    @property
    def succeeded(self) -> bool:
        """Return whether the workload finished, reported success and may be used.

        Many formats that are imported do not record the exit status.
        """
        is_unknown = self.exit_status is None and self.imported is not None
        has_exited = self.exit_status == 0 or is_unknown
        has_failed = self.signal is not None or self.failure is not None
        return has_exited and not has_failed and self.discarded is None

    @property
    def failed(self) -> bool:
        """Return whether the workload failed; a discarded run did not measure what it should."""
        return not self.succeeded and self.discarded is None


class Boot(Struct, frozen=True, kw_only=True):
    """One boot of the kernel under test.

    :param host: the typed facts of host.json
    :param host_fields: all of host.json, for comparing machines; {} if it is missing
    :param folder: "boots/0"
    """

    number: int
    host: Host
    host_fields: Mapping[str, object]
    runs: tuple[Run, ...]
    folder: str


class Version(Struct, frozen=True, kw_only=True):
    """Version of the bundle's format."""

    major: Count
    minor: Count


class Manifest(Struct, frozen=True, kw_only=True):
    """The manifest of a bundle.

    :param load: the command that ran beside the workload, with placeholders
    :param better: direction of metrics whose format does not state it, by name
    :param machine: name that the site gives to machines of this kind
    """

    version: Version
    label: str
    tool_version: str | None = None
    created: str | None = None
    complete: bool
    incomplete_reason: str | None = None
    planned_runs: Count | None = None
    workload: Points
    points: Points
    treatment: Paths
    setup: str | None = None
    service: str | None = None
    load: str | None = None
    metric: MetricRules | None = None
    sequential: Sequential | None = None
    imported: ImportSource | None = None
    better: Directions = field(default_factory=dict)
    rerun: Annotated[tuple[Rerun, ...], Meta(max_length=MOST_POINTS)] = ()
    source: SourceEntry | None = None
    machine: Annotated[str, Meta(pattern=MACHINE)] | None = None
    recordings: Annotated[tuple[RecordingEntry, ...], Meta(max_length=MOST_RECORDINGS)] = ()
    captures: tuple[CaptureEntry, ...]


class RunFile(Run, frozen=True, kw_only=True):
    """A whole run.json: the run, its captures, and its copy of the manifest."""

    captures: tuple[CaptureEntry, ...]
    label: str
    tool_version: str | None = None
    treatment: Paths | None = None
    setup: str | None = None
    load: str | None = None
    sequential: Sequential | None = None


class _Header(Struct, frozen=True, kw_only=True):
    """The fields that every version of the manifest has."""

    format: Literal["schedperf-bundle"]
    version: Version


class _Cpu(Struct, frozen=True, kw_only=True):
    mitigations: Mapping[str, object] | None = None


class _Topology(Struct, frozen=True, kw_only=True):
    nodes: Mapping[str, object] | None = None


class _HostShape(Struct, frozen=True, kw_only=True):
    """The values of host.json that are objects, by group."""

    cpu: _Cpu = field(default_factory=_Cpu)
    topology: _Topology = field(default_factory=_Topology)


class NewerFormat(BundleError):
    """A bundle of a future major version, which cannot be read even partly."""


def parse_manifest(content: bytes, where: str) -> Manifest:
    """Parse manifest.json; of a newer format, only the version."""
    value = parse_json(content, where)
    version = convert(value, _Header, where).version
    if version.major > BUNDLE_VERSION[0]:
        raise NewerFormat(
            f"{where}: has format {version.major}.{version.minor}, but this schedperf reads format "
            f"{BUNDLE_VERSION[0]}.{BUNDLE_VERSION[1]}; use a newer schedperf"
        )
    manifest = convert(value, Manifest, where)
    _check_stored(manifest.captures, where)
    return manifest


def parse_run(content: bytes, where: str) -> RunFile:
    """Parse run.json."""
    run = decode(content, RunFile, where)
    _check_stored(run.captures, where)
    return run


def _check_stored(captures: Sequence[CaptureEntry], where: str) -> None:
    for index, entry in enumerate(captures):
        if entry.status == "ok" and (entry.sha256 is None or entry.bytes is None):
            missing = "sha256" if entry.sha256 is None else "bytes"
            raise BundleError(f"{where}: $.captures[{index}].{missing} is missing", DAMAGED)


def parse_host(content: bytes, where: str) -> Mapping[str, object]:
    """Parse host.json: groups of values, of which only the objects are checked."""
    value = parse_json(content, where)
    groups = {
        name: convert(group, dict[str, object], f"{where}: {name}")
        for name, group in convert(value, dict[str, object], where).items()
    }
    convert(groups, _HostShape, where)
    count = _count_values(groups)
    if count > MOST_HOST_VALUES:
        raise BundleError(
            f"{where}: too many values: {count} (expected at most {MOST_HOST_VALUES}); record the "
            "bundle again"
        )
    return groups


def _count_values(value: object) -> int:
    # A list is one value, as in comparisons of two machines.
    if isinstance(value, Mapping):
        return sum(_count_values(child) for child in value.values())
    return 1


def rebuild_manifest(stem: str, files: Sequence[RunFile], rest: Sequence[CaptureEntry]) -> Manifest:
    """Rebuild a manifest from the run.json files, which repeat most of it.

    :param stem: the label of a bundle without a run
    :param rest: members that no run.json lists
    """
    first = files[0] if files else None
    return Manifest(
        version=Version(major=BUNDLE_VERSION[0], minor=BUNDLE_VERSION[1]),
        label=first.label if first else stem,
        tool_version=first.tool_version if first else None,
        created=first.start if first else None,
        complete=False,
        incomplete_reason="no manifest (the recording was interrupted or is still running)",
        planned_runs=None,
        workload=tuple(dict.fromkeys(file.workload for file in files)),
        points=tuple(dict.fromkeys(file.point_key for file in files)),
        treatment=(first.treatment or ()) if first else (),
        imported=ImportSource(format=first.imported) if first and first.imported else None,
        setup=first.setup if first else None,
        service=first.service.command if first and first.service else None,
        load=first.load if first else None,
        metric=first.metric if first else None,
        sequential=first.sequential if first else None,
        captures=(*(entry for file in files for entry in file.captures), *rest),
    )


# Bundles are read in threads. msgspec 0.22 prepares a type when it is first used, and crashes if
# another thread uses the type meanwhile.
for _kind in (_Header, Manifest, RunFile, _HostShape):
    Decoder(_kind)
