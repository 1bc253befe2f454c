"""What manifest.json, run.json and host.json hold, as records; docs/bundle.md is the text.

Each ``parse_`` function takes bytes of strangers and where they are from, and
raises :class:`~schedperf.model.errors.BundleError` that names the key that is wrong.
"""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, cast

from schedperf.bundle.json import JsonObject, parse_object
from schedperf.model.errors import BundleError
from schedperf.model.host import Host
from schedperf.model.run import Kind
from schedperf_collectors.contract import (
    BUNDLE_FORMAT,
    BUNDLE_VERSION,
    MOST_BUDGETED,
    point_key,
    run_folder,
)

# `record` makes no more runs than these, and each may be a point of its own.
MOST_POINTS = 100_000
# The longest lists that a person gives: paths that are meant to differ, rules of metrics.
MOST_PATHS = 1_000
MOST_RULES = 100
# host.json has some 200 values; each becomes a row where two machines differ.
MOST_HOST_VALUES = 10_000
# The values of host.json that are objects, by group.
_OBJECTS_OF_HOST = {"cpu": ("mitigations",), "topology": ("nodes",)}

Status = Literal["ok", "skipped", "failed"]
Direction = Literal["higher", "lower"]


@dataclass(frozen=True, kw_only=True, slots=True)
class MetricRule:
    """A rule that the user gave with ``--metric``.

    :param regex: its first group is the number
    """

    name: str
    unit: str
    better: Direction
    regex: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Sequential:
    """How a recording looked at its runs while it made them.

    :param against: digest of the bundle that it compared with
    :param first: runs of each point before the first look
    :param max_runs: its budget: runs of each point after which it ended anyway
    :param looks: after how many runs of each point it looked; None where no manifest says so
    :param stopped: why it ended; None where it was cut off
    """

    against: str | None
    first: int
    max_runs: int
    looks: tuple[int, ...] | None
    stopped: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class CaptureEntry:
    """One capture, or why there is none.

    :param path: of the member, or of the folder that would have held it
    :param seconds: what the collector cost
    :param reason: one line when it was skipped or failed
    """

    collector: str
    path: str
    sha256: str | None
    bytes: int | None
    seconds: float | None
    status: Status
    reason: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Run:
    """One run, as its run.json says; keys as in docs/bundle.md.

    :param order: place in the recording session, over all points and both sides
    :param wall_s: from fork to exit
    :param folder: "boots/0/runs/000"
    """

    boot: int
    run: int
    boot_id: str | None
    workload: str
    command: tuple[str, ...]
    point: Mapping[str, str]
    point_key: str
    kind: Kind
    warmup: bool
    block: int
    round: int | None
    session: str | None
    order: int
    start: str | None
    exit_status: int | None
    signal: int | None
    failure: str | None
    wall_s: float | None
    rusage: Mapping[str, float]
    metric_rules: tuple[MetricRule, ...]
    folder: str

    @property
    def succeeded(self) -> bool:
        """Did the workload run to its end and say that all was well?"""
        return self.exit_status == 0 and self.signal is None and self.failure is None


