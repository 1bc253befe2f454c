# SPDX-License-Identifier: GPL-2.0-or-later
"""schedperf.lab.bisect.prove: trials of named commits in a simulated lab."""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from schedperf.inputs.git import Commit, Repository
from schedperf.lab.bisect.changes import Change
from schedperf.lab.bisect.document import BisectDocument, Trial
from schedperf.lab.bisect.judge import Options
from schedperf.lab.bisect.prove import (
    ALIGNED,
    Lab,
    Stopped,
    check_alignment,
    find_features,
    prove,
    switched,
    with_trials,
)
from schedperf.lab.bisect.search import Untestable
from schedperf.lab.bisect.store import AnyEvent, Booted, Proving, Request, Store
from schedperf.lab.bisect.values import choose_result
from schedperf.lab.build import Builder, BuildFailed, Recipe
from schedperf.model.errors import InputError
from tests.bisections import named as simulated
from tests.git_repository import Git, init_git
from tests.schedperf.lab.bisect.test_search import Silent

MakeBundle = Callable[..., Path]

# The file "needs" names another one, without which the commit does not build.
BUILD = """
for each in $(cat needs); do [ -e "$each" ] || { echo "error: no $each"; exit 1; }; done
cp -r . "$SCHEDPERF_OUT"; echo "$KCFLAGS" >"$SCHEDPERF_OUT/flags"
"""
FEATURES = "kernel/sched/features.h"
PATCH = """\
--- a/kernel/sched/fair.c
+++ b/kernel/sched/fair.c
@@ -1,3 +1,4 @@ static void sched_feat(HEADING)
 if (sched_feat(UNCHANGED))
+if (sched_feat(PLACE_LAG) && !sched_feat(OFF_BY_DEFAULT))
-if (sched_feat(NEXT_BUDDY))
"""
DEFINITIONS = """\
SCHED_FEAT(PLACE_LAG, true)
SCHED_FEAT(NEXT_BUDDY, true)
SCHED_FEAT(UNCHANGED, true)
SCHED_FEAT(OFF_BY_DEFAULT, false)
"""


def test_features_that_a_patch_guards_are_found() -> None:
    assert find_features(PATCH, DEFINITIONS) == ["PLACE_LAG", "NEXT_BUDDY"]
    assert find_features(PATCH, "") == []
    assert find_features("+SCHED_FEAT(PLACE_LAG, true)", DEFINITIONS) == ["PLACE_LAG"]
    assert find_features("", DEFINITIONS) == []


def change(ratio: float, low: float, high: float) -> Change:
    """Return a change of 4 + 4 boots."""
    return Change(ratio=ratio, ci_low=low, ci_high=high, older_boots=4, newer_boots=4)


def symbol_table(functions: int, variables: int) -> str:
    """Return a System.map whose functions and per-CPU variables have these distances in bytes."""
    percpu = [f"{i * variables:016x} D v{i}\n" for i in range(9)]
    text = [f"{(1 << 20) + i * functions:016x} T f{i}\n" for i in range(9)]
    ends = [f"{0:016x} D __per_cpu_start\n", f"{9 * variables:016x} D __per_cpu_end\n"]
    return "".join((*ends, *percpu, *text))


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (symbol_table(16, 64).encode(), r"3 of 9 functions .* does not use \$KCFLAGS"),
        (symbol_table(64, 8).encode(), r"2 of 9 per-CPU variables .* does not use \$KCFLAGS"),
        (b"\0\xff" * 100, "System.map"),
        (b"", "System.map"),
    ],
)
def test_a_build_that_is_not_aligned_is_refused(
    tmp_path: Path, content: bytes, problem: str
) -> None:
    (tmp_path / "System.map").write_bytes(content)
    with pytest.raises(BuildFailed, match=problem):
        check_alignment(tmp_path)


def test_the_alignment_of_a_build_is_read_from_its_symbols(tmp_path: Path) -> None:
    with pytest.raises(BuildFailed, match=r"no System\.map"):
        check_alignment(tmp_path)
    (tmp_path / "System.map").write_text(symbol_table(64, 64))
    check_alignment(tmp_path)


