# SPDX-License-Identifier: GPL-2.0-or-later
"""schedperf.inputs.git: commits of untrusted repositories."""

import os
import re
from pathlib import Path

import pytest

from schedperf.inputs.git import Repository, trusted_directories
from schedperf.model.errors import InputError
from schedperf_collectors.recorder.source import format_source, read_source
from tests.git_repository import Git, init_git

COMMITS = 4


@pytest.fixture
def git(tmp_path: Path) -> Git:
    """Return a function that runs git in a repository of four commits, each tagged c0 to c3."""
    folder = tmp_path / "repository"
    run = init_git(folder)
    for number in range(COMMITS):
        (folder / "file").write_text(f"{number}\n")
        run("add", "file")
        run("commit", "--quiet", "--no-gpg-sign", "-m", f"sched: change {number}")
        run("tag", f"c{number}")
    return run


@pytest.fixture
def repository(git: Git, tmp_path: Path) -> Repository:
    """Return the repository."""
    assert git("rev-parse", "HEAD")
    return Repository(tmp_path / "repository")


def test_a_series_has_base_and_its_commits_oldest_first(git: Git, repository: Repository) -> None:
    commits = repository.series("c0", "c3")
    assert [each.subject for each in commits] == [f"sched: change {n}" for n in range(COMMITS)]
    assert [each.hash for each in commits] == [git("rev-parse", f"c{n}") for n in range(COMMITS)]


def test_of_a_merge_the_first_parent_is_followed(git: Git, repository: Repository) -> None:
    git("checkout", "--quiet", "-b", "side", "c1")
    git("commit", "--quiet", "--allow-empty", "-m", "side: change")
    git("checkout", "--quiet", "main")
    git("merge", "--quiet", "--no-ff", "-m", "Merge side", "side")
    subjects = [each.subject for each in repository.series("c2", "HEAD")]
    assert subjects == ["sched: change 2", "sched: change 3", "Merge side"]
    with pytest.raises(InputError, match=r"not on the first-parent history of HEAD"):
        repository.series("side", "HEAD")


def test_commits_of_a_rebased_tree_are_those_that_the_other_lacks(
    git: Git, repository: Repository
) -> None:
    git("checkout", "--quiet", "-b", "rebased", "c1")
    git("commit", "--quiet", "--allow-empty", "-m", "side: change")
    git("merge", "--quiet", "--no-ff", "-m", "Merge c2", "c2")
    subjects = [each.subject for each in repository.between("c3", "rebased")]
    assert subjects == ["side: change"]
    subjects = [each.subject for each in repository.between("rebased", "c3")]
    assert subjects == ["sched: change 3"]
    assert repository.between("c3", "c1") == []
    assert repository.has("c3")
    assert not repository.has("--help")
    assert not repository.has("6.18.0")


def test_commits_that_touch_a_path(git: Git, repository: Repository, tmp_path: Path) -> None:
    git("checkout", "--quiet", "-b", "side", "c1")
    (tmp_path / "repository" / "other").write_text("x\n")
    git("add", "other")
    git("commit", "--quiet", "-m", "side: change")
    git("checkout", "--quiet", "main")
    git("merge", "--quiet", "--no-ff", "-m", "Merge side", "side")
    assert repository.touching("c0", "HEAD", ["other"]) == {git("rev-parse", "HEAD")}
    named = {git("rev-parse", name) for name in ("c1", "c2", "c3")}
    assert repository.touching("c0", "HEAD", ["file"]) == named
    assert repository.touching("c0", "HEAD", ["gone"]) == set()


def test_a_merge_adds_the_commits_from_the_merge_base_to_its_further_parents(
    git: Git, repository: Repository
) -> None:
    git("checkout", "--quiet", "-b", "side", "c1")
    git("commit", "--quiet", "--allow-empty", "-m", "side: change")
    git("checkout", "--quiet", "main")
    git("merge", "--quiet", "--no-ff", "-m", "Merge side", "side")
    merge, parent, tip = git("rev-parse", "HEAD", "c3", "side").split()
    [branch] = repository.branches(merge, parent)
    assert [each.subject for each in branch] == ["sched: change 1", "side: change"]
    # To the branch, the merge adds what main has since.
    [branch] = repository.branches(merge, tip)
    assert [each.subject for each in branch] == [f"sched: change {n}" for n in (1, 2, 3)]
    assert repository.branches(parent, git("rev-parse", "c2")) == []
    with pytest.raises(InputError):
        repository.branches("0" * 40, parent)


