# SPDX-License-Identifier: GPL-2.0-or-later
"""Summarise one bundle as the record that ``schedperf show`` prints and writes as JSON."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from schedperf.inputs.bundle.manifest import SourceEntry
from schedperf.inputs.bundle.open import Boot, Bundle, CaptureEntry, MetricRule, Run
from schedperf.model.host import Host

SCHEMA = "schedperf/show/1"


class PointSummary(Struct, frozen=True, kw_only=True):
    """The runs of one workload at one point.

    :param clean: clean (not instrumented) runs that succeeded, warm-up excluded
    :param instrumented: runs with intrusive collectors that succeeded, warm-up excluded
    :param warmup: warm-up runs, also failed ones
    :param failed: clean and instrumented runs whose workload failed, warm-up excluded
    :param discarded: runs that did not measure what they should, warm-up excluded
    :param wall_min_s: wall time of the shortest of the clean runs; None if none is recorded
    :param wall_max_s: wall time of the longest of the clean runs; None if none is recorded
    """

    workload: str
    point: str
    clean: int
    instrumented: int
    warmup: int
    failed: int
    discarded: int
    wall_min_s: float | None
    wall_max_s: float | None


class BootSummary(Struct, frozen=True, kw_only=True):
    """One boot.

    :param boot_id: that of its first run; None if not recorded, or without runs
    :param kernel: release; None if not recorded
    :param runs: warm-up excluded, failed ones included
    """

    number: int
    boot_id: str | None
    kernel: str | None
    runs: int


class Reason(Struct, frozen=True, kw_only=True):
    """Why a collector captured nothing, with the number of times."""

    status: str
    reason: str
    count: int


class CollectorSummary(Struct, frozen=True, kw_only=True):
    """What one collector captured.

    :param captured: number of boots or runs captured
    :param files: number of files in the bundle
    :param bytes: size of these files, uncompressed
    :param seconds: total time spent capturing; None if not recorded
    :param reasons: why it captured nothing for some boots or runs
    """

    collector: str
    captured: int
    files: int
    bytes: int
    seconds: float | None
    reasons: tuple[Reason, ...]


class RunSummary(Struct, frozen=True, kw_only=True):
    """One run.

    :param folder: its directory in the bundle
    :param kind: "clean" or "instrumented"
    :param order: its position among the runs of the recording
    :param start: when it started, ISO 8601; None if not recorded
    :param wall_s: wall time; None if not recorded
    :param outcome: "ok", or why it has no result
    """

    folder: str
    workload: str
    point: str
    kind: str
    warmup: bool
    order: int
    start: str | None
    wall_s: float | None
    outcome: str


class Machine(Struct, frozen=True, kw_only=True):
    """The machine, from host.json of the first boot; a field is None if it was not recorded."""

    cpu: str | None
    cpus: int | None
    nodes: int | None
    memory_bytes: int | None
    virtualisation: str | None
    emulated: bool | None
    hostname: str | None
    distro: str | None
    kernel: str | None
    kernel_version: str | None
    architecture: str | None
    build_id: str | None


class Verification(Struct, frozen=True, kw_only=True):
    """The result of verifying every member against its checksum.

    :param members: number of members
    :param broken: names of the members that do not match their checksum
    :param digest: SHA-256 of all data; None if a member is damaged
    """

    members: int
    broken: tuple[str, ...]
    digest: str | None


class BundleSummary(Struct, frozen=True, kw_only=True):
    """One bundle.

    :param members: number of files
    :param bytes: total size, uncompressed
    :param finished_runs: warm-up excluded, failed ones included
    :param imported: format that the bundle was imported from; None if it was recorded
    :param source: commit that the kernel was built from; None if not given
    :param machine_name: the site's name for machines of this kind; None if not given
    :param facts: what the user stated about the recording
    :param is_side_of_ab: whether the runs were interleaved with those of another setup
    :param factors: levels of the side: {"kernel": "new", "setting": "on"}; {} without a design
    :param verification: None unless requested
    """

    schema: str
    path: str
    label: str
    members: int
    bytes: int
    tool_version: str | None
    created: str | None
    complete: bool
    incomplete_reason: str | None
    planned_runs: int | None
    finished_runs: int
    machine: Machine
    workload: tuple[str, ...]
    treatment: tuple[str, ...]
    is_side_of_ab: bool
    factors: Mapping[str, str]
    setup: str | None
    service: str | None
    load: str | None
    server: str | None
    metric: tuple[MetricRule, ...]
    imported: str | None
    source: SourceEntry | None
    machine_name: str | None
    facts: Mapping[str, str]
    points: tuple[PointSummary, ...]
    boots: tuple[BootSummary, ...]
    captures: tuple[CollectorSummary, ...]
    runs: tuple[RunSummary, ...]
    caveats: tuple[str, ...]
    verification: Verification | None


def summarise(bundle: Bundle, *, verify: bool) -> BundleSummary:
    """Summarise a bundle.

    :param verify: read every member and compare it with its checksum
    :raises BundleError: with ``verify``, the file was truncated after it was opened
    """
    names = bundle.names()
    return BundleSummary(
        schema=SCHEMA,
        path=str(bundle.path),
        label=bundle.label,
        members=len(names),
        bytes=sum(bundle.size(name) or 0 for name in names),
        tool_version=bundle.tool_version,
        created=bundle.created,
        complete=bundle.complete,
        incomplete_reason=bundle.incomplete_reason,
        planned_runs=bundle.planned_runs,
        finished_runs=sum(not run.warmup for run in bundle.runs),
        machine=_machine(bundle.boots[0].host if bundle.boots else Host()),
        workload=bundle.workload,
        treatment=bundle.treatment,
        is_side_of_ab=any(run.side is not None for run in bundle.runs),
        factors=next((run.factors for run in bundle.runs if run.factors), {}),
        setup=bundle.setup,
        service=bundle.service,
        load=bundle.load,
        server=bundle.server,
        metric=bundle.metric_rules,
        imported=bundle.imported.format if bundle.imported else None,
        source=bundle.source,
        machine_name=bundle.machine,
        facts=bundle.facts,
        points=_points(bundle),
        boots=tuple(_boot(boot) for boot in bundle.boots),
        captures=_collectors(bundle.captures),
        runs=tuple(_run(run) for run in bundle.runs),
        caveats=tuple(caveat.text for caveat in bundle.caveats),
        verification=_verification(bundle) if verify else None,
    )


def _verification(bundle: Bundle) -> Verification:
    broken = bundle.broken_members()
    return Verification(
        members=len(bundle.names()),
        broken=broken,
        digest=None if broken else bundle.digest,
    )


def _machine(host: Host) -> Machine:
    cpu, kernel, nodes = host.cpu, host.kernel, host.topology.nodes
    return Machine(
        cpu=cpu.model,
        cpus=cpu.count_online,
        nodes=None if nodes is None else len(nodes),
        memory_bytes=host.memory.total_bytes,
        virtualisation=host.virtualisation.kind,
        emulated=host.virtualisation.emulated,
        hostname=host.system.hostname,
        distro=host.system.distro,
        kernel=kernel.release,
        kernel_version=kernel.version,
        architecture=kernel.machine,
        build_id=kernel.build_id,
    )


def _points(bundle: Bundle) -> tuple[PointSummary, ...]:
    """Summarise each point that was planned or run, in the order of the manifest."""
    groups: dict[tuple[str, str], list[Run]] = {}
    if len(bundle.workload) == 1:
        groups = {(bundle.workload[0], point): [] for point in bundle.points}
    for run in bundle.runs:
        groups.setdefault((run.workload, run.point_key), []).append(run)
    return tuple(_point(workload, point, runs) for (workload, point), runs in groups.items())


def _point(workload: str, point: str, runs: Sequence[Run]) -> PointSummary:
    counted = [run for run in runs if not run.warmup]
    good = [run for run in counted if run.succeeded]
    clean = [run for run in good if run.kind == "clean"]
    walls = [run.wall_s for run in clean if run.wall_s is not None]
    return PointSummary(
        workload=workload,
        point=point,
        clean=len(clean),
        instrumented=len(good) - len(clean),
        warmup=len(runs) - len(counted),
        failed=sum(run.failed for run in counted),
        discarded=sum(run.discarded is not None for run in counted),
        wall_min_s=min(walls, default=None),
        wall_max_s=max(walls, default=None),
    )


def _boot(boot: Boot) -> BootSummary:
    return BootSummary(
        number=boot.number,
        boot_id=next((run.boot_id for run in boot.runs), None),
        kernel=boot.host.kernel.release,
        runs=sum(not run.warmup for run in boot.runs),
    )


def _run(run: Run) -> RunSummary:
    return RunSummary(
        folder=run.folder,
        workload=run.workload,
        point=run.point_key,
        kind=run.kind,
        warmup=run.warmup,
        order=run.order,
        start=run.start,
        wall_s=run.wall_s,
        outcome=_outcome(run),
    )


def _outcome(run: Run) -> str:
    if run.discarded is not None:
        return f"discarded: {run.discarded}"
    if run.failure is not None:
        return run.failure
    if run.signal is not None:
        return f"killed by signal {run.signal}"
    if run.exit_status is None:
        return "no exit status"
    return "ok" if run.exit_status == 0 else f"exit status {run.exit_status}"


def _collectors(entries: Iterable[CaptureEntry]) -> tuple[CollectorSummary, ...]:
    groups: dict[str, list[CaptureEntry]] = {}
    for entry in entries:
        groups.setdefault(entry.collector, []).append(entry)
    return tuple(_collector(name, group) for name, group in sorted(groups.items()))


def _collector(name: str, entries: Sequence[CaptureEntry]) -> CollectorSummary:
    stored = [entry for entry in entries if entry.status == "ok"]
    seconds = [entry.seconds for entry in entries if entry.seconds is not None]
    reasons = Counter(
        (entry.status, entry.reason or "no reason recorded")
        for entry in entries
        if entry.status != "ok"
    )
    return CollectorSummary(
        collector=name,
        # The files of one capture share a directory.
        captured=len({entry.path.rpartition("/")[0] for entry in stored}),
        files=len(stored),
        bytes=sum(entry.bytes or 0 for entry in stored),
        seconds=sum(seconds) if seconds else None,
        reasons=tuple(
            Reason(status=status, reason=reason, count=count)
            for (status, reason), count in reasons.items()
        ),
    )
