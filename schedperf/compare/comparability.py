# SPDX-License-Identifier: GPL-2.0-or-later
"""Check whether two sides are comparable.

``comparability.toml`` lists every field of host.json as treatment, blocking, noted or ignored, with
its reason. Fields that a bundle declares as its treatment, or that the user allows, are exempt. If
the kernels differ, their defaults are exempt, too (:mod:`schedperf.compare.origin`).
"""

import json
import re
import tomllib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import cache, lru_cache
from importlib.resources import files
from typing import cast

from msgspec import Struct

from schedperf.compare.kernel_config import default_settings
from schedperf.compare.origin import CMDLINE, Decision, KernelDecides, Settings, decide
from schedperf.compare.settings_by_core_type import POLICIES, TYPES, fields_by_type, without_repeats
from schedperf.inputs.bundle.open import Bundle
from schedperf.inputs.side import Side
from schedperf.model.host import has_other_kernel, read_types
from schedperf.model.sides import Comparability, Difference, Severity
from schedperf.model.text import cut, join_names
from schedperf.model.verdict import WORKLOAD
from schedperf.runs.cpus_of_types import cpus_by_type
from schedperf.runs.settings import settings_of_runs
from schedperf_collectors.contract import REASONS_GROUP, fields_of

TABLE = "comparability.toml"
FEATURES = "sched.features"
# How the machine was booted, if the recorder recorded it.
BOOT_METHOD = "system.boot_method"
# These are in the same debugfs directory as the features, so if the features were read, a missing
# file means that the kernel lacks it.
TUNABLES = tuple(
    f"sched.{name}_ns"
    for name in ("base_slice", "min_granularity", "latency", "wakeup_granularity", "migration_cost")
)
IDLE_STATES = "cpuidle.states"
OWNERS_LISTS = ("settings.sysctl", "settings.tmpfiles", "settings.written")
# Lists that a recorder reads completely or not at all.
WHOLE_LISTS = ("sched.energy_model", "cpufreq.rankings")
# Levels of the topology, by which topology.cpus groups CPUs.
LEVELS = ("core", "cluster", "llc", "socket", "node")

# Properties that imported results are checked for, and the fields that show them.
CHECKED: Mapping[str, tuple[str, ...]] = {
    "kernel release": ("kernel.release",),
    "kernel configuration": ("kernel.config_sha256",),
    "kernel command line": ("kernel.cmdline",),
    "CPU model": ("cpu.model",),
    "number of CPUs": ("cpu.count_online",),
    "microcode": ("cpu.microcode",),
    "SMT": ("cpu.smt", "cpu.threads_per_core"),
    "mitigations": ("cpu.mitigations",),
    "NUMA nodes": ("topology.nodes",),
    "memory size": ("memory.total_bytes",),
    "frequency governor": ("cpufreq.governor",),
    "frequency limits and boost": ("cpufreq.boost", "cpufreq.max_khz"),
    "idle states": ("cpuidle.states",),
    "scheduler features": ("sched.features",),
    "preemption model": ("sched.preempt",),
    "virtualisation": ("virtualisation.kind",),
}

# Maximum length of a difference in the record; the full value is in the bundle.
LONGEST_VALUE = 200
# Number of fields whose rule is cached: host.json has about 400.
MOST_FIELDS = 4096
# COMMAND_LINE_SIZE is at most 4096, and the features have 800 characters; a longer text is not a
# parameter list and stays one value.
LONGEST_LIST = 8192

# 'isolcpus=1-3', 'quiet' and 'dyndbg="file a.c +p"' are one parameter each.
PARAMETER = re.compile(r'(?:[^\s"]|"[^"]*"?)+')
WORD = re.compile(r"[\w.+-]+")


class FieldRule(Struct, frozen=True, kw_only=True):
    """How a difference in a field is judged: one entry of ``comparability.toml``.

    :param path: dotted path in host.json; ``*`` matches any text
    :param tolerance: largest relative difference of two numbers that is ignored
    :param ignores_digits: texts that differ only in their digits are equal
    :param are_groups: compare how CPUs are grouped, whatever the groups' numbers
    :param unlimited: first word of a text that is equivalent to no value; "" for none
    :param kernel: whether the field has a kernel default, as
        :data:`~schedperf.compare.origin.KernelDecides` defines it
    :param follows: field that determines this one: the origin of its difference is the origin of
        this one's, and ``kernel`` and ``set_by`` are not used; "" for none
    :param set_by: patterns of the fields that set this one; {name} stands for the last part of the
        path of this one
    """

    path: str
    severity: Severity
    reason: str
    tolerance: float
    ignores_digits: bool
    are_groups: bool = False
    unlimited: str = ""
    kernel: KernelDecides = ""
    follows: str = ""
    set_by: tuple[str, ...] = ()