def test_a_subject_cannot_look_like_a_commit(git: Git, repository: Repository) -> None:
    subject = f"a\r{'1' * 40} {'2' * 40}\tb\x0bc\x1cd\u2028e"
    commit = git("commit-tree", "HEAD^{tree}", "-p", "c3", "-m", subject)
    listed = repository.series("c3", commit)
    assert [each.hash for each in listed] == [git("rev-parse", "c3"), commit]


@pytest.mark.parametrize(
    ("base", "head", "problem"),
    [
        ("c1", "c1", r"c1\.\.c1: empty"),
        ("c3", "c0", r"c3\.\.c0: reversed \(expected older\.\.newer\); use c0\.\.c3"),
        ("gone", "c1", "gone: no such commit"),
        ("--upload-pack=touch /tmp/x", "c1", "--upload-pack=touch /tmp/x: no such commit"),
        ("c1\x1b[31m", "c2", "invalid name of a commit"),
        ("c0", "HEAD:file", "HEAD:file: no such commit"),
        ("x" * 1000, "c1", "invalid name of a commit"),
    ],
)
def test_a_range_that_is_no_series_is_refused_in_one_line(
    repository: Repository, base: str, head: str, problem: str
) -> None:
    with pytest.raises(InputError, match=problem) as error:
        repository.series(base, head)
    assert "\n" not in str(error.value)


