# SPDX-License-Identifier: GPL-2.0-or-later
"""Test whether the commits that a search has named cause the change.

Each trial boots two kernels, or one with a setting on and off, interleaved: with what is tested,
and without it. Its boots are kept in bundles of its own::

    proof/COMMIT/revert/parent.tar, newest.tar, reverted.tar
    proof/COMMIT/feature/commit-NO_FEATURE.tar, commit-FEATURE.tar
    proof/COMMIT/alignment/parent.tar, commit.tar
    proof/COMMIT/trials.json    what they have shown

All results follow from the bundles, so trials that were killed are continued.
"""

import math
import re
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from schedperf.inputs.bundle.durable import write_durably
from schedperf.inputs.bundle.files import read_regular
from schedperf.inputs.bundle.json import decode
from schedperf.inputs.git import Checkouts, Commit, Repository
from schedperf.inputs.kernel.system_map import parse_percpu_symbols
from schedperf.lab.bisect.changes import Change, compare_boots
from schedperf.lab.bisect.document import (
    BisectDocument,
    NamedCommit,
    Trial,
    TrialKind,
    TrialResult,
)
from schedperf.lab.bisect.search import Builds, Machine, Untestable, Watcher
from schedperf.lab.bisect.store import Chosen, Place, Proving, Store
from schedperf.lab.bisect.values import read_logs
from schedperf.lab.build import BuildFailed
from schedperf.lab.failed import Failed
from schedperf.model.errors import InputError
from schedperf.model.json_text import to_json
from schedperf.model.text import clean_line, cut
from schedperf.stats.looks import TRIAL, Result, judge_boots

# Functions as CONFIG_DEBUG_FORCE_FUNCTION_ALIGN_64B=y aligns them, and each per-CPU variable at a
# cache line of its own: the kernel's per-CPU definitions have this macro for attributes.
ALIGNED = "-falign-functions=64 -DPER_CPU_ATTRIBUTES='__attribute__((aligned(64)))'"
_ALIGNMENT = 64
# Functions in assembly and cold parts keep their own alignment.
_LEAST_ALIGNED = 0.8
_MOST_BYTES = 64 << 20
_FEATURES = "kernel/sched/features.h"
_LONGEST_REASON = 300
_GUARD = re.compile(r"\b(?:SCHED_FEAT|sched_feat)\(\s*([A-Z][A-Z0-9_]{0,63})\b")
_DEFINITION = re.compile(r"^SCHED_FEAT\(\s*([A-Z][A-Z0-9_]{0,63}),\s*true\s*\)", re.MULTILINE)
_FUNCTION = re.compile(rb"^([0-9a-f]{8,16}) [Tt] ", re.MULTILINE)
_RESULTS: dict[Result, TrialResult] = {
    "reproduced": "present",
    "futile": "absent",
    "undecided": "undecided",
}


class Stopped(Failed):
    """The user asked to end."""


class TrialMachine(Machine, Protocol):
    """A machine that can boot a kernel with a scheduler feature on and off."""

    def switch(self, commit: Commit, built: Path, boots: int, feature: str, bundle: Path) -> None:
        """Record the command with a feature off and on, and add the boots to two bundles.

        :param built: directory of what the commit built
        :param bundle: ``NAME.tar``; the recordings are in those that :func:`switched` returns
        :raises Untestable: the kernel does not boot, or lacks the feature
        :raises InputError: nothing can be recorded here
        """
        ...


class Lab(Struct, frozen=True, kw_only=True):
    """What the trials use.

    :param repository: the user's
    :param checkouts: the repository that borrows its objects
    :param builds: builds commits as the search did
    :param aligned: builds them with :data:`ALIGNED`; None if no kernels are built
    :param open_machine: function that returns the machine, for bundles in a directory
    """

    repository: Repository
    checkouts: Checkouts
    builds: Builds
    aligned: Builds | None
    open_machine: Callable[[Path], TrialMachine]


class _Arm(Struct, frozen=True, kw_only=True):
    """A kernel of a trial, and the bundles that its boots are added to."""

    commit: Commit
    bundles: Sequence[Path]
    boot: Callable[[int], None]


class _Measured(Struct, frozen=True, kw_only=True):
    result: TrialResult
    change: Change | None
    p: float


