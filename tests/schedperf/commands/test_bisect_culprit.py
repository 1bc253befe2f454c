# SPDX-License-Identifier: GPL-2.0-or-later
"""schedperf.commands._bisect_culprit: the record of a named commit has what trials have shown."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from schedperf.commands._bisect_culprit import keep_culprits
from schedperf.inputs.git import Commit, Repository
from schedperf.lab.bisect.document import BisectDocument, Trial
from schedperf.lab.bisect.prove import proof_folder, switched
from schedperf.lab.bisect.store import Store
from schedperf.publish.culprit.files import load_culprit
from schedperf.publish.culprit.record import Culprit
from tests.bisections import named as simulated
from tests.git_repository import init_git

BOOTS = 6
FAST, SLOW = 0.600, 0.780
MakeBundle = Callable[..., Path]


class Lab:
    """A finished search of two commits, whose bundles show a regression."""

    def __init__(self, folder: Path, make_bundle: MakeBundle) -> None:
        git = init_git(folder / "linux")
        for number in range(2):
            git("commit", "--quiet", "--allow-empty", "-m", f"sched: change {number}")
        self.repository = folder / "linux"
        self.parent, self.commit = (
            Commit(hash=git("rev-parse", name), subject="sched: a change")
            for name in ("HEAD^", "HEAD")
        )
        self._make_bundle = make_bundle
        self.store = Store(folder / "search")
        document = simulated()
        named = replace(document.named[0], commits=(self.commit,), parent=self.parent, merges=())
        tested = tuple(
            replace(document.tested[0], commit=each) for each in (self.parent, self.commit)
        )
        self.document: BisectDocument = replace(document, named=(named,), tested=tested)
        self.proof = proof_folder(self.store, named)
        self.write(self.store.bundle(self.parent.hash), self.parent, FAST)
        self.write(self.store.bundle(self.commit.hash), self.commit, SLOW)

    def write(self, path: Path, commit: Commit, level_s: float, build: str = "") -> None:
        """Write a bundle with a run per boot.

        :param build: distinguishes builds of one commit
        """
        path.parent.mkdir(parents=True, exist_ok=True)
        runs = [
            {"boot": boot, "run": 0, "time_s": level_s * (1.0 + 0.001 * (boot % 3))}
            for boot in range(BOOTS)
        ]
        name = f"{commit.short}{build}"
        kernel = {"release": f"6.12.0-{name}", "version": f"#1 {name}", "build_id": name}
        hosts = {
            boot: {"system": {"boot_id": f"{boot:08d}-{path.stem}"}, "kernel": kernel}
            for boot in range(BOOTS)
        }
        described = Repository(self.repository).describe(self.commit.hash)
        source = {**described, "commit": commit.hash}
        self._make_bundle(path, runs=runs, hosts=hosts, manifest={"source": source})

    def keep(self, *trials: Trial) -> Culprit:
        """Keep the record of the commit, with these trials; return it."""
        named = replace(self.document.named[0], trials=trials)
        document = replace(self.document, named=(named,))
        keep_culprits(document, self.store, self.repository)
        return load_culprit(self.store.folder / "culprits" / self.commit.short / "culprit.json")

    def trial(self, **fields: Any) -> Trial:
        """Return a trial."""
        common = {"kernel": self.commit, "feature": None, "p": 0.001, "reason": None,
                  "change": self.document.named[0].change, "result": "present"}  # fmt: skip
        return Trial(**{**common, **fields})


@pytest.fixture
def lab(tmp_path: Path, make_bundle: MakeBundle) -> Lab:
    """Return the finished search."""
    return Lab(tmp_path, make_bundle)


def test_a_record_is_kept_without_trials(lab: Lab) -> None:
    culprit = lab.keep()
    assert culprit.bad.commit == lab.commit.hash
    assert (culprit.tip, culprit.revert, culprit.feature_switch) == (None, None, None)


def test_each_trial_fills_its_role(lab: Lab) -> None:
    folder = lab.proof
    newest, reverted = (Commit(hash=digit * 40, subject="x") for digit in "ab")
    lab.write(folder / "revert" / "parent.tar", lab.parent, FAST)
    lab.write(folder / "revert" / "newest.tar", newest, SLOW)
    lab.write(folder / "revert" / "reverted.tar", reverted, FAST)
    for path, level_s in zip(
        switched(folder / "feature" / "commit.tar", "PLACE_LAG"), (FAST, SLOW), strict=True
    ):
        lab.write(path, lab.commit, level_s)
    lab.write(folder / "alignment" / "parent.tar", lab.parent, FAST, "a1")
    lab.write(folder / "alignment" / "commit.tar", lab.commit, FAST, "a1")
    # A record that was kept before gets them, too.
    lab.keep()
    culprit = lab.keep(
        lab.trial(kind="feature", feature="PLACE_LAG"),
        lab.trial(kind="revert"),
        lab.trial(kind="alignment", result="absent"),
    )
    assert culprit.tip is not None
    assert culprit.revert is not None
    assert culprit.revert.result is not None
    assert culprit.feature_switch is not None
    assert culprit.feature_switch.feature == "PLACE_LAG"
    assert culprit.forced_alignment is not None
    names = ("tip", "revert", "feature", "alignment", "compare")
    kept = lab.store.folder / "culprits" / lab.commit.short
    assert {f"{name}.json" for name in names} <= {path.name for path in kept.iterdir()}


def test_a_revert_that_is_impossible_is_stated(lab: Lab) -> None:
    reason = "does not revert: CONFLICT in kernel/sched/fair.c"
    culprit = lab.keep(lab.trial(kind="revert", change=None, result="impossible", reason=reason))
    assert culprit.revert is not None
    assert culprit.revert.impossible == reason
    assert culprit.revert.result is None


def test_other_trials_that_were_not_measured_leave_their_role_empty(lab: Lab) -> None:
    culprit = lab.keep(
        lab.trial(kind="alignment", change=None, result="impossible", reason="no System.map")
    )
    assert culprit.forced_alignment is None


def test_a_role_that_is_refused_does_not_keep_others_out(
    lab: Lab, capsys: pytest.CaptureFixture[str]
) -> None:
    # Both have the kernels of the search, not rebuilt ones.
    lab.write(lab.proof / "alignment" / "parent.tar", lab.parent, FAST)
    lab.write(lab.proof / "alignment" / "commit.tar", lab.commit, SLOW)
    culprit = lab.keep(
        lab.trial(kind="alignment"),
        lab.trial(kind="revert", change=None, result="impossible", reason="does not revert"),
    )
    assert culprit.forced_alignment is None
    assert culprit.revert is not None
    assert "alignment not added: --forced-alignment" in capsys.readouterr().err