class Trials:
    """A repository whose commits have factors of the result, and a lab that measures them.

    :ivar killed_after: number of boots after which the lab raises KeyboardInterrupt
    :ivar fails: whether no run is successful
    """

    def __init__(self, folder: Path, make_bundle: MakeBundle) -> None:
        self.git: Git = init_git(folder / "repository")
        self._source = folder / "repository"
        self._make_bundle = make_bundle
        self.store = Store(folder / "search")
        self.events: list[AnyEvent] = []
        self.boots: list[tuple[str, str]] = []
        self.killed_after = math.inf
        self.fails = False
        self.commit("first", {"factor-0": "1.0", "System.map": symbol_table(64, 64), "needs": ""})

    def commit(self, subject: str, files: Mapping[str, str]) -> Commit:
        """Make a commit that writes some files."""
        for name, content in files.items():
            path = self._source / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content)
        self.git("add", ".")
        self.git("commit", "--quiet", "--no-gpg-sign", "--allow-empty", "-m", subject)
        return Commit(hash=self.git("rev-parse", "HEAD"), subject=subject)

    def prove(self, named: Commit, ratio: float = 1.1, place: str = "vm") -> BisectDocument:
        """Make the trials of a commit; the newest one is that of main."""
        newest = Commit(hash=self.git("rev-parse", "main"), subject="newest")
        parent = Commit(hash=self.git("rev-parse", f"{named.hash}^"), subject="parent")
        document = simulated()
        found = replace(
            document.named[0],
            commits=(named,),
            parent=parent,
            change=change(ratio, ratio, ratio),
        )
        document = replace(document, bad=newest, named=(found,))
        recipe = Recipe(command=BUILD, config=None, limit_s=60.0, makes_kernel=False)
        if not self.store.is_begun():
            self._begin(parent, newest, place)
        repository = Repository(self._source)
        checkouts = repository.borrow(self.store.work)
        lab = Lab(
            repository=repository,
            checkouts=checkouts,
            builds=Builder(checkouts, self.store.builds, recipe),
            aligned=Builder(
                checkouts, self.store.aligned_builds, replace(recipe, compiler_options=ALIGNED)
            ),
            open_machine=lambda _: self,
        )
        return prove(document, self.store, lab, Silent(on_event=self.events.append))

    def _begin(self, parent: Commit, newest: Commit, place: Any) -> None:
        self.store.begin(
            Request(
                repository=str(self._source), good=parent.hash, bad=newest.hash,
                search=Options(), place=place, target="", result=None, build="", recording=(),
                words=("hackbench",),
            )
        )  # fmt: skip
        bundle = self._make_bundle(self.store.folder / "one.tar", runs=[self._run(1.0, "", 0)])
        chosen = choose_result(bundle, None, 0.0)
        assert chosen is not None
        self.store.append(chosen)

    def boot(self, commit: Commit, built: Path, boots: int, bundle: Path) -> None:
        """Add boots to a bundle, one by one."""
        factors = [float(path.read_text()) for path in built.glob("factor-*")]
        if "aligned" in (built / "flags").read_text():
            factors += [float(path.read_text()) for path in built.glob("aligned-*")]
        for _ in range(boots):
            self._add(commit, bundle, math.prod(factors))

    def switch(self, commit: Commit, built: Path, boots: int, feature: str, bundle: Path) -> None:
        """Add boots to the bundles of a feature off and on, which the file of its name costs."""
        if not (built / feature).exists():
            raise Untestable(f"NO_{feature}: no such feature")
        cost = float((built / feature).read_text())
        for path, level in zip(switched(bundle, feature), (1.0, cost), strict=True):
            for _ in range(boots):
                self._add(commit, path, level)

    def recover(self, bundle: Path) -> None:
        """Do nothing: a bundle has each finished boot."""

    def _add(self, commit: Commit, bundle: Path, level: float) -> None:
        if self.fails:
            return
        if len(self.boots) >= self.killed_after:
            raise KeyboardInterrupt
        kept = bundle.with_suffix(".json")
        runs = json.loads(kept.read_text()) if kept.exists() else []
        runs.append(self._run(level, bundle.stem, len(runs)))
        self._make_bundle(bundle.with_suffix(".new"), runs=runs).rename(bundle)
        kept.write_text(json.dumps(runs))
        self.boots.append((bundle.stem, commit.subject))

    def _run(self, level: float, name: str, boot: int) -> Mapping[str, Any]:
        noise = np.random.default_rng((*name.encode(), boot)).normal(0.0, 0.01)
        # The first boot is another, so it must not be used.
        first = 1.0 if boot else 3.0
        return {
            "boot": boot,
            "boot_id": f"{boot:08d}-0000-4000-8000-000000000000",
            "run": 0,
            "time_s": round(level * first * math.exp(noise), 6),
        }


