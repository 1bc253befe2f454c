# SPDX-License-Identifier: GPL-2.0-or-later
"""Parse the preemptions of one run: ``preemption.json`` of the collector ``bpf_preemption``."""

from typing import Annotated, Literal, NamedTuple

from msgspec import Meta

from schedperf.inputs.bundle.json import MOST_HISTOGRAM_VALUES, decode
from schedperf.runs.off_cpu import OffCpu, OffCpuDocument

LONGEST_MODEL = 32


class PreemptionCapture(NamedTuple):
    """The preemptions of one run.

    :param model: preemption model of the kernel; None if unknown
    """

    off_cpu: OffCpu
    model: str | None


class _Document(OffCpuDocument, frozen=True, kw_only=True):
    schema: Literal["schedperf/bpf_preemption/1"]
    model: Annotated[str, Meta(max_length=LONGEST_MODEL)] | None


def parse_preemption(content: bytes, label: str) -> PreemptionCapture:
    """Parse preemption.json.

    :param label: bundle and member, for messages
    :raises BundleError: invalid content
    """
    document = decode(content, _Document, label, MOST_HISTOGRAM_VALUES)
    return PreemptionCapture(document.content(), document.model)
