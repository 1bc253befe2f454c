# SPDX-License-Identifier: GPL-2.0-or-later
"""Name the class of machines whose results are comparable: a hash of all fields that would block.

The hash excludes values that a kernel chooses by itself, so that a machine keeps its class when its
kernel changes. It also excludes what differs between the sides on purpose, and the host's name and
identifiers.
"""

import re
from collections.abc import Iterator, Mapping, Sequence

from schedperf.compare.comparability import FieldRule, find_rule, flatten_host, is_exempt
from schedperf.inputs.bundle.open import Bundle
from schedperf.model.rows import digest_of
from schedperf.model.sides import Difference

# This many digits distinguish the machines of all sites.
CLASS_DIGITS = 12
# Kernels report the memory without their own share; it is rounded up to 1/16 of a power of two.
_STEPS = 16


def machine_class(
    bundle: Bundle, treatment: Sequence[str], differences: Sequence[Difference]
) -> str | None:
    """Return the class of a side's machine: ``epyc-2s-3f2a91c25d07``; None without host.json.

    The class is only the hash if the site gives no name.

    :param treatment: fields that are meant to differ between the sides
    :param differences: differences between the sides; fields that differ on purpose are not hashed
    """
    host = bundle.host_fields
    if not host:
        return None
    varied = {each.path for each in differences if each.severity == "treatment"}
    fields = [
        [path, value]
        for path, value in _blocking(host)
        if path not in varied and not is_exempt(path, treatment)
    ]
    digest = digest_of(sorted(fields, key=str))[:CLASS_DIGITS]
    return digest if bundle.machine is None else f"{bundle.machine}-{digest}"


def environment_of(host: Mapping[str, object]) -> str | None:
    """Return the hash of all fields that a comparison notes; None without host.json.

    A change of it may explain a change of results. It is the installed software and the settings
    of the machine; what a kernel or its configuration chooses is left out, since nights test
    kernels.
    """
    if not host:
        return None
    fields = [
        [path, value]
        for path, value in flatten_host(host).items()
        if find_rule(path).severity == "noted" and not _is_of_kernel(path)
    ]
    return digest_of(sorted(fields, key=str))[:CLASS_DIGITS]


def _is_of_kernel(path: str) -> bool:
    is_kernel = path.startswith("kernel.") and not path.startswith("kernel.cmdline.")
    return is_kernel or find_rule(path).kernel == "default"


def _blocking(host: Mapping[str, object]) -> Iterator[tuple[str, object]]:
    for path, value in flatten_host(host).items():
        rule = find_rule(path)
        if rule.severity != "blocking" or value is None:
            continue
        # Kernels choose these and number the CPUs; the counts of CPUs are separate fields.
        if rule.kernel == "default" or rule.are_groups:
            continue
        if rule.unlimited and str(value).split()[:1] == [rule.unlimited]:
            continue
        yield path, _normalised(value, rule)


def _normalised(value: object, rule: FieldRule) -> object:
    """Return a representative that is the same for values that compare as equal.

    Numbers with a tolerance are rounded up, so two of them that lie on both sides of a step differ.
    """
    if rule.ignores_digits and isinstance(value, str):
        return re.sub(r"\d+", "0", value)
    if rule.tolerance and isinstance(value, int) and value > 0:
        step = max(1, (1 << value.bit_length()) // _STEPS)
        return -(-value // step) * step
    return value