@cache
def field_rules() -> tuple[FieldRule, ...]:
    """Return the entries of ``comparability.toml``; the first one that matches a path applies."""
    table = tomllib.loads(files("schedperf.compare").joinpath(TABLE).read_text(encoding="utf-8"))
    return tuple(
        FieldRule(
            path=entry["path"],
            severity=entry["severity"],
            reason=entry["reason"],
            tolerance=entry.get("tolerance", 0.0),
            ignores_digits=entry.get("normalise") == "digits",
            are_groups=entry.get("normalise") == "groups",
            unlimited=entry.get("unlimited", ""),
            kernel=entry.get("kernel", ""),
            follows=entry.get("follows", ""),
            set_by=tuple(entry.get("set_by", ())),
        )
        for entry in table["field"]
    )


@lru_cache(MOST_FIELDS)
def find_rule(path: str) -> FieldRule:
    """Return the entry for a field; for an unknown field, one with the severity "noted"."""
    for rule in field_rules():
        if fnmatchcase(path, rule.path):
            return rule
    return FieldRule(
        path=path,
        severity="noted",
        reason="unknown field",
        tolerance=0.0,
        ignores_digits=False,
    )


def flatten_host(host: Mapping[str, object]) -> dict[str, object]:
    """Return the fields of host.json by dotted path.

    ``kernel.cmdline`` becomes one field per parameter and ``sched.features`` one per feature, so
    that a difference names the parameter or feature; the disabled states of ``cpuidle.states`` are
    a field of their own. If there are several types of CPU cores, each has fields of its own,
    frequency settings included; else types are left out. cpufreq policies and empty groups are left
    out. Other lists stay whole.
    """
    types = cpus_by_type(read_types(host))
    left_out = (POLICIES,) if types else (POLICIES, f"{TYPES}.")
    fields = {
        new_path: new_value
        for path, value in fields_of(host)
        # An empty group has no field to compare.
        if value != {}
        for new_path, new_value in _take_apart(path, value)
        if not new_path.startswith(left_out)
    }
    return {**fields, **dict(fields_by_type(host))}


def compare_hosts(sides: Sequence[Side], *, allowed: Sequence[str] = ()) -> Comparability:
    """Compare host.json of the first boots and the workloads of base and of each other side.

    The boots of each side, base included, are compared with its first boot.

    :param sides: base first
    :param allowed: paths that the user allows to differ
    """
    differences: list[Difference] = []
    compared: set[str] = set()
    differing: set[str] = set()
    base = sides[0]
    for side in sides[1:]:
        differences += _workload_differences(base.bundle, side)
        hosts = base.bundle.host_fields, side.bundle.host_fields
        if all(hosts):
            of_base, of_side = map(flatten_host, hosts)
            known = (path for path, value in of_base.items() if value is not None)
            compared |= {path for path in known if of_side.get(path) is not None}
            found = list(_Gate.of(base, side, allowed).differences(*hosts))
            differing |= {difference.path for difference in found}
            differences += without_repeats(found)
        else:
            differences.append(_no_host(side.name, *hosts))
    for side in sides:
        differences += _boot_differences(side, (*side.bundle.treatment, *allowed))
    return Comparability(
        comparable=not any(difference.severity == "blocking" for difference in differences),
        compared=sum(find_rule(path).severity != "ignored" for path in compared | differing),
        differences=tuple(differences),
        equal=_equal_fields(sides, differing | {difference.path for difference in differences}),
    )


def _equal_fields(sides: Sequence[Side], differing: Collection[str]) -> tuple[str, ...]:
    """Return the fields that are known of all sides and do not differ."""
    base, *others = (flatten_host(side.bundle.host_fields) for side in sides)
    return tuple(
        path
        for path, value in base.items()
        if path not in differing
        and find_rule(path).severity != "ignored"
        and None not in (value, *(other.get(path) for other in others))
    )


def name_unchecked(host: Mapping[str, object]) -> Iterator[str]:
    """Yield what an imported result does not record, although comparability depends on it.

    Names are those for a reader: "kernel release"; "versions of the benchmarks" is always the last.
    """
    recorded = {path for path, value in flatten_host(host).items() if value is not None}
    for name, paths in CHECKED.items():
        if not any(path == own or path.startswith(f"{own}.") for own in paths for path in recorded):
            yield name
    yield "versions of the benchmarks"


