# SPDX-License-Identifier: GPL-2.0-or-later
"""Redact host.json: fields and kernel parameters by allow-list."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Callable

from schedperf_collectors.contract import REASONS_GROUP, fields_of
from schedperf_collectors.redaction.private import SHORTEST_VALUE
from schedperf_collectors.redaction.rules import COMMAND_LINE, Rules

Clean = Callable[[object], object]

# Parameters after this are arguments of init.
END_OF_PARAMETERS = "--"
# Fields that name the machine; even short values are private.
_IDENTITIES = ("system.hostname", "system.boot_id", "system.machine_id_sha256")


def redact_host(
    host: Mapping[str, object], rules: Rules, clean: Clean, left_out: Counter[str]
) -> dict[str, object]:
    """Return the allowed fields of a host.json; groups without one are left out.

    :param clean: function that removes private strings from a value
    :param left_out: number of omitted strings by kind, which is updated
    """
    kept: dict[str, object] = {}
    for group, fields in host.items():
        if group == REASONS_GROUP:
            kept[group] = _redact_reasons(fields, rules, clean)
        elif isinstance(fields, Mapping):
            kept[group] = _redact_group(f"{group}.", fields, rules, clean, left_out)
        else:
            left_out[_name(group, rules)] += 1
    return {group: fields for group, fields in kept.items() if fields}


def _redact_group(
    prefix: str,
    group: Mapping[str, object],
    rules: Rules,
    clean: Clean,
    left_out: Counter[str],
) -> dict[str, object]:
    kept: dict[str, object] = {}
    for key, value in group.items():
        path = f"{prefix}{key}"
        if isinstance(value, Mapping):
            inner = _redact_group(f"{path}.", value, rules, clean, left_out)
            if inner:
                kept[str(clean(key))] = inner
        elif not rules.has_host_field(path):
            left_out[_name(path, rules)] += 1
        elif path == COMMAND_LINE and isinstance(value, str):
            kept[key] = clean(redact_command_line(value, rules, left_out))
        else:
            kept[str(clean(key))] = clean(value)
    return kept


def _name(path: str, rules: Rules) -> str:
    # Names of unknown fields are untrusted texts.
    if path in _IDENTITIES:
        return f"host.json {path}"
    group = path.partition(".")[0]
    groups = {field.partition(".")[0] for field in rules.host}
    return f"host.json {group}, other fields" if group in groups else "host.json, other groups"


def _redact_reasons(reasons: object, rules: Rules, clean: Clean) -> dict[str, object]:
    if not isinstance(reasons, Mapping):
        return {}
    return {path: clean(reason) for path, reason in reasons.items() if rules.has_host_field(path)}


def redact_command_line(text: str, rules: Rules, left_out: Counter[str]) -> str:
    """Return a kernel command line with only its allowed parameters.

    :param left_out: number of omitted strings by kind, which is updated
    """
    kept, private = split_command_line(text, rules)
    left_out["kernel parameters"] += len(private)
    return " ".join(kept)


def split_command_line(text: str, rules: Rules) -> tuple[list[str], list[str]]:
    """Return the allowed and the private words of a kernel command line.

    Words after ``--``, which are arguments of init, are private.
    """
    words = text.split()
    end = words.index(END_OF_PARAMETERS) if END_OF_PARAMETERS in words else len(words)
    kept = [word for word in words[:end] if rules.has_parameter(word.partition("=")[0])]
    private = [word for word in words[:end] if word not in kept]
    return kept, [*private, *words[end + 1 :]]


def private_values(host: Mapping[str, object], rules: Rules) -> Iterator[str]:
    """Yield the private strings of a host.json, which must not be published anywhere.

    Values of fewer than 8 characters are left out, because they may be ordinary words, unless they
    identify the machine: hostname, boot id and machine id.
    """
    for path, value in fields_of(host):
        if not isinstance(value, str):
            continue
        if path == COMMAND_LINE:
            for word in split_command_line(value, rules)[1]:
                yield from (
                    part for part in (word, word.partition("=")[2]) if len(part) >= SHORTEST_VALUE
                )
        elif path in _IDENTITIES:
            # "lab-17.example.com" is also known as "lab-17", and its domain may stand alone.
            name, _, domain = value.partition(".")
            yield from {value, name, *([domain] if "." in domain else [])}
        elif not rules.has_host_field(path) and len(value) >= SHORTEST_VALUE:
            yield value
