# SPDX-License-Identifier: GPL-2.0-or-later
"""Set up the trials of the commits that a search has named."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from schedperf.inputs.git import Commit, Repository
from schedperf.lab.bisect.hardware import Describe
from schedperf.lab.bisect.prove import ALIGNED, Lab, TrialMachine
from schedperf.lab.bisect.store import Store
from schedperf.lab.build import Builder, Recipe
from schedperf.model.errors import InputError


def make_lab(
    repository: Repository,
    store: Store,
    recipe: Recipe,
    builder: Builder,
    open_machine: Callable[[Path, Describe], TrialMachine],
) -> Lab:
    """Return what the trials use.

    :param recipe: how the search has built
    :param builder: what has built then
    :param open_machine: function that returns the machine, given the directory of its bundles
    :raises InputError: the check-outs cannot be written
    """
    checkouts = repository.borrow(store.work)
    aligned = replace(recipe, compiler_options=ALIGNED)
    is_kernel = store.request().place != "here"

    def describe(commit: Commit) -> Mapping[str, Any]:
        try:
            return repository.describe(commit.hash)
        except InputError:
            # A revert, which the user's repository does not have.
            return checkouts.as_repository().describe(commit.hash)

    return Lab(
        repository=repository,
        checkouts=checkouts,
        builds=builder,
        aligned=Builder(checkouts, store.aligned_builds, aligned) if is_kernel else None,
        open_machine=lambda folder: open_machine(folder, describe),
    )