def unknown_fields(bundles: Iterable[Bundle], paths: Sequence[str]) -> list[str]:
    """Return the paths that are neither a field nor a group of fields of any bundle."""
    recorded = {field for bundle in bundles for field in flatten_host(bundle.host_fields)}
    return [path for path in paths if not any(is_exempt(field, (path,)) for field in recorded)]


def blocking_fields(
    base: Mapping[str, object],
    new: Mapping[str, object],
    *,
    treatment: Sequence[str] = (),
    programs: Collection[str] = (),
) -> dict[str, tuple[object, object]]:
    """Return the fields that prevent a comparison of two machines, by dotted path.

    A field that one machine did not record is not compared.

    :param treatment: paths of fields that may differ
    :param programs: words of the workload; other versions of these programs prevent a comparison,
        too
    :return: the values of base and new, cut to 200 characters
    """
    fields = [flatten_host(host) for host in (base, new)]
    values = {path: (fields[0].get(path), fields[1].get(path)) for path in fields[0]}
    return {
        path: (_shorten(pair[0]), _shorten(pair[1]))
        for path, pair in values.items()
        if None not in pair
        and (find_rule(path).severity == "blocking" or path.removeprefix("tools.") in programs)
        and not is_exempt(path, treatment)
        and not _are_equal(*pair, find_rule(path))
    }


class _Gate(Struct, frozen=True, kw_only=True):
    # One new side against base: ``programs`` are the words of both workloads, ``settings`` those of
    # base and the new side.
    side: str
    treatment: tuple[str, ...]
    programs: frozenset[str]
    has_other_kernel: bool
    settings: tuple[Settings, Settings]
    is_imported: bool

    @classmethod
    def of(cls, base: Side, new: Side, allowed: Sequence[str]) -> "_Gate":
        workload = " ".join((*base.bundle.workload, *new.bundle.workload))
        is_other = has_other_kernel(base.bundle.host_fields, new.bundle.host_fields)
        return cls(
            side=new.name,
            treatment=(*base.bundle.treatment, *new.bundle.treatment, *allowed),
            programs=frozenset(WORD.findall(workload)),
            has_other_kernel=is_other,
            settings=(
                _settings_of(base, has_other_kernel=is_other),
                _settings_of(new, has_other_kernel=is_other),
            ),
            is_imported=any(side.bundle.imported is not None for side in (base, new)),
        )

    def differences(
        self, base: Mapping[str, object], new: Mapping[str, object]
    ) -> Iterator[Difference]:
        base_fields, new_fields = (settings.fields for settings in self.settings)
        for path in dict.fromkeys((*base_fields, *new_fields)):
            rule = find_rule(path)
            values = base_fields.get(path), new_fields.get(path)
            if rule.severity == "ignored" or _are_equal(*values, rule):
                continue
            missing = self._missing(path, (base, new), (base_fields, new_fields))
            if self.is_imported and missing is not None:
                # A caveat lists what formats do not record.
                continue
            decision = self._decide(path, rule) if missing is None else Decision()
            severity, reason = self._judge(path, rule, missing, decision)
            yield Difference(
                path=path,
                side=self.side,
                base=_shorten(values[0]),
                new=_shorten(values[1]),
                severity=severity,
                reason=reason,
                origin=decision.origin,
            )

    def _decide(self, path: str, rule: FieldRule) -> Decision:
        if not self.has_other_kernel:
            return Decision()
        if not rule.follows:
            return decide(path, rule.kernel, rule.set_by, *self.settings)
        values = [settings.fields.get(rule.follows) for settings in self.settings]
        is_other = None not in values and values[0] != values[1]
        return self._decide(rule.follows, find_rule(rule.follows)) if is_other else Decision()

    def _judge(
        self, path: str, rule: FieldRule, missing: str | None, decision: Decision
    ) -> tuple[Severity, str]:
        if is_exempt(path, self.treatment):
            return "treatment", "declared as an intended difference"
        if rule.severity == "treatment":
            return "treatment", rule.reason
        if missing is not None:
            return "noted", missing
        if path.startswith("tools.") and path.removeprefix("tools.") in self.programs:
            return "blocking", "the workload runs this program"
        if decision.is_of_kernel:
            return "treatment", f"{rule.reason}; {decision.reason}"
        reason = f"{rule.reason}; {decision.reason}" if decision.reason else rule.reason
        return rule.severity, reason

    def _missing(
        self,
        path: str,
        hosts: tuple[Mapping[str, object], Mapping[str, object]],
        fields: tuple[Mapping[str, object], Mapping[str, object]],
    ) -> str | None:
        # A value that one side did not record does not prove a difference, unless it belongs to a
        # list that this side did record.
        for name, host, recorded in zip(("base", self.side), hosts, fields, strict=True):
            if recorded.get(path) is None and not self._is_listed(path, host):
                return f"unknown in {name}: {_why_missing(host, path) or 'not recorded'}"
        return None

    def _is_listed(self, path: str, host: Mapping[str, object]) -> bool:
        # A kernel parameter that is missing has its default, a domain that is missing has no energy
        # model, and another kernel may lack a feature or a tunable.
        lists = [
            CMDLINE,
            *OWNERS_LISTS,
            *WHOLE_LISTS,
            *([FEATURES] if self.has_other_kernel else ()),
        ]
        above = next((each for each in lists if path.startswith(f"{each}.")), None)
        if self.has_other_kernel and path in TUNABLES:
            above = FEATURES
        if above is None:
            return False
        group, _, name = above.partition(".")
        members = host.get(group)
        return isinstance(members, Mapping) and members.get(name) is not None