def test_a_directory_without_a_repository_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="not a git repository"):
        Repository(tmp_path)
    with pytest.raises(InputError, match="no such directory"):
        Repository(tmp_path / "gone")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_a_repository_of_another_user_is_read_if_the_user_allows_it(
    git: Git, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert git("rev-parse", "HEAD")
    folder = tmp_path / "repository"
    for path in (folder, folder / ".git"):
        os.chown(path, 12345, 12345)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("SUDO_UID", raising=False)
    trusted_directories.cache_clear()
    with pytest.raises(InputError, match="dubious ownership"):
        Repository(folder).resolve("main")
    (tmp_path / ".gitconfig").write_text("[safe]\n\tdirectory = ~/repository\n")
    trusted_directories.cache_clear()
    assert Repository(folder).resolve("main") == Repository(folder).resolve("c3^{commit}")
    (tmp_path / ".gitconfig").unlink()
    trusted_directories.cache_clear()
    monkeypatch.setenv("SUDO_UID", "12345")
    assert Repository(folder).resolve("main")


def test_subjects_are_one_line_without_control_characters(git: Git, repository: Repository) -> None:
    git("commit", "--quiet", "--allow-empty", "-m", "evil \x1b]0;title\x07\u202e\tsubject")
    last = repository.series("c0", "HEAD")[-1].subject
    assert last.isprintable()
    assert "evil" in last


def test_a_check_out_runs_no_program_of_the_repository(
    git: Git, repository: Repository, tmp_path: Path
) -> None:
    marker = tmp_path / "ran"
    folder = tmp_path / "repository"
    hook = folder / ".git" / "hooks" / "post-checkout"
    hook.write_text(f"#!/bin/sh\ntouch {marker}\n")
    hook.chmod(0o755)
    git("config", "filter.evil.smudge", f"touch {marker}; cat")
    git("config", "core.fsmonitor", f"touch {marker}; false")
    (folder / ".gitattributes").write_text("* filter=evil\n")
    git("add", ".gitattributes")
    git("commit", "--quiet", "--no-gpg-sign", "-m", "attributes")
    marker.unlink(missing_ok=True)
    tree = repository.borrow(tmp_path / "work").add("tree", repository.resolve("HEAD"))
    assert (tree / "file").read_text() == "3\n"
    assert not marker.exists()


def test_a_check_out_that_was_killed_is_made_again(repository: Repository, tmp_path: Path) -> None:
    checkouts = repository.borrow(tmp_path / "work")
    commit = repository.resolve("c1")
    checkouts.add("tree", commit)
    (registered,) = (tmp_path / "work").rglob("worktrees/tree")
    (registered / "locked").write_text("initializing")
    checkouts.remove("tree")
    assert (checkouts.add("tree", commit) / "file").read_text() == "1\n"


def test_the_users_repository_stays_as_it_is(
    git: Git, repository: Repository, tmp_path: Path
) -> None:
    files = {path for path in (tmp_path / "repository").rglob("*") if path.is_file()}
    checkouts = repository.borrow(tmp_path / "work")
    tree = checkouts.add("tree", repository.resolve("c1"))
    assert (tree / "file").read_text() == "1\n"
    checkouts.remove("tree")
    assert not tree.exists()
    assert {path for path in (tmp_path / "repository").rglob("*") if path.is_file()} == files
    assert git("worktree", "list").count("\n") == 0


def test_patches_have_the_same_hashes_each_time(
    git: Git, repository: Repository, tmp_path: Path
) -> None:
    mailbox = tmp_path / "series.mbx"
    mailbox.write_text(git("format-patch", "--stdout", "c1..c3") + "\n")
    applied = set()
    for name in ("first", "second"):
        checkouts = repository.borrow(tmp_path / name)
        head = checkouts.apply(checkouts.add("tree", repository.resolve("c1")), mailbox)
        commits = checkouts.as_repository().series(repository.resolve("c1"), head)
        assert [each.subject for each in commits[1:]] == ["sched: change 2", "sched: change 3"]
        applied.add(head)
    assert len(applied) == 1


def test_patches_that_do_not_apply_are_refused(
    git: Git, repository: Repository, tmp_path: Path
) -> None:
    mailbox = tmp_path / "series.mbx"
    mailbox.write_text(git("format-patch", "--stdout", "c2..c3") + "\n")
    checkouts = repository.borrow(tmp_path / "work")
    tree = checkouts.add("tree", repository.resolve("c0"))
    with pytest.raises(InputError, match="the patches do not apply to base"):
        checkouts.apply(tree, mailbox)


def test_a_commit_is_described_as_bundles_store_it(git: Git, repository: Repository) -> None:
    git("remote", "add", "origin", "https://me:secret@git.example.org/linux.git")
    git("commit", "--quiet", "--allow-empty", "-m", "sched: fix\n\nA text.\n\n"
        "Link: https://lore.kernel.org/r/1@example.org\nLink: https://example.org/2\n"
        "Signed-off-by: n <e@example.org>")  # fmt: skip
    commit = git("rev-parse", "HEAD")
    found = repository.describe(commit, "main")
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT[\d:]{8}[+-]\d\d:\d\d|.*Z", found.pop("committed"))
    assert found == {
        "commit": commit,
        "tree": "https://git.example.org/linux.git",
        "ref": "main",
        "subject": "sched: fix",
        "author": "n <e@example.org>",
        "committer": "n <e@example.org>",
        "describe": f"c3-1-g{commit[:7]}",
        "links": ["https://lore.kernel.org/r/1@example.org", "https://example.org/2"],
    }
    assert "ref" not in repository.describe(commit, "HEAD~0")


def test_a_hostile_commit_gives_a_source_that_the_recorder_takes(
    git: Git, repository: Repository
) -> None:
    subject = "\x1b[31mred \u202e" + "x" * 1000
    git("-c", "user.name=a\u200bb", "commit", "--quiet", "--allow-empty", "-m", subject)
    found = repository.describe(git("rev-parse", "HEAD"))
    assert read_source(format_source(found)) == {
        key: value for key, value in found.items() if value != []
    }
    assert len(found["subject"]) == 500


def commit_file(git: Git, folder: Path, name: str, content: str) -> str:
    """Commit a file; return the hash of the commit."""
    (folder / name).write_text(content)
    git("add", name)
    git("commit", "--quiet", "--no-gpg-sign", "-m", f"changes {name}")
    return git("rev-parse", "HEAD")


def test_a_commit_is_reverted_without_a_check_out(
    git: Git, repository: Repository, tmp_path: Path
) -> None:
    folder = tmp_path / "repository"
    wanted = commit_file(git, folder, "other", "1\n")
    tip = commit_file(git, folder, "file", "last\n")
    before = git("rev-parse", "HEAD"), git("status", "--short"), git("count-objects")
    checkouts = repository.borrow(tmp_path / "work")
    made = checkouts.revert(tip, wanted, f"{wanted}^")
    assert made.reason is None
    assert made.commit is not None
    reverted = checkouts.as_repository()
    assert reverted.show(made.commit, "%s") == 'Revert "changes other"'
    assert reverted.show(made.commit, "%P") == tip
    assert reverted.changed_files(made.commit) == ["other"]
    # Bundles name the commit, so that it must be the same when trials are continued.
    assert repository.borrow(tmp_path / "again").revert(tip, wanted, f"{wanted}^") == made
    assert (git("rev-parse", "HEAD"), git("status", "--short"), git("count-objects")) == before


def test_several_commits_and_merges_are_reverted(
    git: Git, repository: Repository, tmp_path: Path
) -> None:
    folder = tmp_path / "repository"
    checkouts = repository.borrow(tmp_path / "work")
    tip = commit_file(git, folder, "other", "1\n")
    several = checkouts.revert(tip, git("rev-parse", "c3"), git("rev-parse", "c1"))
    assert several.commit is not None
    assert checkouts.as_repository().read_file(several.commit, "file", 99) == "1\n"
    git("checkout", "--quiet", "-b", "side", "c1")
    commit_file(git, folder, "side", "1\n")
    git("checkout", "--quiet", "main")
    git("merge", "--quiet", "--no-ff", "-m", "Merge side", "side")
    merge = git("rev-parse", "HEAD")
    made = checkouts.revert(merge, merge, f"{merge}^1")
    assert made.commit is not None
    assert checkouts.tree_of(made.commit) == checkouts.tree_of(tip)


def test_a_revert_with_conflicts_names_the_files(
    git: Git, repository: Repository, tmp_path: Path
) -> None:
    checkouts = repository.borrow(tmp_path / "work")
    wanted = git("rev-parse", "c2")
    made = checkouts.revert(git("rev-parse", "c3"), wanted, f"{wanted}^")
    assert made.commit is None
    assert made.reason == "does not revert: CONFLICT in file"
    folder = tmp_path / "repository"
    name = "a\x1b[31m\nb"
    hostile = commit_file(git, folder, name, "1\n")
    tip = commit_file(git, folder, name, "2\n")
    made = checkouts.revert(tip, hostile, f"{hostile}^")
    assert made.reason is not None
    assert made.reason.isprintable()
    assert made.reason.startswith("does not revert: CONFLICT in a")


def test_what_is_not_there_any_more_is_not_reverted(
    git: Git, repository: Repository, tmp_path: Path
) -> None:
    wanted = git("rev-parse", "c2")
    tip = commit_file(git, tmp_path / "repository", "file", "1\n")
    made = repository.borrow(tmp_path / "work").revert(tip, wanted, f"{wanted}^")
    assert made.commit is None
    assert made.reason == "nothing to revert: its change is not there any more"


def test_merge_drivers_and_hooks_are_not_run_by_a_revert(
    git: Git, repository: Repository, tmp_path: Path
) -> None:
    folder = tmp_path / "repository"
    (folder / ".gitattributes").write_text("file merge=evil\n")
    git("add", ".gitattributes")
    git("config", "merge.evil.driver", f"touch {tmp_path / 'pwned'}")
    hook = folder / ".git" / "hooks" / "post-commit"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\ntouch {tmp_path / 'pwned'}\n")
    tip = commit_file(git, folder, "file", "last\n")
    (tmp_path / "pwned").unlink(missing_ok=True)
    hook.chmod(0o755)
    wanted = git("rev-parse", "c2")
    made = repository.borrow(tmp_path / "work").revert(tip, wanted, f"{wanted}^")
    assert made.reason == "does not revert: CONFLICT in file"
    assert not (tmp_path / "pwned").exists()
