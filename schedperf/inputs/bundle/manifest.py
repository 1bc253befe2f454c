# SPDX-License-Identifier: GPL-2.0-or-later
"""Parse manifest.json and run.json into records; docs/bundle.md describes them.

Each ``parse_`` function takes untrusted bytes and their origin, and raises a
:class:`~schedperf.model.errors.BundleError` that names the invalid field.
"""

import itertools
import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated, Literal

from msgspec import Meta, Struct, field
from msgspec.json import Decoder

from schedperf.inputs.bundle.json import (
    DAMAGED,
    MOST_JSON_VALUES,
    Count,
    Sentence,
    convert,
    decode,
    parse_json,
    show_value,
)
from schedperf.model.errors import BundleError
from schedperf.model.host import Host
from schedperf.model.run import Kind
from schedperf_collectors.contract import BUNDLE_VERSION, MOST_BUDGETED, point_key, run_folder

# The largest number of runs of `record`; each may be a separate point.
MOST_POINTS = 100_000
# Largest number of factors, e.g. kernel and setting.
MOST_FACTORS = 16
# Longest level of a factor, since reports print levels within a sentence.
_LEVEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+-]{0,63}\Z")
# Largest number of user-supplied list items: fields that are meant to differ, metric rules.
MOST_PATHS = 1_000
MOST_RULES = 100
MOST_OPTIONS = 1_000
# Largest number of notes of an importer, each of which becomes a caveat, and longest format name.
MOST_NOTES = 100
LONGEST_FORMAT = 40
# LKP has 2,000 metrics per run; the user may give a direction for each.
MOST_DIRECTIONS = 10_000

# Limits on the fields of a commit that --source accepts.
LONGEST_LINE = 500
MOST_LINES = 100
# Largest number of programs of one recording, and of recordings of one bundle.
MOST_PROGRAMS = 64
MOST_RECORDINGS = 10_000
# Facts that --fact accepts.
FactKey = Annotated[str, Meta(pattern=r"\A[a-z][a-z0-9_]{0,39}\Z")]
# No control characters, nor those that change the direction of text.
FactValue = Annotated[
    str,
    Meta(pattern=r"\A[^\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]{1,200}\Z"),
]
Facts = Annotated[Mapping[FactKey, FactValue], Meta(max_length=100)]
# Largest change that a retest was made for, new / base - 1, and longest name of its step.
LARGEST_SEEN = 100.0
LONGEST_STEP = 100
# Names that --machine accepts.
MACHINE = r"^[A-Za-z0-9][A-Za-z0-9_.+-]{0,63}$"

Status = Literal["ok", "skipped", "failed"]
Direction = Literal["higher", "lower"]

Quantity = Annotated[float, Meta(ge=0)]
# No run takes thirty years.
WallTime = Annotated[float, Meta(ge=0, le=1e9)]
Budget = Annotated[int, Meta(ge=1, le=MOST_BUDGETED)]
Level = Annotated[float, Meta(gt=0, lt=1)]
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
Digest = Annotated[str, Meta(pattern=r"\A[0-9a-f]{64}\Z")]
MetricRules = Annotated[tuple[MetricRule, ...], Meta(max_length=MOST_RULES)]


class Sequential(Struct, frozen=True, kw_only=True):
    """The sequential looks of a recording.

    :param against: digest of the bundle that the recording was compared with; None if the sides of
        one ``ab`` recording were compared with each other
    :param first: runs of each point before the first look
    :param max_runs: run budget of each point
    :param looks: number of runs of each point at each look; None if there is no manifest
    :param stopped: why it ended; None if it was interrupted, or if there is no manifest
    """

    against: str | None = None
    first: Budget
    max_runs: Budget
    looks: tuple[Budget, ...] | None = None
    stopped: str | None = None

    def __post_init__(self) -> None:
        """Refuse looks that exceed the budget or do not increase.

        :raises ValueError: the looks, or ``first``, are invalid
        """
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


class Retest(Struct, frozen=True, kw_only=True):
    """The plan of a retest (``ab --kernel --retest``); untrusted, as are its levels.

    :param direction: in which the value of the result changed
    :param seen: the change that was seen, new / base - 1
    :param looks: boots per side, and significance level, of each look
    :param step: identity of the step in a history; None for a change of a comparison
    """

    workload: str
    point: str
    metric: str
    direction: Direction
    seen: Annotated[float, Meta(gt=-1, le=LARGEST_SEEN)]
    looks: Annotated[tuple[tuple[Budget, Level], ...], Meta(max_length=MOST_BUDGETED)]
    step: Annotated[str, Meta(max_length=LONGEST_STEP)] | None = None

    def __post_init__(self) -> None:
        """Refuse a change in the other direction.

        :raises ValueError: ``direction`` is not that of ``seen``
        """
        if self.seen == 0.0 or (self.seen > 0.0) != (self.direction == "higher"):
            raise ValueError(f'"seen" is {self.seen:g} (expected a value {self.direction} than 0)')


