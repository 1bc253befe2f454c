# SPDX-License-Identifier: GPL-2.0-or-later
"""Parse host.json; docs/bundle.md describes it."""

import re
from collections.abc import Mapping

from msgspec import Struct, field
from msgspec.json import Decoder

from schedperf.inputs.bundle.json import convert, parse_json
from schedperf.model.errors import BundleError
from schedperf_collectors.contract import ARM_CORES

# host.json has about 200 values; each that differs between two machines becomes a row.
MOST_VALUES = 10_000

_MIDR = re.compile(r"implementer (0x[0-9a-f]{1,4}) part (0x[0-9a-f]{1,4})")


class _Cpu(Struct, frozen=True, kw_only=True):
    mitigations: Mapping[str, object] | None = None


class _Topology(Struct, frozen=True, kw_only=True):
    nodes: Mapping[str, object] | None = None


class _Shape(Struct, frozen=True, kw_only=True):
    """The values of host.json that must be objects, by group; others have any type."""

    cpu: _Cpu = field(default_factory=_Cpu)
    topology: _Topology = field(default_factory=_Topology)


# As for manifest.json: msgspec prepares a type at its first use, in one thread only.
Decoder(_Shape)


def parse_host(content: bytes, where: str) -> Mapping[str, object]:
    """Return the values of host.json by group and name.

    The model of an Arm core is replaced by the core's name, as :func:`name_model` does.

    Only the groups, and the values in ``_Shape``, are checked to be objects.

    :param where: bundle and member, for messages
    :raises BundleError: the file is invalid, or has more than 10,000 values
    """
    value = parse_json(content, where)
    groups = {
        name: convert(group, dict[str, object], f"{where}: {name}")
        for name, group in convert(value, dict[str, object], where).items()
    }
    convert(groups, _Shape, where)
    count = _count_values(groups)
    if count > MOST_VALUES:
        raise BundleError(
            f"{where}: too many values: {count} (expected at most {MOST_VALUES}); record the "
            "bundle again"
        )
    model = groups.get("cpu", {}).get("model")
    if isinstance(model, str):
        groups["cpu"]["model"] = name_model(model)
    return groups


def name_model(model: str) -> str:
    """Return a CPU's model; for an Arm core that reports only numbers, its name if known.

    >>> name_model("implementer 0x41 part 0xd07")
    'Cortex-A57'
    """
    midr = _MIDR.fullmatch(model)
    key = (int(midr[1], 16), int(midr[2], 16)) if midr else (0, 0)
    return ARM_CORES.get(key, model)


def _count_values(value: object) -> int:
    # A list counts as one value, like in comparisons of two machines.
    if isinstance(value, Mapping):
        return sum(_count_values(child) for child in value.values())
    return 1