@dataclass(frozen=True, kw_only=True, slots=True)
class Boot:
    """One boot of the kernel under test.

    :param host: the typed facts of host.json
    :param host_fields: all of host.json, as two machines are compared; {} when it is missing
    :param folder: "boots/0"
    """

    number: int
    host: Host
    host_fields: Mapping[str, object]
    runs: tuple[Run, ...]
    folder: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Manifest:
    """What is true of the bundle as a whole.

    :param minor: the minor version of the format that it is written in
    """

    minor: int
    label: str
    tool_version: str | None
    created: str | None
    complete: bool
    incomplete_reason: str | None
    planned_runs: int | None
    workload: tuple[str, ...]
    points: tuple[str, ...]
    treatment: tuple[str, ...]
    setup: str | None
    metric_rules: tuple[MetricRule, ...]
    sequential: Sequential | None
    captures: tuple[CaptureEntry, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class RunFile:
    """A whole run.json: the run, its captures, and what it repeats of the manifest."""

    run: Run
    captures: tuple[CaptureEntry, ...]
    label: str
    tool_version: str | None
    treatment: tuple[str, ...]
    setup: str | None
    sequential: Sequential | None


class NewerFormat(BundleError):
    """A bundle of a future major version, of which not even a part can be read."""


def _choice(values: JsonObject, key: str, choices: Sequence[str]) -> str:
    value = values.text(key)
    if value not in choices:
        raise values.wrong(key, " or ".join(choices))
    return value


def _metric_rule(values: JsonObject) -> MetricRule:
    return MetricRule(
        name=values.text("name"),
        unit=values.text("unit"),
        better=cast("Direction", _choice(values, "better", ("higher", "lower"))),
        regex=values.text("regex"),
    )


def _metric_rules(values: JsonObject) -> tuple[MetricRule, ...]:
    rules = values.optional(values.children, "metric") or ()
    if len(rules) > MOST_RULES:
        raise values.wrong("metric", f"at most {MOST_RULES} rules")
    return tuple(_metric_rule(rule) for rule in rules)


def _sequential(values: JsonObject) -> Sequential | None:
    child = values.optional(values.child, "sequential")
    if child is None:
        return None
    first, max_runs = child.count("first"), child.count("max_runs")
    if not 0 < first <= max_runs:
        raise child.wrong("first", f"from 1 to max_runs, which is {max_runs}")
    if max_runs > MOST_BUDGETED:
        raise child.wrong("max_runs", f"at most {MOST_BUDGETED}")
    return Sequential(
        against=child.optional(child.text, "against"),
        first=first,
        max_runs=max_runs,
        looks=child.optional(lambda key: _looks(child, key, max_runs), "looks"),
        stopped=child.optional(child.text, "stopped"),
    )


def _looks(values: JsonObject, key: str, max_runs: int) -> tuple[int, ...]:
    looks = values.counts(key)
    is_rising = all(one < other for one, other in itertools.pairwise((0, *looks)))
    if not is_rising or any(look > max_runs for look in looks):
        raise values.wrong(key, f"rising numbers from 1 to max_runs, which is {max_runs}")
    return looks


def _capture_entry(values: JsonObject) -> CaptureEntry:
    status = cast("Status", _choice(values, "status", ("ok", "skipped", "failed")))
    stored = status == "ok"
    return CaptureEntry(
        collector=values.text("collector"),
        path=values.text("path"),
        sha256=values.text("sha256") if stored else None,
        bytes=values.count("bytes") if stored else None,
        seconds=values.optional(values.quantity, "seconds"),
        status=status,
        reason=values.optional(values.text, "reason"),
    )


def _texts(values: JsonObject, key: str, most: int) -> tuple[str, ...]:
    texts = values.texts(key)
    if len(texts) > most:
        raise values.wrong(key, f"at most {most} strings")
    return texts


def _captures(values: JsonObject) -> tuple[CaptureEntry, ...]:
    return tuple(_capture_entry(entry) for entry in values.children("captures"))


def _check_version(values: JsonObject) -> int:
    """Return the minor version; nothing else is looked at in a format that we do not know."""
    if values.text("format") != BUNDLE_FORMAT:
        raise values.wrong("format", f'"{BUNDLE_FORMAT}"')
    version = values.child("version")
    major, minor = version.count("major"), version.count("minor")
    if major > BUNDLE_VERSION[0]:
        raise NewerFormat(
            f"{values.where}: has format {major}.{minor}, but this schedperf reads format "
            f"{BUNDLE_VERSION[0]}.{BUNDLE_VERSION[1]}; use a newer schedperf"
        )
    return minor


def parse_manifest(content: bytes, where: str) -> Manifest:
    """Read manifest.json."""
    values = parse_object(content, where)
    return Manifest(
        minor=_check_version(values),
        label=values.text("label"),
        tool_version=values.optional(values.text, "tool_version"),
        created=values.optional(values.text, "created"),
        complete=values.flag("complete"),
        incomplete_reason=values.optional(values.text, "incomplete_reason"),
        planned_runs=values.optional(values.count, "planned_runs"),
        workload=_texts(values, "workload", MOST_POINTS),
        points=_texts(values, "points", MOST_POINTS),
        treatment=_texts(values, "treatment", MOST_PATHS),
        setup=values.optional(values.text, "setup"),
        metric_rules=_metric_rules(values),
        sequential=_sequential(values),
        captures=_captures(values),
    )


def parse_run(content: bytes, where: str) -> RunFile:
    """Read run.json."""
    values = parse_object(content, where)
    return RunFile(
        run=_run(values),
        captures=_captures(values),
        label=values.text("label"),
        tool_version=values.optional(values.text, "tool_version"),
        treatment=values.optional(lambda key: _texts(values, key, MOST_PATHS), "treatment") or (),
        setup=values.optional(values.text, "setup"),
        sequential=_sequential(values),
    )


def _point(values: JsonObject) -> Mapping[str, str]:
    child = values.child("point")
    point = {name: child.text(name) for name in child.values}
    if values.text("point_key") != point_key(point):
        raise values.wrong("point_key", f'"{point_key(point)}", which is what point says')
    return point


def _rusage(values: JsonObject) -> Mapping[str, float]:
    child = values.optional(values.child, "rusage")
    return {} if child is None else {name: child.quantity(name) for name in child.values}


def _run(values: JsonObject) -> Run:
    return Run(
        boot=values.count("boot"),
        run=values.count("run"),
        boot_id=values.optional(values.text, "boot_id"),
        workload=values.text("workload"),
        command=values.texts("command"),
        point=_point(values),
        point_key=values.text("point_key"),
        kind=cast("Kind", _choice(values, "kind", ("clean", "instrumented"))),
        warmup=values.flag("warmup"),
        block=values.count("block"),
        round=values.optional(values.count, "round"),
        session=values.optional(values.text, "session"),
        order=values.count("order"),
        start=values.optional(values.text, "start"),
        exit_status=values.optional(values.integer, "exit_status"),
        signal=values.optional(values.integer, "signal"),
        failure=values.optional(values.text, "failure"),
        wall_s=values.optional(values.quantity, "wall_s"),
        rusage=_rusage(values),
        metric_rules=_metric_rules(values),
        folder=run_folder(values.count("boot"), values.count("run")),
    )


def parse_host(content: bytes, where: str) -> Mapping[str, object]:
    """Read a host.json: groups of values, of which only the objects are checked here."""
    values = parse_object(content, where)
    groups = {name: values.child(name).values for name in values.values}
    for name in groups:
        group = values.child(name)
        for key in _OBJECTS_OF_HOST.get(name, ()):
            group.optional(group.child, key)
    count = _count_values(groups)
    if count > MOST_HOST_VALUES:
        raise BundleError(f"{where}: {count} values, more than {MOST_HOST_VALUES}; record it again")
    return groups


def _count_values(value: object) -> int:
    # A list is one value, as it is where two machines are compared.
    if isinstance(value, Mapping):
        return sum(_count_values(child) for child in value.values())
    return 1


def rebuild_manifest(stem: str, files: Sequence[RunFile], rest: Sequence[CaptureEntry]) -> Manifest:
    """Make a manifest from the run.json files, which repeat most of it.

    :param stem: the label of a bundle without a run
    :param rest: members that no run.json lists
    """
    first = files[0] if files else None
    return Manifest(
        minor=BUNDLE_VERSION[1],
        label=first.label if first else stem,
        tool_version=first.tool_version if first else None,
        created=first.run.start if first else None,
        complete=False,
        incomplete_reason="it has no manifest, so recording was cut off or still runs",
        planned_runs=None,
        workload=tuple(dict.fromkeys(file.run.workload for file in files)),
        points=tuple(dict.fromkeys(file.run.point_key for file in files)),
        treatment=first.treatment if first else (),
        setup=first.setup if first else None,
        metric_rules=first.run.metric_rules if first else (),
        sequential=first.sequential if first else None,
        captures=(*(entry for file in files for entry in file.captures), *rest),
    )