Words = Annotated[tuple[str, ...], Meta(max_length=MOST_OPTIONS)]


class Rerun(Struct, frozen=True, kw_only=True):
    """How the runs of one workload were recorded, by a recorder that did not store its command.

    :param options: options of its command that nothing else in the bundle shows; untrusted
    """

    workload: str
    options: Words


class SourceEntry(Struct, frozen=True, kw_only=True):
    """The commit that the kernel was built from, as given with ``--source``.

    The keys are those of ``source`` in docs/bundle.md.
    """

    commit: Annotated[str, Meta(pattern=r"\A[0-9a-f]{40}([0-9a-f]{24})?\Z")]
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
        """Refuse texts that are not one printable line: mails and pages quote them.

        :raises ValueError: a text is invalid
        """
        for name in self.__struct_fields__:
            value = getattr(self, name)
            texts = value if isinstance(value, tuple) else (value,)
            for text in texts:
                if isinstance(text, str) and not text.isprintable():
                    raise ValueError(f'invalid "{name}" (expected one line of printable text)')


class ProgramEntry(Struct, frozen=True, kw_only=True):
    """A program, script or interpreter that the workload names, by its base name."""

    name: Line
    sha256: Digest


class RecordingEntry(Struct, frozen=True, kw_only=True):
    """One command that recorded runs of the bundle; untrusted.

    :param command: its words
    :param minutes: how long it took; None if it was killed
    :param programs: the programs, scripts and interpreters that the workload names
    """

    command: Words
    minutes: Quantity | None = None
    programs: Annotated[tuple[ProgramEntry, ...], Meta(max_length=MOST_PROGRAMS)] = ()


class ImportSource(Struct, frozen=True, kw_only=True):
    """Where an imported bundle comes from.

    :param format: name of the importer: "mmtests"
    :param notes: what was not read or is unknown, one sentence each
    """

    format: Annotated[str, Meta(max_length=LONGEST_FORMAT)]
    notes: Annotated[tuple[Sentence, ...], Meta(max_length=MOST_NOTES)] = ()


class CaptureEntry(Struct, frozen=True, kw_only=True):
    """One capture, or why it is missing.

    :param path: path of the member, or of its directory if it is missing
    :param sha256: in hexadecimal; None if nothing is stored, or if neither the manifest nor a
        run.json lists the member
    :param bytes: size of the member; None if nothing is stored
    :param seconds: time the collector took; None if unknown, or if another entry has it
    :param reason: one line if it was skipped or failed; None if it is stored
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
    :param sha256: SHA-256 of the program, in hexadecimal; None if not recorded
    :param version: first line of its ``--version`` output; None if not recorded or empty
    :param end: how it ended: "exit status 0"; None if not recorded
    """

    command: Sentence
    program: Sentence
    sha256: Digest | None = None
    version: Sentence | None = None
    end: Sentence | None = None


