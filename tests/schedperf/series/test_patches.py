# SPDX-License-Identifier: GPL-2.0-or-later
"""schedperf.series.patches: a series in a local mailbox, read by b4."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from schedperf.model.errors import InputError
from schedperf.series.git import Repository
from schedperf.series.patches import fetch_patches

needs_b4 = pytest.mark.skipif(shutil.which("b4") is None, reason="needs b4")


@pytest.fixture
def mailbox(tmp_path: Path) -> Path:
    """Return a mailbox with a cover letter and two patches to the first commit of a repository."""
    folder = tmp_path / "repository"
    folder.mkdir()

    def git(*arguments: str) -> str:
        identity = ("-c", "user.name=n", "-c", "user.email=e@example.org")
        command = ["git", "-C", str(folder), *identity, *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    git("init", "--quiet")
    for number in range(3):
        (folder / "file").write_text(f"{number}\n")
        git("add", "file")
        git("commit", "--quiet", "--no-gpg-sign", "-m", f"sched: change {number}")
    path = tmp_path / "all.mbx"
    path.write_text(git("format-patch", "--thread", "--cover-letter", "--stdout", "HEAD~2..HEAD"))
    return path


@needs_b4
def test_the_patches_of_a_series_are_applied_in_order(tmp_path: Path, mailbox: Path) -> None:
    found = re.search(r"^Message-ID: <(.*)>$", mailbox.read_text(), re.IGNORECASE | re.MULTILINE)
    assert found is not None
    series = fetch_patches(found[1], mailbox, tmp_path / "patches")
    repository = Repository(tmp_path / "repository")
    base = repository.resolve("HEAD~2")
    checkouts = repository.borrow(tmp_path / "work")
    head = checkouts.apply(checkouts.add("tree", base), series)
    subjects = [each.subject for each in checkouts.as_repository().series(base, head)]
    assert subjects == [f"sched: change {number}" for number in range(3)]


@needs_b4
def test_a_series_that_is_not_in_the_mailbox_is_refused(tmp_path: Path, mailbox: Path) -> None:
    with pytest.raises(InputError, match="b4 found no series") as error:
        fetch_patches("gone@example.org", mailbox, tmp_path / "patches")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("name", ["", "--output=x@y", "no at sign", "a@b; touch x", "a@b\x1b[0m"])
def test_a_message_id_that_is_none_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError, match="invalid message ID"):
        fetch_patches(name, None, tmp_path)


def test_without_b4_the_remedy_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InputError, match="b4: not found; run: apt-get install -y b4"):
        fetch_patches("a@example.org", None, tmp_path / "patches")