def prove(
    document: BisectDocument,
    store: Store,
    lab: Lab,
    watcher: Watcher,
    check: Callable[[], None] = lambda: None,
) -> BisectDocument:
    """Make the trials of all commits that a search has named; return the document with them.

    :param document: of a search that is over; its bad end is the newest kernel
    :param check: is called before each step, and raises an exception to end
    :raises Stopped: the user asked to end; the trials are continued by the next call
    :raises InputError: nothing can be built or recorded here
    """
    chosen = store.progress().chosen
    assert chosen is not None
    place = store.request().place

    def tell(event: Proving) -> None:
        check()
        if store.is_to_stop():
            raise Stopped("stopped")
        store.append(event)
        watcher.tell(event)

    for named in document.named:
        trials = _Trials(
            named,
            newest=document.bad,
            folder=proof_folder(store, named),
            lab=lab,
            tell=tell,
            chosen=chosen,
            place=place,
        )
        made = tuple(trials.run())
        path = proof_folder(store, named) / "trials.json"
        write_durably(path, to_json(_Kept(trials=made)).encode())
    return with_trials(document, store)


class _Kept(Struct, frozen=True, kw_only=True):
    trials: tuple[Trial, ...]


def with_trials(document: BisectDocument, store: Store) -> BisectDocument:
    """Return the document of a search with the trials that were made of its named commits.

    :raises InputError: a file is damaged
    """

    def read(named: NamedCommit) -> NamedCommit:
        path = proof_folder(store, named) / "trials.json"
        if not path.exists():
            return named
        kept = decode(read_regular(path, _MOST_BYTES, "trials"), _Kept, str(path))
        return replace(named, trials=kept.trials)

    return replace(document, named=tuple(map(read, document.named)))


def proof_folder(store: Store, named: NamedCommit) -> Path:
    """Return the directory of the trials of a named commit."""
    return store.folder / "proof" / named.commits[-1].short


def switched(bundle: Path, feature: str) -> tuple[Path, Path]:
    """Return the bundles of a kernel with a feature off and on, given ``NAME.tar``."""
    return (
        bundle.with_name(f"{bundle.stem}-NO_{feature}.tar"),
        bundle.with_name(f"{bundle.stem}-{feature}.tar"),
    )


def find_features(patch: str, definitions: str) -> list[str]:
    """Return the scheduler features that a patch adds, removes or guards code with.

    Those that are off by default are left out: the code behind them does not run.

    :param patch: of the commit, in git's format
    :param definitions: content of ``kernel/sched/features.h``
    """
    changed = (line for line in patch.splitlines() if re.match(r"[+-](?!\+\+|--)", line))
    found = (name for line in changed for name in _GUARD.findall(line))
    by_default = set(_DEFINITION.findall(definitions))
    return [name for name in dict.fromkeys(found) if name in by_default]


