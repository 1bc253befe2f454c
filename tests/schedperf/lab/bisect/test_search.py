# SPDX-License-Identifier: GPL-2.0-or-later
"""schedperf.lab.bisect.search: searches of a simulated lab, killed in each of their steps."""

import json
import math
import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from schedperf.inputs.git import Commit, Repository
from schedperf.lab.bisect.document import BisectDocument
from schedperf.lab.bisect.judge import Options, read_range
from schedperf.lab.bisect.search import Search, Untestable, judge_progress
from schedperf.lab.bisect.store import (
    AnyEvent,
    Booted,
    Booting,
    Marked,
    Place,
    Progress,
    Request,
    Skipped,
    Store,
    read_progress,
)
from schedperf.lab.build import Builder, Recipe
from schedperf.model.errors import InputError
from tests.git_repository import init_git

COMMITS = 13
CAUSE = 9
LEVELS = {CAUSE: 1.1}
KILLED = 9

MakeBundle = Callable[..., Path]
# Is called before each thing that a search writes.
Step = Callable[[], None]


def nothing() -> None:
    """Do nothing."""


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Repository:
    """Return a repository of commits with the tags v0 to v12; the file says which one it is."""
    folder = tmp_path_factory.mktemp("git") / "repository"
    run = init_git(folder)
    for number in range(COMMITS):
        (folder / "number").write_text(f"{number}\n")
        run("add", "number")
        run("commit", "--quiet", "--no-gpg-sign", "-m", f"change {number}")
        run("tag", f"v{number}")
    return Repository(folder)


class SimulatedLab:
    """A machine whose boots vary; the n-th boot of a commit always has the same value.

    :param levels: new / old of the commits that change the result, by their numbers
    :param broken: numbers of the commits that do not boot
    """

    def __init__(
        self,
        make_bundle: MakeBundle,
        levels: Mapping[int, float] = LEVELS,
        broken: Sequence[int] = (),
        step: Step = nothing,
    ) -> None:
        self._make_bundle = make_bundle
        self._levels = levels
        self._broken = broken
        self._step = step

    def boot(self, commit: Commit, built: Path, boots: int, bundle: Path) -> None:
        """Add boots to a bundle, one by one, as guests do."""
        number = int((built / "number").read_text())
        assert commit.subject == f"change {number}"
        if number in self._broken:
            raise Untestable("does not boot: panic")
        made = bundle.with_suffix(".json")
        for _ in range(boots):
            before = json.loads(made.read_text()) if made.exists() else []
            runs = [*before, self._run(number, len(before))]
            self._step()
            partial = self._make_bundle(bundle.with_suffix(".new"), runs=runs)
            made.write_text(json.dumps(runs))
            partial.rename(bundle)
            self._step()

    def _run(self, number: int, boot: int) -> Mapping[str, Any]:
        level = math.prod(ratio for commit, ratio in self._levels.items() if commit <= number)
        noise = np.random.default_rng((number, boot)).normal(0.0, 0.01)
        return {
            "boot": boot,
            "boot_id": f"{boot:08d}-0000-4000-8000-000000000000",
            "run": 0,
            "time_s": round(level * math.exp(noise), 6),
        }

    def recover(self, bundle: Path) -> None:
        """Do nothing: a bundle has each finished boot."""


class Silent:
    """Is told what happens, and answers.

    :param agrees: whether to search
    :param on_event: is called with each event
    """

    def __init__(
        self, *, agrees: bool = True, on_event: Callable[[AnyEvent], None] = lambda _: None
    ) -> None:
        self._agrees = agrees
        self.tell = on_event
        self.asked = 0

    def show(self, document: BisectDocument, progress: Progress) -> None:
        """Check that what is shown is what the boots so far say."""
        assert document.boots == len(progress.boots)

    def confirm(self, document: BisectDocument, progress: Progress) -> bool:
        """Answer."""
        assert document.boots == len(progress.boots)
        self.asked += 1
        return self._agrees


Make = Callable[..., Search]


class SteppingStore(Store):
    """A store that calls a function before and after each event."""

    def __init__(self, folder: Path, step: Step) -> None:
        super().__init__(folder)
        self._step = step

    def append(self, event: AnyEvent) -> None:
        """Add an event."""
        self._step()
        super().append(event)
        self._step()


