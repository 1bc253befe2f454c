# SPDX-License-Identifier: GPL-2.0-or-later
"""Check whether two sides are comparable.

``comparability.toml`` lists every field of host.json as treatment, blocking,
noted or ignored, with its reason. What a bundle declares as its treatment, and
what the user allows, is exempt.
"""

import json
import re
import tomllib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from importlib.resources import files
from typing import cast

from schedperf.bundle.open import Bundle
from schedperf.model.comparison import Comparability, Difference, Severity
from schedperf.model.host import REASONS_GROUP, fields_of
from schedperf.runs.side import Side

TABLE = "comparability.toml"
CMDLINE = "kernel.cmdline"

# A difference is for people to read; the whole value is in the bundle.
LONGEST_VALUE = 200
# COMMAND_LINE_SIZE is 4096 at most, and the features have 800 characters; what is longer is no
# list of parameters and stays one value.
LONGEST_LIST = 8192

# 'isolcpus=1-3', 'quiet' and 'dyndbg="file a.c +p"' are one parameter each.
PARAMETER = re.compile(r'(?:[^\s"]|"[^"]*"?)+')
WORD = re.compile(r"[\w.+-]+")


@dataclass(frozen=True, kw_only=True, slots=True)
class FieldRule:
    """How a difference in a field is judged: one entry of the table.

    :param path: dotted path in host.json; ``*`` matches any text
    :param tolerance: largest relative difference of two numbers that counts as none
    :param ignores_digits: texts that differ only in their digits are equal
    :param unlimited: first word of a text that is equivalent to no value; "" for none
    """

    path: str
    severity: Severity
    reason: str
    tolerance: float
    ignores_digits: bool
    unlimited: str = ""


@cache
def field_rules() -> tuple[FieldRule, ...]:
    """Return the table; the first entry that matches a path decides."""
    table = tomllib.loads(files("schedperf.compare").joinpath(TABLE).read_text(encoding="utf-8"))
    return tuple(
        FieldRule(
            path=entry["path"],
            severity=entry["severity"],
            reason=entry["reason"],
            tolerance=entry.get("tolerance", 0.0),
            ignores_digits=entry.get("normalise") == "digits",
            unlimited=entry.get("unlimited", ""),
        )
        for entry in table["field"]
    )


