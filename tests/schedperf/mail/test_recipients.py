# SPDX-License-Identifier: GPL-2.0-or-later
"""Who gets a mail: only whom the site allows, trailers first, bounded; injection is refused."""

import subprocess
from email.headerregistry import Address
from pathlib import Path

import pytest
from msgspec.structs import replace

from schedperf.culprit.record import Commit, Trailer
from schedperf.mail.recipients import (
    MOST_LISTS,
    MOST_PEOPLE,
    Maintainers,
    choose_recipients,
    own_list,
    parse_maintainers,
)
from schedperf.mail.repository import ask_get_maintainer, find_undoing
from schedperf.model.errors import InputError
from tests.schedperf.mail.records import AUTHOR, LIST, make_culprit, make_site

COMMIT = make_culprit().bad
SITE = make_site()
PRINTED = """\
Ingo Maintainer <ingo@kernel.example> (maintainer:SCHEDULER)
Vera Supporter <vera@kernel.example> (supporter:SCHEDULER (FAIR))
Rolf Reviewer <rolf@kernel.example> (reviewer:SCHEDULER)
open@kernel.example (open list:SCHEDULER)
moderated@kernel.example (moderated list:ARM PORT)
closed@kernel.example (subscriber list:SECURITY)
half@kernel.example (open list:ARM PORT (moderated for non-subscribers))
linux-kernel@kernel.example (open list)
scripts/get_maintainer.pl: a warning without a role
"""


def addresses(found: tuple[Address, ...]) -> list[str]:
    return [address.addr_spec for address in found]


def test_author_trailers_and_own_list() -> None:
    chosen = choose_recipients(COMMIT, SITE, Maintainers())
    assert addresses(chosen.to) == ["ada@kernel.example"]
    assert addresses(chosen.cc) == ["max@kernel.example", "rita@kernel.example", LIST]
    assert chosen.left_out == ()
    assert chosen.is_public(SITE)


def test_nobody_is_allowed_at_first() -> None:
    site = make_site(allow=())
    chosen = choose_recipients(COMMIT, site, Maintainers())
    assert chosen == replace(own_list(site), left_out=chosen.left_out)
    assert "ada@kernel.example: not allowed by mail.toml" in chosen.left_out
    assert not chosen.is_public(site)


def test_get_maintainer_is_parsed() -> None:
    found = parse_maintainers(PRINTED.splitlines())
    assert addresses(found.people) == ["ingo@kernel.example", "vera@kernel.example"]
    assert addresses(found.lists) == ["open@kernel.example", "linux-kernel@kernel.example"]


def test_people_and_lists_are_bounded() -> None:
    many = Maintainers(
        people=tuple(Address(addr_spec=f"p{number}@kernel.example") for number in range(30)),
        lists=tuple(Address(addr_spec=f"l{number}@kernel.example") for number in range(30)),
    )
    chosen = choose_recipients(COMMIT, SITE, many)
    everyone = addresses((*chosen.to, *chosen.cc))
    lists = [each for each in everyone if each.startswith("l") or each == LIST]
    assert len(lists) == MOST_LISTS
    assert len(everyone) == MOST_PEOPLE + MOST_LISTS
    # Trailers come first, and the site's own list is never cut.
    assert everyone[:3] == ["ada@kernel.example", "max@kernel.example", "rita@kernel.example"]
    assert LIST in everyone
    assert any("more than 10 people" in line for line in chosen.left_out)


@pytest.mark.parametrize(
    "value",
    [
        "Eve <eve@kernel.example>\r\nBcc: all@kernel.example",
        "Eve <eve@kernel.example>\nX: y",
        "Eve <eve@evil.example@kernel.example>",
        '"Eve <eve@evil.example>" <eve@kernel.example>',
        "Eve <eve@kernel.example>, <more@kernel.example>",
        "Eve \u202e<eve@kernel.example>",
        "Eve\0 <eve@kernel.example>",
    ],
)
def test_injection_is_refused(value: str) -> None:
    commit = replace(COMMIT, trailers=(Trailer(name="Signed-off-by", value=value),))
    with pytest.raises(InputError) as refused:
        choose_recipients(commit, SITE, Maintainers())
    assert len(str(refused.value).splitlines()) == 1
    assert len(str(refused.value)) < 300


@pytest.mark.parametrize(
    "value",
    [
        "no address",
        "root <root@(none)>",
        "Eve <eve@kernel.example",
        "Eve <eve@k\xf6rnel.example>",
        "x" * 10_000 + " <eve@kernel.example>",
    ],
)
def test_a_person_without_a_mail_address_is_left_out(value: str) -> None:
    trailers = (*COMMIT.trailers[:2], Trailer(name="Signed-off-by", value=value))
    chosen = choose_recipients(replace(COMMIT, trailers=trailers), SITE, Maintainers())
    assert addresses(chosen.cc) == ["max@kernel.example", "rita@kernel.example", LIST]
    assert chosen.left_out == ("trailer 3, Signed-off-by: no mail address",)
    chosen = choose_recipients(replace(COMMIT, author=value), SITE, Maintainers())
    assert "author: no mail address" in chosen.left_out


@pytest.mark.parametrize("field", ["author", "committer"])
def test_injection_by_author_or_committer_is_refused(field: str) -> None:
    with pytest.raises(InputError):
        choose_recipients(replace(COMMIT, **{field: "A <a@b>\nBcc: <c@d>"}), SITE, Maintainers())


