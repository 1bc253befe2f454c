# SPDX-License-Identifier: GPL-2.0-or-later
"""Choose the kernels of a retest among those that are installed on the machine."""

from collections.abc import Collection

from schedperf.history.retests import Suspect
from schedperf.history.store.requests import Request
from schedperf.lab.night.context import Context
from schedperf.lab.night.kernels import BASE, NEW
from schedperf.lab.night.state import NightError, NightKernel


class Missing(NightError):
    """The machine does not answer, or lacks a kernel that a request needs."""


def choose_retest(
    context: Context, request: Request, suspect: Suspect
) -> tuple[NightKernel, NightKernel]:
    """Return the kernels to boot: those that the request names, or others of the same kind.

    :raises Missing: the machine has none before the step, or none since it, or does not answer
    :raises InputError: the file about a commit is damaged
    """
    try:
        installed = sorted(context.target.kernels(), key=lambda each: each.installed_s)
    except NightError as error:
        raise Missing(str(error)) from error
    # Also the kernels of this night, which may be fixed and not bootable by their images.
    releases = [each.release for each in installed]
    releases += [each.release for each in context.night.kernels if each.release not in releases]
    by_revision = {context.revision(release): release for release in releases}
    base = _find(by_revision, request.reference, suspect.base)
    new = _find(by_revision, request.new, suspect.new - {request.reference})
    for release, name in ((base, request.reference), (new, request.new)):
        if release is None:
            raise Missing(f"the kernel {name} is not installed on {context.machine.name}")
    return NightKernel(name=BASE, release=str(base)), NightKernel(name=NEW, release=str(new))


def _find(by_revision: dict[str, str], first: str | None, others: Collection[str]) -> str | None:
    """Return the release of a kernel: the first choice, or the one of others installed last."""
    if first is not None and first in by_revision:
        return by_revision[first]
    fitting = [release for revision, release in by_revision.items() if revision in others]
    return fitting[-1] if fitting else None
