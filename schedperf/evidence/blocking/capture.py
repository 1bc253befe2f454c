# SPDX-License-Identifier: GPL-2.0-or-later
"""Parse the blocked times of one run: ``blocking.json`` of the collector ``bpf_blocking``."""

from typing import Literal

from schedperf.inputs.bundle.json import MOST_HISTOGRAM_VALUES, decode
from schedperf.runs.off_cpu import OffCpu, OffCpuDocument


class _Document(OffCpuDocument, frozen=True, kw_only=True):
    schema: Literal["schedperf/bpf_blocking/1"]


def parse_blocking(content: bytes, label: str) -> OffCpu:
    """Parse blocking.json.

    :param label: bundle and member, for messages
    :raises BundleError: invalid content
    """
    return decode(content, _Document, label, MOST_HISTOGRAM_VALUES).content()