def find_rule(path: str) -> FieldRule:
    """Return the entry for a field; a difference in an unknown field is noted."""
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

    ``kernel.cmdline`` becomes one field a parameter and ``sched.features`` one
    a feature, so that a difference names what differs. Lists stay whole.
    """
    return {
        new_path: new_value
        for path, value in fields_of(host)
        # A group of nothing has no field to compare.
        if value != {}
        for new_path, new_value in _take_apart(path, value)
    }


def compare_hosts(sides: Sequence[Side], *, allowed: Sequence[str] = ()) -> Comparability:
    """Compare the first boots of base and of each other side, and the boots of one side.

    :param allowed: paths that the user allows to differ
    """
    differences: list[Difference] = []
    compared: set[str] = set()
    base = sides[0]
    for side in sides[1:]:
        workload = " ".join((*base.bundle.workload, *side.bundle.workload))
        gate = _Gate(
            side=side.name,
            treatment=(*base.bundle.treatment, *side.bundle.treatment, *allowed),
            programs=frozenset(WORD.findall(workload)),
        )
        differences += _workload_differences(base.bundle, side)
        hosts = _first_host(base.bundle), _first_host(side.bundle)
        if all(hosts):
            compared |= {path for host in hosts for path in flatten_host(host)}
            differences += gate.differences(*hosts)
        else:
            differences.append(_no_host(side.name, *hosts))
    for side in sides:
        differences += _boot_differences(side, (*side.bundle.treatment, *allowed))
    return Comparability(
        comparable=not any(difference.severity == "blocking" for difference in differences),
        compared=sum(find_rule(path).severity != "ignored" for path in compared),
        differences=tuple(differences),
        equal=_equal_fields(sides, {difference.path for difference in differences}),
    )


def _equal_fields(sides: Sequence[Side], differing: Collection[str]) -> tuple[str, ...]:
    hosts = [_first_host(side.bundle) for side in sides]
    if not all(hosts):
        return ()
    paths = dict.fromkeys(path for host in hosts for path in flatten_host(host))
    return tuple(
        path for path in paths if path not in differing and find_rule(path).severity != "ignored"
    )


def unknown_fields(bundles: Iterable[Bundle], paths: Sequence[str]) -> list[str]:
    """Return those of the paths that name no field of any bundle."""
    recorded = {field for bundle in bundles for field in flatten_host(_first_host(bundle))}
    return [path for path in paths if not any(_is_exempt(field, (path,)) for field in recorded)]


@dataclass(frozen=True, kw_only=True, slots=True)
class _Gate:
    # One new side against base; programs are the words of both workloads.
    side: str
    treatment: tuple[str, ...]
    programs: frozenset[str]

    def differences(
        self, base: Mapping[str, object], new: Mapping[str, object]
    ) -> Iterator[Difference]:
        base_fields, new_fields = flatten_host(base), flatten_host(new)
        for path in dict.fromkeys((*base_fields, *new_fields)):
            rule = find_rule(path)
            values = base_fields.get(path), new_fields.get(path)
            if rule.severity == "ignored" or _are_equal(*values, rule):
                continue
            missing = self._missing(path, (base, new), (base_fields, new_fields))
            severity, reason = self._judge(path, rule, missing)
            yield Difference(
                path=path,
                side=self.side,
                base=_shorten(values[0]),
                new=_shorten(values[1]),
                severity=severity,
                reason=reason,
            )

    def _judge(self, path: str, rule: FieldRule, missing: str | None) -> tuple[Severity, str]:
        if _is_exempt(path, self.treatment):
            return "treatment", "declared as an intended difference"
        if rule.severity == "treatment":
            return "treatment", rule.reason
        if missing is not None:
            return "noted", missing
        if path.startswith("tools.") and path.removeprefix("tools.") in self.programs:
            return "blocking", "the workload runs this program"
        return rule.severity, rule.reason

    def _missing(
        self,
        path: str,
        hosts: tuple[Mapping[str, object], Mapping[str, object]],
        fields: tuple[Mapping[str, object], Mapping[str, object]],
    ) -> str | None:
        # A value that one side did not record does not prove a difference. A kernel parameter
        # that is missing does: the kernel then has its default.
        is_parameter = path.startswith(f"{CMDLINE}.")
        for name, host, recorded in zip(("base", self.side), hosts, fields, strict=True):
            if recorded.get(path) is None and not (is_parameter and CMDLINE not in recorded):
                return f"unknown in {name}: {_why_missing(host, path) or 'not recorded'}"
        return None


def _why_missing(host: Mapping[str, object], path: str) -> object:
    reasons = host.get(REASONS_GROUP)
    return reasons.get(path) if isinstance(reasons, Mapping) else None


def _take_apart(path: str, value: object) -> Iterator[tuple[str, object]]:
    if not isinstance(value, str) or len(value) > LONGEST_LIST:
        yield path, value
    elif path == CMDLINE:
        parameters: dict[str, list[str]] = {}
        for parameter in PARAMETER.findall(value):
            name, _, setting = parameter.partition("=")
            parameters.setdefault(name, []).append(setting)
        for name, settings in parameters.items():
            yield f"{path}.{name}", " ".join(settings)
    elif path == "sched.features":
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
    return base == new


def _is_unlimited(value: object, rule: FieldRule) -> bool:
    return value is None or (isinstance(value, str) and value.split()[:1] == [rule.unlimited])


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_exempt(path: str, exempt: Sequence[str]) -> bool:
    return any(path == above or path.startswith(f"{above}.") for above in exempt)


def _shorten(value: object) -> object:
    if isinstance(value, str):
        text = value
    elif isinstance(value, Sequence):
        text = json.dumps(value)
    else:
        return value
    return text if len(text) <= LONGEST_VALUE else f"{text[:LONGEST_VALUE]}…"


def _first_host(bundle: Bundle) -> Mapping[str, object]:
    return bundle.boots[0].host_fields if bundle.boots else {}


def _no_host(side: str, base: Mapping[str, object], new: Mapping[str, object]) -> Difference:
    missing = " and ".join(name for name, host in (("base", base), (side, new)) if not host)
    return Difference(
        path="host.json",
        side=side,
        base=None,
        new=None,
        severity="noted",
        reason=f"no host.json in {missing}: machines not compared",
    )


def _workload_differences(base: Bundle, side: Side) -> Iterator[Difference]:
    new = side.bundle
    if set(base.workload) != set(new.workload):
        is_disjoint = not set(base.workload) & set(new.workload)
        yield Difference(
            path="workload",
            side=side.name,
            base=_shorten(", ".join(base.workload)),
            new=_shorten(", ".join(new.workload)),
            severity="blocking" if is_disjoint else "noted",
            reason="the workloads differ" if is_disjoint else "only common workloads are compared",
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
                if rule.severity == "treatment" and not _is_exempt(path, exempt)
                else "noted",
                reason=f"differs between boots {boots[0].number} and {boot.number} of {side.name}",
            )