def _settings_of(side: Side, *, has_other_kernel: bool) -> Settings:
    # Whether a value is a kernel default or a setting matters only if the kernels differ.
    hosts = [boot.host_fields for boot in side.bundle.boots if boot.host_fields]
    return Settings(
        side=side.name,
        boots=[flatten_host(host) for host in hosts],
        defaults=default_settings(side) if has_other_kernel else {},
        runs=list(map(flatten_host, settings_of_runs(side))) if has_other_kernel else (),
    )


def _why_missing(host: Mapping[str, object], path: str) -> object:
    reasons = host.get(REASONS_GROUP)
    return reasons.get(path) if isinstance(reasons, Mapping) else None


def _take_apart(path: str, value: object) -> Iterator[tuple[str, object]]:
    if path == IDLE_STATES and isinstance(value, list):
        states = [state for state in value if isinstance(state, Mapping)]
        yield path, [[state.get(key) for key in ("name", "latency_us")] for state in states]
        yield f"{path}.disabled", [state.get("name") for state in states if state.get("disabled")]
    elif not isinstance(value, str) or len(value) > LONGEST_LIST:
        yield path, value
    elif path == CMDLINE:
        parameters: dict[str, list[str]] = {}
        for parameter in PARAMETER.findall(value):
            name, _, setting = parameter.partition("=")
            parameters.setdefault(name, []).append(setting)
        for name, settings in parameters.items():
            yield f"{path}.{name}", " ".join(settings)
    elif path == FEATURES:
        for feature in value.split():
            yield f"{path}.{feature.removeprefix('NO_')}", not feature.startswith("NO_")
    else:
        yield path, value


def _are_equal(base: object, new: object, rule: FieldRule) -> bool:
    if _is_number(base) and _is_number(new):
        base_number, new_number = float(cast("float", base)), float(cast("float", new))
        return abs(base_number - new_number) <= rule.tolerance * max(
            abs(base_number), abs(new_number)
        )
    if rule.ignores_digits and isinstance(base, str) and isinstance(new, str):
        return re.sub(r"\d+", "0", base) == re.sub(r"\d+", "0", new)
    if rule.unlimited and None in (base, new):
        return all(_is_unlimited(value, rule) for value in (base, new))
    if rule.are_groups and isinstance(base, list) and isinstance(new, list):
        return _are_grouped_alike(base, new)
    return base == new


def _are_grouped_alike(base: Sequence[object], new: Sequence[object]) -> bool:
    # Kernels number cores and clusters differently, and older ones do not report clusters.
    for level in LEVELS:
        groups = [_group(cpus, level) for cpus in (base, new)]
        if None not in groups and groups[0] != groups[1]:
            return False
    return _group(base, "cpu") == _group(new, "cpu")


def _group(cpus: Sequence[object], level: str) -> frozenset[frozenset[object]] | None:
    """Return the CPUs grouped by a level of the topology; None if no CPU has a number at the level.

    :param level: one of ``LEVELS``, or "cpu" for groups of one CPU each
    """
    groups: dict[object, set[object]] = {}
    for cpu in cpus:
        if isinstance(cpu, Mapping) and cpu.get(level) is not None:
            # Numbers of cores repeat in each socket.
            key = (cpu.get("socket") if level in {"core", "cluster"} else None, cpu.get(level))
            groups.setdefault(repr(key), set()).add(repr(cpu.get("cpu")))
    return frozenset(map(frozenset, groups.values())) or None