@pytest.fixture
def make_search(repository: Repository, make_bundle: MakeBundle, tmp_path: Path) -> Make:
    """Return a function that returns a search in one directory."""

    def make(
        lab: SimulatedLab | None = None,
        watcher: Silent | None = None,
        *,
        build: str = 'cp number "$SCHEDPERF_OUT"',
        folder: str = "search",
        good: str = "v0",
        bad: str = "v12",
        place: Place = "vm",
        result: str | None = None,
        step: Step = nothing,
    ) -> Search:
        span = read_range(repository, good, bad, Options())
        store = SteppingStore(tmp_path / folder, step)
        recipe = Recipe(command=build, config=None, limit_s=60.0, makes_kernel=False)
        store.begin(
            Request(
                repository=str(repository),
                good=span.commits[0].hash,
                bad=span.commits[-1].hash,
                search=Options(),
                place=place,
                target="",
                result=result,
                build=recipe.key(),
                recording=(),
                words=("hackbench",),
            )
        )
        builder = Builder(repository.borrow(store.work), store.builds, recipe)
        return Search(
            store, span, builder, lab or SimulatedLab(make_bundle, step=step), watcher or Silent()
        )

    return make


def boots_of(folder: Path) -> Sequence[tuple[str, float]]:
    """Return the boots of a search in their order."""
    return read_progress(Store(folder).events()).boots


def test_a_search_names_the_commit_that_changes_the_result(
    make_search: Make, tmp_path: Path
) -> None:
    watcher = Silent()
    document = make_search(watcher=watcher).run()
    [named] = document.named
    assert named.commits[-1].subject == f"change {CAUSE}"
    assert document.status == "named"
    assert watcher.asked == 1
    made = boots_of(tmp_path / "search")
    assert len(made) == document.boots
    table = (tmp_path / "search" / "boots.csv").read_text().splitlines()
    assert table[0] == "commit,boot,value"
    assert [float(line.split(",")[2]) for line in table[1:]] == [value for _, value in made]


def test_a_finished_search_makes_no_more_boots(make_search: Make, tmp_path: Path) -> None:
    first = make_search().run()
    made = boots_of(tmp_path / "search")
    watcher = Silent()
    assert make_search(watcher=watcher).run() == first
    assert boots_of(tmp_path / "search") == made
    assert watcher.asked == 0


def test_a_search_that_is_killed_in_each_step_has_the_same_result(
    make_search: Make, make_bundle: MakeBundle, tmp_path: Path
) -> None:
    whole = make_search(folder="whole").run()
    attempts = 0
    while not run_in_child(make_search, make_bundle, attempts + 1):
        attempts += 1
    killed = make_search().run()
    assert attempts > 10
    assert [each.commits for each in killed.named] == [each.commits for each in whole.named]
    # Each boot that a bundle has is counted, once.
    made = Counter(commit for commit, _ in boots_of(tmp_path / "search"))
    for commit, number in made.items():
        path = tmp_path / "search" / "bundles" / f"{commit[:12]}.json"
        assert len(json.loads(path.read_text())) == number


def test_boots_of_a_killed_search_are_taken_whatever_has_happened_since(
    make_search: Make, make_bundle: MakeBundle, tmp_path: Path, repository: Repository
) -> None:
    make_search(watcher=Silent(agrees=False)).run()
    store = Store(tmp_path / "search")
    commit = Commit(hash=repository.resolve("v6"), subject="change 6")
    built = tmp_path / "built"
    built.mkdir()
    (built / "number").write_text("6")
    store.append(Booting(at=0.0, commit=commit.hash, boots=2))
    SimulatedLab(make_bundle).boot(commit, built, 2, store.bundle(commit.hash))
    store.append(Marked(at=0.0, commit=commit.hash, side="good"))
    make_search(watcher=Silent(agrees=False)).run()
    assert [each for each, _ in boots_of(tmp_path / "search")][-2:] == [commit.hash] * 2


def run_in_child(make_search: Make, make_bundle: MakeBundle, steps: int) -> bool:
    """Run a search in another process, which ends like a killed one after some steps.

    :return: whether it came to its end before
    """
    child = os.fork()
    if child == 0:
        left = steps

        def step() -> None:
            nonlocal left
            left -= 1
            if left == 0:
                os._exit(KILLED)

        try:
            make_search(SimulatedLab(make_bundle, step=step), step=step).run()
            os._exit(0)
        finally:
            os._exit(1)
    _, status = os.waitpid(child, 0)
    ended = os.waitstatus_to_exitcode(status)
    assert ended in {0, KILLED}
    return ended == 0


