# SPDX-License-Identifier: GPL-2.0-or-later
"""Decide whether a symbol table belongs to the recorded kernel.

Only equal build ids prove it. Without KASLR all kernels have the same text address, and many builds
share a release name; perf.data does not record the version string (``uname -v``) that distinguishes
them.
"""

from collections.abc import Iterable

import numpy as np

from schedperf.inputs.perf_data.recording import CONTEXT_KERNEL, MODE_KERNEL, Recording
from schedperf.model.errors import InputError
from schedperf.model.text import join_names

# Reasons why a perf.data lacks build ids.
WITHOUT_BUILD_IDS = "perf record -B or -z, or perf was killed"


def why_other_kernel(recording: Recording, build_id: str | None, owner: str) -> str | None:
    """Return why a recording is not known to come from the kernel with this build id; else None.

    :param build_id: hexadecimal; None if unknown
    :param owner: description of the kernel with this build id: "of the running kernel"
    """
    recorded = recording.kernel_build_id
    if recorded is None:
        return f"perf.data does not record the kernel's build id ({WITHOUT_BUILD_IDS})"
    if build_id is not None and build_id.lower() == recorded:
        return None
    other = build_id or "unknown"
    return f"the build id of the recorded kernel is {recorded}, but that {owner} is {other}"


def refuse_for_two_kernels(option: str, build_ids: Iterable[str | None]) -> None:
    """Refuse to use one kernel file for recordings of different kernels.

    :param option: the command-line option that named the file
    :param build_ids: build ids of the recorded kernels; None if unknown
    :raises InputError: two build ids differ
    """
    kernels = sorted({build_id for build_id in build_ids if build_id is not None})
    if len(kernels) > 1:
        raise InputError(
            f"{option}: one file cannot describe both kernels (their build ids are "
            f"{join_names(kernels)}); show each side alone, or record bundles"
        )


def has_kernel_code(recording: Recording) -> bool:
    """Return whether samples, memory samples or call chains have kernel addresses."""
    memory = recording.memory
    modes = [recording.samples.mode, *([] if memory is None else [memory.mode])]
    has_samples = any(np.any(mode == MODE_KERNEL) for mode in modes)
    return has_samples or bool(np.any(recording.chains.words == CONTEXT_KERNEL))