def _is_unlimited(value: object, rule: FieldRule) -> bool:
    return value is None or (isinstance(value, str) and value.split()[:1] == [rule.unlimited])


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def is_exempt(path: str, exempt: Sequence[str]) -> bool:
    """Return whether a field is exempt: its path or that of a group above it is listed."""
    return any(path == above or path.startswith(f"{above}.") for above in exempt)


def _shorten(value: object) -> object:
    if isinstance(value, str):
        text = value
    elif isinstance(value, Sequence):
        text = json.dumps(value)
    else:
        return value
    return cut(text, LONGEST_VALUE)


def _no_host(side: str, base: Mapping[str, object], new: Mapping[str, object]) -> Difference:
    missing = join_names(name for name, host in (("base", base), (side, new)) if not host)
    return Difference(
        path="host.json",
        side=side,
        base=None,
        new=None,
        severity="noted",
        reason=f"machines are not compared, because host.json is missing in {missing}",
    )


def _commands_of(
    base: Bundle, new: Bundle
) -> Iterator[tuple[str, tuple[str | None, str | None], Severity, str]]:
    """Yield the commands around the workload.

    Each item is the name of the field, the commands of base and new, and severity and reason of a
    difference.
    """
    yield (
        "setup",
        (base.setup or None, new.setup or None),
        "treatment",
        "the sides were recorded with different setups",
    )
    yield (
        "service",
        (base.service, new.service),
        "treatment",
        "the sides were recorded with different services",
    )
    yield (
        "load",
        (base.load, new.load),
        "blocking",
        "the commands that ran beside the workload (--with-load) differ",
    )
    yield (
        "server",
        (base.server, new.server),
        "noted",
        "the servers whose tasks are accounted for (--workload-pid) differ",
    )


def _workload_differences(base: Bundle, side: Side) -> Iterator[Difference]:
    new = side.bundle
    for path, commands, severity, reason in _commands_of(base, new):
        if commands[0] != commands[1]:
            yield Difference(
                path=path,
                side=side.name,
                base=_shorten(commands[0]),
                new=_shorten(commands[1]),
                severity=severity,
                reason=reason,
            )
    if set(base.workload) != set(new.workload):
        is_disjoint = not set(base.workload) & set(new.workload)
        yield Difference(
            path=WORKLOAD,
            side=side.name,
            base=_shorten(", ".join(base.workload)),
            new=_shorten(", ".join(new.workload)),
            severity="blocking" if is_disjoint else "noted",
            reason="no common workload" if is_disjoint else "only common workloads are compared",
        )
    rules = {rule.name: rule.regex for rule in base.metric_rules}
    for rule in new.metric_rules:
        if rules.get(rule.name, rule.regex) != rule.regex:
            yield Difference(
                path=f"metric.{rule.name}",
                side=side.name,
                base=_shorten(rules[rule.name]),
                new=_shorten(rule.regex),
                severity="blocking",
                reason="the regular expression of the metric differs",
            )


def _blocks_boots(path: str, values: tuple[object, object], rule: FieldRule) -> bool:
    """Return whether boots of one side that differ in a field must not be mixed."""
    return rule.severity == "treatment" or (path == BOOT_METHOD and None not in values)


def _boot_differences(side: Side, exempt: Sequence[str]) -> Iterator[Difference]:
    # All boots of one side must run the same kernel; other differences are noted.
    boots = [boot for boot in side.bundle.boots if boot.host_fields]
    if not boots:
        return
    hosts = [boot.host_fields for boot in boots]
    first = flatten_host(hosts[0])
    for boot, host in zip(boots[1:], hosts[1:], strict=True):
        fields = flatten_host(host)
        for path in dict.fromkeys((*first, *fields)):
            rule = find_rule(path)
            values = first.get(path), fields.get(path)
            # A value that one boot could not record does not count as a difference.
            is_unseen = any(
                value is None and _why_missing(of_boot, path)
                for value, of_boot in zip(values, (hosts[0], host), strict=True)
            )
            if rule.severity == "ignored" or is_unseen or _are_equal(*values, rule):
                continue
            yield Difference(
                path=path,
                side=side.name,
                base=_shorten(values[0]),
                new=_shorten(values[1]),
                severity="blocking"
                if _blocks_boots(path, values, rule) and not is_exempt(path, exempt)
                else "noted",
                reason=f"differs between boots {boots[0].number} and {boot.number} of {side.name}",
            )