class Run(Struct, frozen=True, kw_only=True):
    """One run, from its run.json; keys as in docs/bundle.md.

    :param block: index of the randomised block
    :param round: number of the interleaved pair of runs; None if not interleaved
    :param order: position in the recording session, over all points and both sides
    :param side: side of an ``ab`` recording, e.g. "base"; None in other recordings
    :param factors: level of each factor of a design: {"kernel": "new", "setting": "on"}
    :param exit_status: None if a signal killed the workload, it could not be started, or the
        imported format does not record it
    :param wall_s: time from fork to exit, in s; None if not recorded
    :param period_s: time that the captures cover, in s, if it may be another than ``wall_s``: a
        trace begins or ends within the run; None if they cover the run
    :param left_behind: names of processes that the workload left running after its end
    :param imported: name of the format that the run was imported from; None if it was recorded
    :param source: position of its results in the imported files; None if they were recorded
    :param service: service program that ran during the run; None if there was none
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
    wall_s: WallTime | None = None
    period_s: WallTime | None = None
    rusage: Mapping[str, Quantity] | None = None
    metric: MetricRules | None = None
    left_behind: tuple[Sentence, ...] = ()
    imported: str | None = None
    source: Sentence | None = None
    output_left_out: Mapping[str, Count] = field(default_factory=dict)
    service: ServiceRun | None = None
    discarded: Sentence | None = None

    def __post_init__(self) -> None:
        """Refuse a key that does not match the point, and invalid names and levels of factors.

        :raises ValueError: a field is invalid
        """
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
        """Position of its output, in the imported files or in the bundle."""
        return self.source or self.folder

    @property
    def metric_rules(self) -> tuple[MetricRule, ...]:
        """The rules that parse metrics from its output."""
        return self.metric or ()

    @property
    def omitted_bytes(self) -> int:
        """How many bytes of its output the recorder left out."""
        return sum(self.output_left_out.values())

    @property
    def succeeded(self) -> bool:
        """Return whether the workload finished and reported success, and the run may be used.

        An imported run without an exit status counts as a success, because many formats do not
        record the status.
        """
        is_unknown = self.exit_status is None and self.imported is not None
        has_exited = self.exit_status == 0 or is_unknown
        has_failed = self.signal is not None or self.failure is not None
        return has_exited and not has_failed and self.discarded is None

    @property
    def failed(self) -> bool:
        """Return whether the workload failed; False for discarded runs, whatever their status."""
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
    """The manifest of a bundle; keys as in docs/bundle.md.

    :param load: the command that ran beside the workload, with placeholders; None if there was none
    :param server: server of the workload whose tasks are accounted for; None if there was none
    :param better: direction of metrics whose format does not state it, by name
    :param machine: site-specific name of this machine type; None if not given
    :param facts: what the user stated about the recording, e.g. {"rack": "b12"}
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
    server: str | None = None
    metric: MetricRules | None = None
    sequential: Sequential | None = None
    retest: Retest | None = None
    imported: ImportSource | None = None
    better: Directions = field(default_factory=dict)
    rerun: Annotated[tuple[Rerun, ...], Meta(max_length=MOST_POINTS)] = ()
    source: SourceEntry | None = None
    machine: Annotated[str, Meta(pattern=MACHINE)] | None = None
    facts: Facts = field(default_factory=dict)
    recordings: Annotated[tuple[RecordingEntry, ...], Meta(max_length=MOST_RECORDINGS)] = ()
    captures: tuple[CaptureEntry, ...]


class RunFile(Run, frozen=True, kw_only=True):
    """A whole run.json: the run, its captures, and its copies of fields of the manifest."""

    captures: tuple[CaptureEntry, ...]
    label: str
    tool_version: str | None = None
    treatment: Paths | None = None
    setup: str | None = None
    load: str | None = None
    server: str | None = None
    sequential: Sequential | None = None
    retest: Retest | None = None


class _Header(Struct, frozen=True, kw_only=True):
    """The manifest fields that exist in every format version."""

    format: Literal["schedperf-bundle"]
    version: Version


class NewerFormat(BundleError):
    """A bundle of a future major version, which cannot be read even partly."""


def parse_manifest(content: bytes, where: str, most_values: int = MOST_JSON_VALUES) -> Manifest:
    """Parse manifest.json.

    :param where: bundle and member, for messages
    :param most_values: largest number of JSON values
    :raises NewerFormat: the format has a newer major version; other fields are not checked then
    :raises BundleError: the manifest is invalid
    """
    value = parse_json(content, where, most_values)
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
    """Parse run.json.

    :param where: bundle and member, for messages
    :raises BundleError: the file is invalid
    """
    run = decode(content, RunFile, where)
    if run.start is not None:
        _check_date(run.start, where)
    _check_stored(run.captures, where)
    return run


def _check_date(start: str, where: str) -> None:
    try:
        datetime.fromisoformat(start)
    except ValueError:
        raise BundleError(
            f"{where}: $.start is {show_value(start)} (expected a date and time, e.g. "
            "2026-11-21T14:58:47Z)",
            DAMAGED,
        ) from None


def _check_stored(captures: Sequence[CaptureEntry], where: str) -> None:
    for index, entry in enumerate(captures):
        if entry.status == "ok" and (entry.sha256 is None or entry.bytes is None):
            missing = "sha256" if entry.sha256 is None else "bytes"
            raise BundleError(f"{where}: $.captures[{index}].{missing} is missing", DAMAGED)


def rebuild_manifest(stem: str, files: Sequence[RunFile], rest: Sequence[CaptureEntry]) -> Manifest:
    """Rebuild a manifest from the run.json files, which repeat most of it.

    :param stem: the label of a bundle without a run
    :param rest: entries of the members that no run.json lists
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
        server=first.server if first else None,
        metric=first.metric if first else None,
        sequential=first.sequential if first else None,
        retest=first.retest if first else None,
        captures=(*(entry for file in files for entry in file.captures), *rest),
    )


# Bundles are read in threads. msgspec 0.22 prepares a type at its first use and crashes if another
# thread uses the type meanwhile.
for _kind in (_Header, Manifest, RunFile):
    Decoder(_kind)