def test_remarks_of_trailers_are_left_out() -> None:
    value = "Rita Reviewer <rita@kernel.example> # for v1"
    commit = Commit(
        commit="1" * 40,
        subject="x",
        author=AUTHOR,
        trailers=(
            Trailer(name="Reviewed-By", value=value),
            Trailer(name="Link", value="https://x"),
        ),
    )
    chosen = choose_recipients(commit, SITE, Maintainers())
    assert addresses(chosen.cc) == ["rita@kernel.example", LIST]


def test_long_addresses_are_left_out() -> None:
    commit = Commit(commit="1" * 40, subject="x", author=f"{'a' * 100}@kernel.example")
    chosen = choose_recipients(commit, SITE, Maintainers())
    assert addresses(chosen.to) == [LIST]
    assert "longer than 70 characters" in chosen.left_out[0]


def git(folder: Path, *words: str) -> str:
    command = [
        "git",
        "-C",
        str(folder),
        "-c",
        "user.name=A",
        "-c",
        "user.email=a@kernel.example",
        *words,
    ]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    return ran.stdout.strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    git(tmp_path, "init", "-q")
    (tmp_path / "scripts").mkdir()
    # As the kernel's: it gets the patch, and reads MAINTAINERS of its own tree.
    (tmp_path / "scripts/get_maintainer.pl").write_text(
        "my ($options) = join ' ', @ARGV;\n"
        "die 'options' unless $options eq '--no-tree --no-git --no-git-fallback --roles -';\n"
        "die 'no patch' unless join('', <STDIN>) =~ /^diff --git/m;\n"
        "open my $file, '<', 'MAINTAINERS' or die; print <$file>;\n"
    )
    (tmp_path / "MAINTAINERS").write_text(PRINTED)
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-qm", "sched: Begin")
    return tmp_path


def test_get_maintainer_of_the_tree_of_the_commit(repository: Path) -> None:
    commit = git(repository, "rev-parse", "HEAD")
    (repository / "MAINTAINERS").write_text("Late <late@kernel.example> (maintainer:X)\n")
    git(repository, "commit", "-qam", "sched: Change")
    assert ask_get_maintainer(repository, commit) == parse_maintainers(PRINTED.splitlines())


def test_a_tree_without_the_script(repository: Path) -> None:
    git(repository, "rm", "-q", "scripts/get_maintainer.pl")
    git(repository, "commit", "-qm", "scripts: Remove")
    with pytest.raises(InputError, match="expected a kernel repository with the commit and sc"):
        ask_get_maintainer(repository, git(repository, "rev-parse", "HEAD"))


def test_commits_that_undo_a_commit(repository: Path) -> None:
    commit = git(repository, "rev-parse", "HEAD")
    assert find_undoing(repository, commit) == []
    git(repository, "commit", "-qm", f"sched: Fix\n\nFixes: {commit[:12]} (sched)", "--allow-empty")
    git(repository, "commit", "-qm", "sched: Another\n\nFixes: 0123456789ab", "--allow-empty")
    git(repository, "commit", "-qm", f"Revert\n\nThis reverts commit {commit}.", "--allow-empty")
    head = git(repository, "rev-parse", "HEAD")
    assert find_undoing(repository, commit) == [head, git(repository, "rev-parse", "HEAD~2")]


@pytest.mark.parametrize("digits", [7, 8, 10, 11, 20, 40])
def test_authors_shorten_the_names_of_commits_as_they_like(repository: Path, digits: int) -> None:
    commit = git(repository, "rev-parse", "HEAD")
    other = f"{commit[: digits - 1]}{'0' if commit[digits - 1] != '0' else '1'}"
    git(repository, "commit", "-qm", f"sched: Fix\n\nFixes: {other} (sched)", "--allow-empty")
    assert find_undoing(repository, commit) == []
    for line in (f"Fixes: {commit[:digits]} (sched)", f"This reverts commit {commit[:digits]}."):
        git(repository, "commit", "-qm", f"sched: Fix\n\n{line}", "--allow-empty")
    assert len(find_undoing(repository, commit) or ()) == 2


def test_a_checkout_without_the_commit_proves_nothing(repository: Path) -> None:
    old = git(repository, "rev-parse", "HEAD")
    git(repository, "checkout", "-qb", "sched/core")
    git(repository, "commit", "-qm", "sched: Change", "--allow-empty")
    commit = git(repository, "rev-parse", "HEAD")
    git(repository, "commit", "-qm", f"sched: Fix\n\nFixes: {commit[:12]}", "--allow-empty")
    fix = git(repository, "rev-parse", "HEAD")
    git(repository, "checkout", "-q", old)
    assert find_undoing(repository, commit) is None
    assert find_undoing(repository, commit, "sched/core") == [fix]
    assert find_undoing(repository, commit, "no/such/branch") is None
    assert find_undoing(repository, commit, "--all") is None
    git(repository, "checkout", "-q", "sched/core")
    assert find_undoing(repository, commit, "no/such/branch") == [fix]


def test_a_commit_that_is_not_there(repository: Path) -> None:
    with pytest.raises(InputError, match="--repo"):
        find_undoing(repository, "9" * 40)
