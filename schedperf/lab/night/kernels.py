# SPDX-License-Identifier: GPL-2.0-or-later
"""Choose the kernels of a night: the last release, today's, and yesterday's if the job says so."""

import re
from collections.abc import Sequence
from fnmatch import fnmatchcase

from schedperf.lab.night.job import Kernel
from schedperf.lab.night.machine import Installed
from schedperf.lab.night.state import NightError, NightKernel

BASE = "base"
NEW = "new"
YESTERDAY = "yesterday"
# Versions of kernels between releases: 6.19.0-rc3, 6.18.0-next-20261126,
# 6.18.0-00123-g0123456789ab.
_BETWEEN_RELEASES = re.compile(r"-rc[0-9]|-next|-g[0-9a-f]{7,}|\+\Z")
_PATTERN = re.compile(r"[*?\[]")
_SHOWN = 5


def is_fixed(kernel: Kernel) -> bool:
    """Return whether the job names two releases, so that the machine need not list its kernels."""
    return not kernel.yesterday and all(
        given is not None and not _PATTERN.search(given) for given in (kernel.reference, kernel.new)
    )


def choose_kernels(kernel: Kernel, installed: Sequence[Installed]) -> tuple[NightKernel, ...]:
    """Return the kernels to boot, base first.

    :param installed: kernels on the machine; unused if the job names its kernels
    :raises NightError: no installed kernel fits, or base and new would be the same kernel
    """
    if is_fixed(kernel):
        chosen = [(BASE, str(kernel.reference)), (NEW, str(kernel.new))]
    else:
        chosen = _choose(kernel, installed)
    releases = [release for _, release in chosen]
    if len(set(releases)) < len(releases):
        raise NightError(
            f"kernel: {releases[0]} chosen for both base and new; install a newer kernel, or set "
            "`reference` and `new`"
        )
    return tuple(NightKernel(name=name, release=release) for name, release in chosen)


def _choose(kernel: Kernel, installed: Sequence[Installed]) -> list[tuple[str, str]]:
    by_time = sorted(installed, key=lambda each: (each.installed_s, _version(each.release)))
    new = _last(by_time, kernel.new, "new", installed)
    others = [each for each in by_time if each is not new]
    if kernel.reference is None:
        others = [each for each in others if not _BETWEEN_RELEASES.search(each.release)]
    by_version = sorted(others, key=lambda each: _version(each.release))
    base = _last(by_version, kernel.reference, "reference", installed)
    chosen = [(BASE, base.release), (NEW, new.release)]
    if kernel.yesterday:
        earlier = [each for each in by_time if each not in {base, new} and _is_before(each, new)]
        yesterday = _last(earlier, kernel.new, "yesterday", installed)
        chosen.append((YESTERDAY, yesterday.release))
    return chosen


def _is_before(kernel: Installed, other: Installed) -> bool:
    return kernel.installed_s <= other.installed_s


def _last(
    kernels: Sequence[Installed], pattern: str | None, key: str, installed: Sequence[Installed]
) -> Installed:
    fitting = [each for each in kernels if pattern is None or fnmatchcase(each.release, pattern)]
    if not fitting:
        names = sorted((each.release for each in installed), key=_version)[-_SHOWN:]
        raise NightError(
            f"kernel.{key}: no installed kernel fits {pattern or 'the default'} (installed: "
            f"{', '.join(names) or 'none'}); install one, or change `kernel.{key}`"
        )
    return fitting[-1]


def _version(release: str) -> list[tuple[bool, int, str]]:
    """Return a key that sorts 6.9 before 6.10."""
    parts = re.findall(r"\d+|[^\d]+", release)
    return [(part.isdigit(), int(part) if part.isdigit() else 0, part) for part in parts]
