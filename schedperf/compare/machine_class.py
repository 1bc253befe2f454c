# SPDX-License-Identifier: GPL-2.0-or-later
"""Name the class of machines whose results are comparable: a hash of what blocks a comparison.

Values that a kernel chooses by itself are left out, so that a machine keeps its class from kernel
to kernel; so is what differs between the sides on purpose. The host's name and identifiers are
never part of it.
"""

import re
from collections.abc import Iterator, Mapping, Sequence

from schedperf.bundle.open import Bundle
from schedperf.compare.comparability import FieldRule, find_rule, flatten_host, is_exempt
from schedperf.model.comparison import Difference, digest_of

# So many digits tell the machines of all sites apart.
CLASS_DIGITS = 12
# Kernels report a memory without what they keep; it is rounded up to 1/16 of a power of two.
_STEPS = 16


def machine_class(
    bundle: Bundle, treatment: Sequence[str], differences: Sequence[Difference]
) -> str | None:
    """Return the class of a side's machine: ``epyc-2s-3f2a91c25d07``, or only the hash if the site
    gives no name; None without host.json.

    :param treatment: fields that are meant to differ between the sides
    :param differences: between the sides
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


def _blocking(host: Mapping[str, object]) -> Iterator[tuple[str, object]]:
    for path, value in flatten_host(host).items():
        rule = find_rule(path)
        if rule.severity != "blocking" or value is None:
            continue
        # Kernels choose these, and number CPUs; the counts of CPUs are fields of their own.
        if rule.kernel == "default" or rule.are_groups:
            continue
        if rule.unlimited and str(value).split()[:1] == [rule.unlimited]:
            continue
        yield path, _normalised(value, rule)


def _normalised(value: object, rule: FieldRule) -> object:
    """Return a value that is the same for all values that are compared as equal."""
    if rule.ignores_digits and isinstance(value, str):
        return re.sub(r"\d+", "0", value)
    if rule.tolerance and isinstance(value, int) and value > 0:
        step = max(1, (1 << value.bit_length()) // _STEPS)
        return -(-value // step) * step
    return value
