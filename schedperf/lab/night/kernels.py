# SPDX-License-Identifier: GPL-2.0-or-later
"""Choose the kernels of a night: the last release, today's, and yesterday's if the tree says so."""

import re
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from fnmatch import fnmatchcase

from schedperf.lab.night.lab import Tree
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


def is_fixed(tree: Tree) -> bool:
    """Return whether the tree names two releases, so that the machine need not list its kernels."""
    return not tree.yesterday and all(
        given is not None and not _PATTERN.search(given) for given in (tree.reference, tree.new)
    )


def choose_kernels(
    tree: Tree, installed: Sequence[Installed], known: AbstractSet[str] | None = None
) -> tuple[NightKernel, ...]:
    """Return the kernels to boot, base first.

    :param installed: kernels on the machine; unused if the tree names its kernels
    :param known: releases that the tree has built; None if any installed kernel may be one of them
    :raises NightError: no installed kernel fits, or base and new would be the same kernel
    """
    if is_fixed(tree):
        chosen = [(BASE, str(tree.reference)), (NEW, str(tree.new))]
    else:
        chosen = _choose(tree, installed, known)
    releases = [release for _, release in chosen]
    if len(set(releases)) < len(releases):
        raise NightError(
            f"tree: {releases[0]} chosen for both base and new; install a newer kernel, or set "
            "`reference` and `new`"
        )
    return tuple(NightKernel(name=name, release=release) for name, release in chosen)


def choose_older(tree: Tree, installed: Sequence[Installed], reference: str) -> Installed | None:
    """Return the newest release before the reference that fits ``tree.older``; None if none."""
    if tree.older is None:
        return None
    fitting = [
        each
        for each in installed
        if fnmatchcase(each.release, tree.older) and _version(each.release) < _version(reference)
    ]
    return max(fitting, key=lambda each: _version(each.release), default=None)


def _choose(
    tree: Tree, installed: Sequence[Installed], known: AbstractSet[str] | None
) -> list[tuple[str, str]]:
    in_order = sorted(installed, key=lambda each: (each.installed_s, _version(each.release)))
    by_time = [each for each in in_order if known is None or each.release in known]
    new = _last(by_time, tree.new, "new", installed)
    others = [each for each in in_order if each is not new]
    if tree.reference is None:
        others = [each for each in others if not _BETWEEN_RELEASES.search(each.release)]
    by_version = sorted(others, key=lambda each: _version(each.release))
    base = _last(by_version, tree.reference, "reference", installed)
    chosen = [(BASE, base.release), (NEW, new.release)]
    if tree.yesterday:
        earlier = [each for each in by_time if each not in {base, new} and _is_before(each, new)]
        yesterday = _last(earlier, tree.new, "yesterday", installed)
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
            f"tree.{key}: no installed kernel fits {pattern or 'the default'} (installed: "
            f"{', '.join(names) or 'none'}); install one, or change `tree.{key}`"
        )
    return fitting[-1]


def _version(release: str) -> list[tuple[bool, int, str]]:
    """Return a key that sorts 6.9 before 6.10."""
    parts = re.findall(r"\d+|[^\d]+", release)
    return [(part.isdigit(), int(part) if part.isdigit() else 0, part) for part in parts]