@pytest.fixture
def trials(tmp_path: Path, make_bundle: MakeBundle) -> Trials:
    """Return the lab."""
    return Trials(tmp_path, make_bundle)


def by_kind(document: BisectDocument) -> Mapping[str, Trial]:
    """Return the trials of the named commit."""
    return {each.kind: each for each in document.named[0].trials}


def test_a_revert_that_removes_the_change(trials: Trials) -> None:
    named = trials.commit("slower", {"factor-1": "1.1"})
    trials.commit("slower again", {"factor-2": "1.3"})
    made = by_kind(trials.prove(named))
    assert list(made) == ["revert", "alignment"]
    revert = made["revert"]
    assert revert.result == "present"
    assert revert.change is not None
    assert revert.change.ci_low < 1.1 < revert.change.ci_high
    assert revert.change.older_boots == revert.change.newer_boots == 4
    assert made["alignment"].result == "present"
    # The kernels are booted in turns, and the parent beside them, for the record.
    names = [name for name, _ in trials.boots]
    assert names[:9] == [*["reverted"] * 2, *["parent"] * 2, *["newest"] * 2,
                         "reverted", "parent", "newest"]  # fmt: skip
    assert ("reverted", 'Revert "slower"') in trials.boots


def test_a_revert_that_does_not_remove_the_change(trials: Trials) -> None:
    named = trials.commit("faster in truth", {"other": "1.1"})
    revert = by_kind(trials.prove(named))["revert"]
    assert revert.result == "absent"
    assert revert.reason is None


def test_a_revert_with_a_conflict_is_impossible(trials: Trials) -> None:
    named = trials.commit("slower", {"factor-1": "1.1"})
    trials.commit("changes it", {"factor-1": "1.2"})
    revert = by_kind(trials.prove(named))["revert"]
    assert revert.result == "impossible"
    assert revert.reason == "does not revert: CONFLICT in factor-1"
    assert revert.change is None


def test_a_revert_of_what_is_fixed_already_is_impossible(trials: Trials) -> None:
    named = trials.commit("slower", {"factor-0": "1.1"})
    trials.commit("fix", {"factor-0": "1.0"})
    revert = by_kind(trials.prove(named))["revert"]
    assert revert.reason == "nothing to revert: its change is not there any more"


def test_a_revert_that_does_not_build_is_impossible(trials: Trials) -> None:
    named = trials.commit("slower", {"factor-1": "1.1"})
    trials.commit("uses it", {"needs": "factor-1"})
    revert = by_kind(trials.prove(named))["revert"]
    assert revert.result == "impossible"
    assert revert.reason is not None
    assert revert.reason.startswith(
        "reverted, it does not build: exit status 1: error: no factor-1"
    )


def test_a_change_that_forced_alignment_removes_is_an_artefact(trials: Trials) -> None:
    named = trials.commit("slower", {"factor-1": "1.1", "aligned-1": str(1 / 1.1)})
    assert by_kind(trials.prove(named))["alignment"].result == "absent"


def test_a_build_that_does_not_align_says_so(trials: Trials) -> None:
    trials.commit("unaligned", {"System.map": symbol_table(8, 8)})
    named = trials.commit("slower", {"factor-1": "1.1"})
    alignment = by_kind(trials.prove(named))["alignment"]
    assert alignment.result == "impossible"
    assert alignment.reason is not None
    assert "does not use $KCFLAGS" in alignment.reason


def test_a_feature_is_switched_off(trials: Trials) -> None:
    named = trials.commit("slower", {
        FEATURES: "SCHED_FEAT(PLACE_LAG, true)\n",
        "PLACE_LAG": "1.1",
        "factor-1": "1.1",
    })  # fmt: skip
    feature = by_kind(trials.prove(named))["feature"]
    assert feature.feature == "PLACE_LAG"
    assert feature.result == "present"
    assert feature.kernel == named


