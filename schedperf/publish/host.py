# SPDX-License-Identifier: GPL-2.0-or-later
"""Redact host.json: fields and kernel parameters by allow-list."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping

from schedperf.model.host import REASONS_GROUP, fields_of
from schedperf.publish.allowed import COMMAND_LINE, read_allowed
from schedperf.publish.private import SHORTEST_VALUE

# Behind it are the arguments of init.
END_OF_PARAMETERS = "--"
# Fields that name the machine, however short they are.
_IDENTITIES = ("system.hostname", "system.boot_id", "system.machine_id_sha256")


def redact_host(
    host: Mapping[str, object], clean: Callable[[object], object], left_out: Counter[str]
) -> dict[str, object]:
    """Return the allowed fields of a host.json.

    :param clean: removes private strings from a value
    :param left_out: counts what is left out
    """
    kept: dict[str, object] = {}
    for group, fields in host.items():
        if group == REASONS_GROUP:
            kept[group] = _redact_reasons(fields, clean)
        elif isinstance(fields, Mapping):
            kept[group] = _redact_group(f"{group}.", fields, clean, left_out)
        else:
            left_out[_name(group)] += 1
    return {group: fields for group, fields in kept.items() if fields}


def _redact_group(
    prefix: str,
    group: Mapping[str, object],
    clean: Callable[[object], object],
    left_out: Counter[str],
) -> dict[str, object]:
    kept: dict[str, object] = {}
    for key, value in group.items():
        path = f"{prefix}{key}"
        if isinstance(value, Mapping):
            kept |= {
                str(clean(key)): inner
                for inner in [_redact_group(f"{path}.", value, clean, left_out)]
                if inner
            }
        elif not read_allowed().has_host_field(path):
            left_out[_name(path)] += 1
        elif path == COMMAND_LINE and isinstance(value, str):
            kept[key] = clean(redact_command_line(value, left_out))
        else:
            kept[str(clean(key))] = clean(value)
    return kept


def _name(path: str) -> str:
    # The names of unknown fields are other people's texts.
    if path in _IDENTITIES:
        return f"host.json {path}"
    group = path.partition(".")[0]
    groups = {field.partition(".")[0] for field in read_allowed().host}
    return f"host.json {group}, other fields" if group in groups else "host.json, other groups"


def _redact_reasons(reasons: object, clean: Callable[[object], object]) -> dict[str, object]:
    if not isinstance(reasons, Mapping):
        return {}
    return {
        path: clean(reason)
        for path, reason in reasons.items()
        if read_allowed().has_host_field(path)
    }


def redact_command_line(text: str, left_out: Counter[str]) -> str:
    """Return a kernel command line with its allowed parameters only."""
    kept, private = split_command_line(text)
    left_out["kernel parameters"] += len(private)
    return " ".join(kept)


def split_command_line(text: str) -> tuple[list[str], list[str]]:
    """Return the allowed and the private words of a kernel command line."""
    words = text.split()
    end = words.index(END_OF_PARAMETERS) if END_OF_PARAMETERS in words else len(words)
    allowed = read_allowed()
    kept = [word for word in words[:end] if allowed.has_parameter(word.partition("=")[0])]
    private = [word for word in words[:end] if word not in kept]
    return kept, [*private, *words[end + 1 :]]


def private_values(host: Mapping[str, object]) -> Iterator[str]:
    """Yield the private strings of a host.json that must not appear anywhere."""
    for path, value in fields_of(host):
        if not isinstance(value, str):
            continue
        if path == COMMAND_LINE:
            for word in split_command_line(value)[1]:
                yield from (
                    part for part in (word, word.partition("=")[2]) if len(part) >= SHORTEST_VALUE
                )
        elif path in _IDENTITIES:
            # "lab-17.example.com" is also called "lab-17".
            yield from {value, value.partition(".")[0]}
        elif not read_allowed().has_host_field(path) and len(value) >= SHORTEST_VALUE:
            yield value
