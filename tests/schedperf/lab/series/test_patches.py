# SPDX-License-Identifier: GPL-2.0-or-later
"""schedperf.lab.series.patches: a series in a local mailbox, read by b4."""

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from schedperf.inputs.git import Repository
from schedperf.lab.series.patches import fetch_patches
from schedperf.model.errors import InputError
from tests.git_repository import init_git
from tests.public_inbox import add_message, make_home, make_inbox, running_httpd

needs_b4 = pytest.mark.skipif(shutil.which("b4") is None, reason="needs b4")


@pytest.fixture
def mailbox(tmp_path: Path) -> Path:
    """Return a mailbox with a cover letter and two patches to the first commit of a repository."""
    folder = tmp_path / "repository"
    git = init_git(folder)
    for number in range(3):
        (folder / "file").write_text(f"{number}\n")
        git("add", "file")
        git("commit", "--quiet", "--no-gpg-sign", "-m", f"sched: change {number}")
    path = tmp_path / "all.mbx"
    patches = git("format-patch", "--thread", "--cover-letter", "--stdout", "HEAD~2..HEAD")
    path.write_text(f"{patches}\n")
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


@pytest.fixture
def archive(tmp_path: Path, mailbox: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Serve the messages of the mailbox by a public-inbox on this machine, which b4 asks."""
    home = make_home(tmp_path / "home", monkeypatch, "public-inbox-mda")
    address = "list@example.org"
    make_inbox(home, "list", address)
    for number, message in enumerate(re.split(r"^(?=From [0-9a-f]{40} )", mailbox.read_text(),
                                              flags=re.MULTILINE)[1:]):  # fmt: skip
        header, blank, body = message.partition("\n\n")
        # Git does not know to whom it will be sent; the template of the cover letter says so, too.
        text = f"{header}\nTo: {address}{blank}{body}".replace("*** SUBJECT HERE ***", "two")
        add_message(address, text.replace("*** BLURB HERE ***", f"words {number}"))
    with running_httpd() as url:
        (home / ".gitconfig").write_text(f"[b4]\nmidmask = {url}/list/%s\n")
        yield


@pytest.mark.slow
@pytest.mark.usefixtures("archive")
def test_a_series_comes_from_an_archive(tmp_path: Path, mailbox: Path) -> None:
    found = re.search(r"^Message-ID: <(.*)>$", mailbox.read_text(), re.IGNORECASE | re.MULTILINE)
    assert found is not None
    series = fetch_patches(found[1], None, tmp_path / "patches").read_text()
    subjects = re.findall(r"^Subject: (.*)$", series, re.MULTILINE)
    assert [each.rpartition("] ")[2] for each in subjects] == ["sched: change 1", "sched: change 2"]
    with pytest.raises(InputError) as error:
        fetch_patches("gone@example.org", None, tmp_path / "patches")
    assert str(error.value) == (
        "--patch gone@example.org: b4 found no series (That message-id is not known.); check the "
        "message ID and the access to the archive"
    )


@needs_b4
def test_a_user_without_an_identity_gets_the_series(
    tmp_path: Path, mailbox: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    found = re.search(r"^Message-ID: <(.*)>$", mailbox.read_text(), re.IGNORECASE | re.MULTILINE)
    assert found is not None
    assert fetch_patches(found[1], mailbox, tmp_path / "patches").is_file()


@pytest.mark.parametrize("name", ["", "--output=x@y", "no at sign", "a@b; touch x", "a@b\x1b[0m"])
def test_a_message_id_that_is_none_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError, match="invalid message ID"):
        fetch_patches(name, None, tmp_path)


def test_without_b4_the_remedy_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InputError, match="b4: not found; run: apt-get install -y b4"):
        fetch_patches("a@example.org", None, tmp_path / "patches")