def test_a_kernel_that_lacks_the_feature_says_so(trials: Trials) -> None:
    named = trials.commit("slower", {FEATURES: "SCHED_FEAT(PLACE_LAG, true)\n", "factor-1": "1.1"})
    feature = by_kind(trials.prove(named))["feature"]
    assert feature.result == "impossible"
    assert feature.reason == "NO_PLACE_LAG: no such feature"


def test_a_change_that_is_neither_there_nor_gone_is_undecided(trials: Trials) -> None:
    # Half of a change of 1.2% is in the noise of 12 + 12 boots.
    named = trials.commit("slower", {"factor-1": "1.005"})
    revert = by_kind(trials.prove(named, 1.012))["revert"]
    assert revert.result == "undecided"
    assert revert.change is not None
    assert revert.change.newer_boots == 12


def test_runs_that_all_fail_end_the_trial(trials: Trials) -> None:
    named = trials.commit("slower", {"factor-1": "1.1"})
    trials.fails = True
    made = by_kind(trials.prove(named))
    assert {each.result for each in made.values()} == {"impossible"}
    assert made["revert"].reason is not None
    assert "no run was successful" in made["revert"].reason


def test_trials_that_are_killed_are_continued(trials: Trials, tmp_path: Path) -> None:
    named = trials.commit("slower", {"factor-1": "1.1"})
    attempts = 0
    while True:
        trials.killed_after = len(trials.boots) + 3
        attempts += 1
        try:
            document = trials.prove(named)
        except KeyboardInterrupt:
            continue
        break
    assert attempts > 5
    # The result is that of trials that are not killed, and no boot is made twice.
    (tmp_path / "other").mkdir()
    other = Trials(tmp_path / "other", trials._make_bundle)  # noqa: SLF001 # the same fixture
    whole = other.prove(other.commit("slower", {"factor-1": "1.1"}))
    assert [each.change for each in document.named[0].trials] == [
        each.change for each in whole.named[0].trials
    ]
    assert sorted(trials.boots) == sorted(other.boots)


def test_trials_that_are_over_make_no_more_boots(trials: Trials) -> None:
    named = trials.commit("slower", {"factor-1": "1.1"})
    document = trials.prove(named)
    made = list(trials.boots)
    assert trials.prove(named) == document
    assert trials.boots == made
    assert with_trials(replace(document, named=(replace(document.named[0], trials=()),)),
                       trials.store) == document  # fmt: skip


def test_the_user_may_stop_them(trials: Trials) -> None:
    named = trials.commit("slower", {"factor-1": "1.1"})
    parent = Commit(hash=trials.git("rev-parse", "HEAD^"), subject="parent")
    trials._begin(parent, named, "vm")  # noqa: SLF001 # before the first step
    trials.store.ask_to_stop()
    with pytest.raises(Stopped):
        trials.prove(named)
    assert trials.boots == []


def test_what_is_done_is_stored_and_told(trials: Trials) -> None:
    named = trials.commit("slower", {"factor-1": "1.1"})
    trials.prove(named)
    told = [each for each in trials.events if isinstance(each, Proving)]
    assert told[0].doing.startswith("building ")
    assert any("boots of" in each.doing for each in told)
    events = trials.store.events()
    assert [each for each in events if isinstance(each, Proving)] == told
    assert not any(isinstance(each, Booted) for each in events)


@pytest.mark.parametrize("content", [b"", b"{", b'{"trials": [1]}', b"\0" * 99])
def test_damaged_trials_are_refused(trials: Trials, content: bytes) -> None:
    named = trials.commit("slower", {"factor-1": "1.1"})
    document = trials.prove(named)
    path = trials.store.folder / "proof" / named.short / "trials.json"
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"trials\.json"):
        with_trials(document, trials.store)


def names(bundles: Sequence[Path]) -> list[str]:
    """Return the names of bundles."""
    return [path.name for path in bundles]


def test_the_bundles_of_a_feature_have_its_name() -> None:
    assert names(switched(Path("commit.tar"), "PLACE_LAG")) == [
        "commit-NO_PLACE_LAG.tar",
        "commit-PLACE_LAG.tar",
    ]