class _Trials:
    """The trials of one commit."""

    def __init__(
        self,
        named: NamedCommit,
        *,
        newest: Commit,
        folder: Path,
        lab: Lab,
        tell: Callable[[Proving], None],
        chosen: Chosen,
        place: Place,
    ) -> None:
        self._named = named
        self._commit = named.commits[-1]
        self._newest = newest
        self._folder = folder
        self._lab = lab
        self._announce = tell
        self._chosen = chosen
        self._place = place

    def run(self) -> Iterator[Trial]:
        """Make the trials, one after the other."""
        feature = self._find_feature()
        if feature is not None:
            yield self._try("feature", self._commit, lambda: self._switch(feature), feature)
        yield self._try("revert", self._newest, self._revert)
        if self._lab.aligned is not None:
            yield self._try("alignment", self._commit, self._align)

    def _try(
        self,
        kind: TrialKind,
        kernel: Commit,
        measure: Callable[[], _Measured],
        feature: str | None = None,
    ) -> Trial:
        try:
            found = measure()
        except (BuildFailed, Untestable) as error:
            reason = cut(clean_line(error.reason), _LONGEST_REASON)
            return Trial(
                kind=kind, kernel=kernel, feature=feature, change=None, p=None,
                result="impossible", reason=reason,
            )  # fmt: skip
        return Trial(
            kind=kind, kernel=kernel, feature=feature, change=found.change, p=found.p,
            result=found.result, reason=None,
        )  # fmt: skip

    def _find_feature(self) -> str | None:
        if self._place == "here":
            return None
        try:
            definitions = self._lab.repository.read_file(self._commit.hash, _FEATURES, _MOST_BYTES)
        except InputError:
            # No kernel, or one before 2.6.24.
            return None
        patch = self._lab.repository.patch(self._commit.hash)
        return next(iter(find_features(patch, definitions)), None)

    def _switch(self, feature: str) -> _Measured:
        folder = self._folder / "feature"
        machine = self._open(folder)
        built = self._build(self._lab.builds, self._commit)
        bundle = folder / "commit.tar"

        def boot(boots: int) -> None:
            machine.switch(self._commit, built, boots, feature, bundle)

        machine.recover(bundle)
        off, on = bundles = switched(bundle, feature)
        return self._measure([_Arm(commit=self._commit, bundles=bundles, boot=boot)], off, on)

    def _revert(self) -> _Measured:
        folder = self._folder / "revert"
        machine = self._open(folder)
        parent, commit = self._named.parent, self._commit
        made = self._lab.checkouts.revert(self._newest.hash, commit.hash, parent.hash)
        if made.commit is None:
            assert made.reason is not None
            raise Untestable(made.reason)
        reverted = Commit(hash=made.commit, subject=f'Revert "{commit.subject}"')
        kernels = {"reverted": reverted, "parent": parent, "newest": self._newest}
        try:
            arms = [
                self._arm(machine, self._lab.builds, each, folder / f"{name}.tar")
                for name, each in kernels.items()
            ]
        except BuildFailed as error:
            raise BuildFailed(f"reverted, it does not build: {error.reason}") from error
        return self._measure(arms, folder / "reverted.tar", folder / "newest.tar")

    def _align(self) -> _Measured:
        folder = self._folder / "alignment"
        machine = self._open(folder)
        builds = self._lab.aligned
        assert builds is not None
        kernels = {"parent": self._named.parent, "commit": self._commit}
        arms = []
        for name, each in kernels.items():
            arms.append(self._arm(machine, builds, each, folder / f"{name}.tar"))
            check_alignment(self._build(builds, each))
        return self._measure(arms, folder / "parent.tar", folder / "commit.tar")

    def _open(self, folder: Path) -> TrialMachine:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"{folder}: {error.strerror}; free space there") from None
        return self._lab.open_machine(folder)

    def _arm(self, machine: TrialMachine, builds: Builds, commit: Commit, bundle: Path) -> _Arm:
        built = self._build(builds, commit)
        machine.recover(bundle)
        return _Arm(
            commit=commit,
            bundles=[bundle],
            boot=lambda boots: machine.boot(commit, built, boots, bundle),
        )

    def _build(self, builds: Builds, commit: Commit) -> Path:
        existing = builds.existing(commit.hash)
        if existing is not None:
            return existing
        self._tell(f"building {commit.short}")
        return builds.build(commit.hash)

    def _measure(self, arms: Sequence[_Arm], without: Path, with_: Path) -> _Measured:
        """Boot the kernels, interleaved, until a look decides.

        :param without: bundle of the boots without what is tested
        :param with_: bundle of those with it
        """
        seen = math.log(self._named.change.ratio)
        while True:
            sides = self._logs(without), self._logs(with_)
            judged = judge_boots(TRIAL, *sides, seen=seen)
            if judged.wants is None:
                break
            self._boot(arms, judged.wants)
        assert judged.last is not None
        change = compare_boots(*(boots[: judged.last.boots] for boots in sides))
        return _Measured(result=_RESULTS[judged.result], change=change, p=judged.last.p)

    def _boot(self, arms: Sequence[_Arm], boots: int) -> None:
        while True:
            made = [min(len(self._logs(bundle)) for bundle in arm.bundles) for arm in arms]
            fewest = min(made)
            if fewest >= boots:
                return
            arm = arms[made.index(fewest)]
            # The first boot of a build is not used.
            number = 1 + (not any(bundle.exists() for bundle in arm.bundles))
            self._tell(f"{number} boot{'s' * (number > 1)} of {arm.commit.short}")
            arm.boot(number)
            if min(len(self._logs(bundle)) for bundle in arm.bundles) <= fewest:
                raise Untestable(f"no run was successful; see {arm.bundles[0]}")

    def _logs(self, bundle: Path) -> Sequence[float]:
        if not bundle.exists():
            return ()
        return read_logs(bundle, self._chosen, self._place)[1:]

    def _tell(self, doing: str) -> None:
        self._announce(Proving(at=time.time(), commit=self._commit.hash, doing=doing))


def check_alignment(built: Path) -> None:
    """Check that functions and per-CPU variables of a build are aligned to 64 bytes.

    :raises BuildFailed: most are not, or no System.map shows it
    """
    path = built / "System.map"
    if not path.is_file():
        raise BuildFailed(
            "the build leaves no System.map in $SCHEDPERF_OUT, which shows whether functions are "
            "aligned"
        )
    text = read_regular(path, _MOST_BYTES, "a System.map")
    try:
        variables = parse_percpu_symbols(text, str(path)).symbols
    except InputError as error:
        raise BuildFailed(str(error)) from None
    functions = {int(address, 16) for address in _FUNCTION.findall(text)}
    for what, places in (
        ("functions", functions),
        ("per-CPU variables", {each.offset for each in variables}),
    ):
        aligned = sum(place % _ALIGNMENT == 0 for place in places)
        if not places or aligned / len(places) < _LEAST_ALIGNED:
            raise BuildFailed(
                f"{aligned} of {len(places)} {what} of {path} are aligned to {_ALIGNMENT} bytes: "
                "the build does not use $KCFLAGS"
            )
