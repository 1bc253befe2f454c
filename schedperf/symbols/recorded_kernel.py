# SPDX-License-Identifier: GPL-2.0-or-later
"""Decide whether a symbol table belongs to the recorded kernel.

Only equal build ids show it. Without KASLR all kernels have the same text address, and one release
name is used for many builds; perf.data does not record the version string (``uname -v``) that
tells them apart.
"""

from collections.abc import Iterable

import numpy as np

from schedperf.model.errors import InputError
from schedperf.model.text import join_names
from schedperf.perf_data.recording import CONTEXT_KERNEL, MODE_KERNEL, Recording

# What makes a perf.data without build ids.
WITHOUT_BUILD_IDS = "perf record -B or -z, or perf was killed"


def why_other_kernel(recording: Recording, build_id: str | None, owner: str) -> str | None:
    """Return why a recording is not known to be of the kernel with a build id; None if it is.

    :param build_id: hexadecimal; None if unknown
    :param owner: whose build id it is: "of the running kernel"
    """
    recorded = recording.kernel_build_id
    if recorded is None:
        return f"perf.data does not record the kernel's build id ({WITHOUT_BUILD_IDS})"
    if build_id is not None and build_id.lower() == recorded:
        return None
    other = build_id or "unknown"
    return f"the build id of the recorded kernel is {recorded}, but that {owner} is {other}"


def refuse_for_two_kernels(option: str, build_ids: Iterable[str | None]) -> None:
    """Refuse one file that describes a kernel for recordings of different kernels.

    :param option: what the file was given with
    :param build_ids: of the recorded kernels; None if unknown
    :raises InputError: two build ids differ
    """
    kernels = sorted({build_id for build_id in build_ids if build_id is not None})
    if len(kernels) > 1:
        raise InputError(
            f"{option}: one file cannot describe both kernels (their build ids are "
            f"{join_names(kernels)}); show each side alone, or record bundles"
        )


def has_kernel_code(recording: Recording) -> bool:
    """Return whether samples or call chains have kernel addresses."""
    memory = recording.memory
    modes = [recording.samples.mode, *([] if memory is None else [memory.mode])]
    has_samples = any(np.any(mode == MODE_KERNEL) for mode in modes)
    return has_samples or bool(np.any(recording.chains.words == CONTEXT_KERNEL))