def test_commits_that_do_not_boot_are_left_out_and_reported_as_a_set(
    make_search: Make, make_bundle: MakeBundle
) -> None:
    lab = SimulatedLab(make_bundle, broken=(CAUSE - 1, CAUSE))
    document = make_search(lab).run()
    [named] = document.named
    assert [commit.subject for commit in named.commits] == ["change 8", "change 9", "change 10"]
    assert {commit.subject for commit in document.untestable} >= {"change 8", "change 9"}


def test_commits_that_do_not_build_are_left_out(make_search: Make, tmp_path: Path) -> None:
    build = f'[ "$(cat number)" != {CAUSE} ] || exit 3; cp number "$SCHEDPERF_OUT"'
    [named] = make_search(build=build).run().named
    assert [commit.subject for commit in named.commits] == ["change 9", "change 10"]
    reasons = read_progress(Store(tmp_path / "search").events()).untestable
    assert [reason.split(":")[0] for reason in reasons.values()] == ["does not build"]


@pytest.mark.parametrize(("broken", "end"), [(0, "--good"), (COMMITS - 1, "--bad")])
def test_an_end_that_does_not_boot_ends_the_search(
    make_search: Make, make_bundle: MakeBundle, broken: int, end: str
) -> None:
    with pytest.raises(InputError, match=f"{end} [0-9a-f]*: does not boot: panic; name"):
        make_search(SimulatedLab(make_bundle, broken=(broken,))).run()


def test_ends_that_do_not_differ_are_not_searched(
    make_search: Make, make_bundle: MakeBundle
) -> None:
    watcher = Silent()
    document = make_search(SimulatedLab(make_bundle, levels={}), watcher).run()
    assert document.status == "no-change"
    assert watcher.asked == 0


def test_without_consent_only_the_ends_are_booted(make_search: Make, tmp_path: Path) -> None:
    document = make_search(watcher=Silent(agrees=False)).run()
    assert document.status == "more-boots"
    assert len({commit for commit, _ in boots_of(tmp_path / "search")}) == 2
    assert make_search().run().status == "named"


def test_a_search_that_is_asked_to_stop_ends_after_the_boots_of_this_commit(
    make_search: Make, tmp_path: Path
) -> None:
    store = Store(tmp_path / "search")

    def ask(event: AnyEvent) -> None:
        if isinstance(event, Booted):
            store.ask_to_stop()

    document = make_search(watcher=Silent(on_event=ask)).run()
    assert document.status == "more-boots"
    assert document.boots == len(boots_of(tmp_path / "search")) == 3
    with store.claimed():
        assert not store.is_to_stop()
        assert make_search().run().status == "named"


def test_commits_that_the_user_leaves_out_during_a_search_are_not_booted(
    make_search: Make, tmp_path: Path, repository: Repository
) -> None:
    store = Store(tmp_path / "search")
    commit = repository.resolve(f"v{CAUSE - 1}")
    search = make_search()
    store.append(Skipped(at=0.0, commit=commit, reason="left out by the user"))
    [named] = search.run().named
    assert [each.subject for each in named.commits] == ["change 8", "change 9"]
    assert commit not in dict(boots_of(tmp_path / "search"))


def test_marks_lead_the_search_and_may_be_wrong(
    make_search: Make, tmp_path: Path, repository: Repository
) -> None:
    right = make_search(folder="right")
    mark = Marked(at=0.0, commit=repository.resolve(f"v{CAUSE - 1}"), side="good")
    Store(tmp_path / "right").append(mark)
    wrong = make_search(folder="wrong")
    mark = Marked(at=0.0, commit=repository.resolve(f"v{CAUSE}"), side="good")
    Store(tmp_path / "wrong").append(mark)
    without, marked, misled = (each.run() for each in (make_search(folder="without"), right, wrong))
    assert marked.boots < without.boots
    for document in (marked, misled):
        assert [each.commits[-1].subject for each in document.named] == [f"change {CAUSE}"]


def test_a_value_of_zero_is_one_line(make_search: Make, make_bundle: MakeBundle) -> None:
    with pytest.raises(InputError, match=r"time has a value of 0 \(expected values above 0"):
        make_search(SimulatedLab(make_bundle, levels={0: 1e-9})).run()


def test_an_unknown_result_is_one_line(make_search: Make) -> None:
    with pytest.raises(InputError, match="--result speed: not found"):
        make_search(result="speed").run()


def test_the_state_of_a_search_says_what_the_boots_show(
    make_search: Make, tmp_path: Path, repository: Repository
) -> None:
    document = make_search().run()
    span = read_range(repository, "v0", "v12", Options())
    assert judge_progress(span, read_progress(Store(tmp_path / "search").events())) == document
