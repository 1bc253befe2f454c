# SPDX-License-Identifier: GPL-2.0-or-later
"""A night names the commit that made a job slower, and drafts the mail about it."""

import os
import subprocess
from pathlib import Path

import pytest

from schedperf.history.questions.history import open_history
from schedperf.history.store.requests import open_requests
from tests.schedperf.lab.night.machines import Lab

pytestmark = [
    pytest.mark.system,
    pytest.mark.slow,
    pytest.mark.skipif(os.geteuid() != 0, reason="mount namespaces need root"),
    pytest.mark.skipif(os.uname().machine != "x86_64", reason="/proc/cpuinfo has another form"),
]

TIMEOUT_S = 1800
# A kernel is slow if its commit says so.
WORKLOAD = """\
echo x >>"$MACHINE/count"
score=$((100 + $(wc -l <"$MACHINE/count") % 3))
[ ! -e "$MACHINE/slow-$(cat /proc/sys/kernel/osrelease)" ] || score=$((score + 60))
echo "score: $score"
"""
INSTALL = """\
set -e
release=$(cat "$MACHINE/../releases/$SCHEDPERF_COMMIT" 2>/dev/null) ||
    release=g$(echo "$SCHEDPERF_COMMIT" | cut -c 1-12)
if [ -e "$MACHINE/../full" ] && [ ! -e "$MACHINE/../releases/$SCHEDPERF_COMMIT" ]; then
    echo 'no space for another kernel' >&2
    exit 75
fi
! grep -q slow "$SCHEDPERF_OUT/speed" || touch "$MACHINE/slow-$release"
echo "$release" >"$MACHINE/../releases/$SCHEDPERF_COMMIT"
echo "$release"
"""
TREE = """\
repo = "linux"
bisect = {{install = "{folder}/install", build = 'cp speed "$SCHEDPERF_OUT"'}}
"""
MAINTAINERS = """\
Maintainers List
----------------

THE REST
M:\tA Maintainer <maintainer@lab.example>
L:\tsched-perf@lab.example
S:\tMaintained
F:\t*
"""
BETWEEN = ("sched: Describe a group", "sched: Trace each update", "sched: Fix a comment")


def git(repo: Path, *words: str) -> str:
    author = ["-c", "user.name=A Developer", "-c", "user.email=developer@lab.example"]
    done = subprocess.run(
        ["git", "-C", str(repo), *author, *words], check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


def make_tree(lab: Lab) -> list[str]:
    """Make a repository of four commits, the third of which is slow; return their hashes.

    The kernel `one` is of the first, and `two` of the last.
    """
    repo, releases = lab.folder / "linux", lab.folder / "releases"
    repo.mkdir()
    releases.mkdir()
    git(repo, "init", "-q")
    (repo / "MAINTAINERS").write_text(MAINTAINERS)
    commits = []
    for number, subject in enumerate(("Linux 6.18", *BETWEEN)):
        (repo / f"file{number}").write_text(subject)
        (repo / "speed").write_text("slow\n" if number > 1 else "fast\n")
        git(repo, "add", ".")
        git(repo, "commit", "-q", "-m", subject)
        commits.append(git(repo, "rev-parse", "HEAD"))
    git(repo, "tag", "v6.18", commits[0])
    for release, commit, subject in (
        ("one", commits[0], "Linux 6.18"),
        ("two", commits[-1], BETWEEN[-1]),
    ):
        (releases / commit).write_text(f"{release}\n")
        text = f'{{"commit": "{commit}", "subject": "{subject}"}}'
        (lab.folder / "commits" / f"{release}.json").write_text(text)
    (lab.machine.folder / "slow-two").touch()
    return commits


@pytest.mark.timeout(TIMEOUT_S)
def test_a_night_names_the_planted_commit(lab: Lab) -> None:
    lab.write_mails()
    lab.emulate()
    commits = make_tree(lab)
    lab.write_program("benchmark", WORKLOAD)
    lab.write_program("install", INSTALL)
    lab.write_job(plan="act_on_emulated = true\n")
    text = lab.job.read_text()
    lab.job.write_text(text.replace("[plan]", TREE.format(folder=lab.folder) + "[plan]"))
    # The revert waits for its kernel.
    (lab.folder / "releases" / commits[1]).write_text("c2\n")
    (lab.folder / "releases" / commits[2]).write_text("c3\n")
    (lab.folder / "full").touch()
    status, errors = lab.run()
    assert status == 0, errors
    (state,) = lab.states()
    with open_history(lab.out / "history") as history:
        [step] = history.steps()
        changes = history.step_changes(step.id)
        requests = open_requests(history.database)
    states = [each.state for each in changes]
    assert states[:3] == ["suspected", "reproduced", "first bad known"], state
    assert commits[2][:12] in changes[2].reason
    assert BETWEEN[1] in changes[2].reason
    assert [each.request.kind for each in requests] == ["revert"]
    assert "no space for another kernel" in state["steps"]["requests"]["result"]
    record = (lab.out / "steps" / step.id / "culprit.json").read_text()
    assert commits[2] in record
    assert list((lab.out / "pages").glob("r/*/index.html"))
    (mail,) = (lab.folder / "outbox").glob("held/*report*.eml")
    assert commits[2][:12] in mail.read_text()
    assert "emulat" in mail.with_suffix(".json").read_text()
