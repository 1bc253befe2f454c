# SPDX-License-Identifier: GPL-2.0-or-later
"""Check a lab without a boot: its files and programs, its machines, and what a night costs."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from schedperf.history.questions.durations import Durations, read_durations
from schedperf.history.questions.history import open_history
from schedperf.history.store import is_store
from schedperf.lab.night.lab import Lab, Machine, Tree
from schedperf.lab.night.machine import Target
from schedperf.lab.night.state import NightError
from schedperf.lab.reserve import check as check_reserve
from schedperf.model.errors import InputError
from schedperf.publish.mail.site import has_site, read_site

_COMMAND = "command:"
_DAY_S, _HOUR_S, _MINUTE_S = 86_400.0, 3600.0, 60.0
_KERNELS = 2


def find_problems(lab: Lab) -> Iterator[str]:
    """Yield what would stop a night: missing files and programs, machines that are not ready."""
    for machine in lab.machines:
        yield from _problems_of_machine(lab, machine)
    for tree in lab.trees:
        yield from _problems_of_tree(tree)
    if lab.mail is None and has_site(lab.outbox):
        try:
            read_site(lab.outbox)
        except InputError as error:
            yield str(error)


def describe_plan(lab: Lab) -> Iterator[str]:
    """Yield a line per machine: what a night records, and how long it takes.

    :raises InputError: the store cannot be read
    """
    for machine in lab.machines:
        durations = Durations(boot_s=None, runs_s={})
        if is_store(lab.store):
            with open_history(lab.store) as history:
                durations = read_durations(history, machine.recorded_name)
        yield _describe(lab, machine, durations)


def _describe(lab: Lab, machine: Machine, durations: Durations) -> str:
    jobs, trees = lab.jobs_of(machine), lab.trees_of(machine)
    if not jobs:
        return f"{machine.name}: only requests"
    kernels = sum(_KERNELS + tree.yesterday for tree in trees)
    boots = kernels * lab.plan.boots
    names = ", ".join(job.name for job in jobs)
    of = f"{len(trees)} tree{'s' if len(trees) > 1 else ''}"
    needed_s = durations.of_boots(boots, [job.workload for job in jobs])
    cost = "duration unknown (no past night)"
    if needed_s is not None:
        cost = f"about {needed_s / _HOUR_S:.1f} h"
    hours = "" if machine.hours is None else f" of {_length_s(machine) / _HOUR_S:.1f} h"
    return f"{machine.name}: {boots} boots per night ({of}; {names}), {cost}{hours}"


def _length_s(machine: Machine) -> float:
    """Return how long a machine may be used per day, in s."""
    assert machine.hours is not None
    begin, end = (
        int(text[:2]) * _HOUR_S + int(text[3:]) * _MINUTE_S for text in machine.hours.split("-")
    )
    return end - begin if begin < end else end - begin + _DAY_S


def _problems_of_machine(lab: Lab, machine: Machine) -> Iterator[str]:
    where = f"machine {machine.name}"
    programs = {"power": machine.power or "", "console": machine.console or ""}
    if machine.boot.startswith(_COMMAND):
        programs["boot"] = machine.boot.removeprefix(_COMMAND)
    for key, program in programs.items():
        if program and not _is_program(program):
            yield f"{where}: {key}: {program}: no such program; install it, or change the key"
    if machine.reserve is not None:
        try:
            check_reserve(machine.reserve)
        except InputError as error:
            yield f"{where}: {error}"
    try:
        target = Target(machine.reach)
        target.check_proof(machine.boot)
        for job in lab.jobs_of(machine):
            target.hash_of(job.run[0])
    except NightError as error:
        yield f"{where}: {error}"


def _problems_of_tree(tree: Tree) -> Iterator[str]:
    where = "tree" if tree.name is None else f"tree {tree.name}"
    if tree.build is not None and not _is_program(tree.build[0]):
        yield f"{where}: build: {tree.build[0]}: no such program; install it, or change the key"
    folders = {"sources": None if tree.build else tree.sources, "repo": tree.repo}
    for key, folder in folders.items():
        if folder is not None and not Path(folder).is_dir():
            yield f"{where}: {key}: {folder}: no such directory; make it, or change the key"
    if tree.bisect is not None and tree.repo is None:
        yield f"{where}: bisect: needs the repository; set repo"
    config = tree.bisect and tree.bisect.config
    if config and not Path(config).is_file():
        yield f"{where}: bisect.config: {config}: no such file; make it, or change the key"


def _is_program(path: str) -> bool:
    return shutil.which(path) is not None if "/" not in path else os.access(path, os.X_OK)
