# SPDX-License-Identifier: GPL-2.0-or-later
"""Who maintains changed files: as the kernel's get_maintainer.pl says, also of a hostile file."""

import os
import subprocess
import time
from collections.abc import Sequence
from email.headerregistry import Address
from pathlib import Path

import pytest

from schedperf.model.errors import InputError
from schedperf.publish.mail.maintainers import LIMIT_S, Change, find_maintainers

MAINTAINERS = """\
List of maintainers
===================

	M: *Mail* patches to: FullName <address@domain>

# A remark
ARM PORT
M:	Arno Arm <arno@kernel.example>
L:	arm@kernel.example (moderated for non-subscribers)
S:	Maintained
F:	arch/arm/
X:	arch/arm/boot/dts/

EXYNOS BOARDS
M:	Xenia Exynos <xenia@kernel.example>
S:	Supported
N:	exynos

OLD DRIVERS
M:	Olga Old <olga@kernel.example>
L:	old@kernel.example
S:	Odd Fixes
F:	drivers/old[a-c]*/*.c

PREEMPTION
M:	Paul Preempt <paul@kernel.example>
S:	Supported
K:	preempt_(?:disable|enable)
K:	\\bPREEMPT_RT \\b

SCHEDULER
M:	Ingo Maintainer <ingo@kernel.example>
M:	peter@kernel.example
R:	Rolf Reviewer <rolf@kernel.example>
L:	Sched@kernel.example
L:	closed@kernel.example (subscribers-only)
S:	Maintained
F:	include/linux/sched.h
F:	include/uapi/linux/sched*
F:	kernel/sched/

SCHEDULER (TOPOLOGY)

M:	Tom Topology <tom@kernel.example>
S:	Maintained
F:	kernel/sched/topology.c
F:	kernel/sched/feat

THE REST
M:	Linus <linus@kernel.example>
L:	linux-kernel@kernel.example
S:	Buried alive in reporters
F:	*
F:	*/
"""
TREE = "v6.18:MAINTAINERS"
REST = "linux-kernel"
# What scripts/get_maintainer.pl of Linux 6.1 prints of them: files, changed line, people, lists.
CASES = [
    (["kernel/sched/fair.c"], "", "ingo peter", "Sched linux-kernel"),
    (["kernel/sched/topology.c"], "", "tom ingo peter", "Sched linux-kernel"),
    (["kernel/sched/features.h"], "", "tom ingo peter", "Sched linux-kernel"),
    (["kernel/sched/deep/feat.c"], "", "ingo peter", "Sched linux-kernel"),
    (["kernel/schedx.c"], "", "", REST),
    (["include/uapi/linux/sched/types.h"], "", "", REST),
    (["include/uapi/linux/sched_ext.h"], "", "ingo peter", "Sched linux-kernel"),
    (["arch/arm/mach-exynos/pm.c"], "", "arno xenia", REST),
    (["arch/arm/boot/dts/exynos.dts"], "", "xenia", REST),
    (["arch/arm/boot/dts/other.dts"], "", "", REST),
    (["drivers/oldb/x.c"], "", "", "old linux-kernel"),
    (["drivers/oldd/x.c"], "", "", REST),
    (["README"], "", "", REST),
    (["mm/slab.c"], "a; preempt_disable();", "paul", REST),
    (["mm/slab.c"], "if (PREEMPT_RT)", "paul", REST),
    (["mm/slab.c"], "CONFIG_PREEMPT_RT", "", REST),
    (["mm/slab.c", "kernel/sched/fair.c"], "", "ingo peter", "Sched linux-kernel"),
]


def patch_of(files: Sequence[str], line: str) -> str:
    return "".join(
        f"diff --git a/{name} b/{name}\nindex 1..2 100644\n--- a/{name}\n+++ b/{name}\n"
        f"@@ -1,2 +1,2 @@ f()\n context preempt_enable_\n-old\n+{line}\n"
        for name in files
    )


def names(found: Sequence[Address]) -> list[str]:
    return list(dict.fromkeys(address.username for address in found))


@pytest.mark.parametrize(("files", "line", "people", "lists"), CASES)
def test_maintainers_are_those_of_get_maintainer(
    files: list[str], line: str, people: str, lists: str
) -> None:
    found = find_maintainers(MAINTAINERS, Change(files=files, patch=patch_of(files, line)), TREE)
    assert names(found.people) == people.split()
    assert names(found.lists) == lists.split()


@pytest.mark.skipif(
    "SCHEDPERF_KERNEL_TREE" not in os.environ, reason="SCHEDPERF_KERNEL_TREE names no kernel tree"
)
def test_get_maintainer_prints_the_same(tmp_path: Path) -> None:
    script = Path(os.environ["SCHEDPERF_KERNEL_TREE"]) / "scripts" / "get_maintainer.pl"
    (tmp_path / "MAINTAINERS").write_text(MAINTAINERS)
    for files, line, people, lists in CASES:
        ran = subprocess.run(
            ["perl", str(script), "--no-tree", "--no-git", "--no-git-fallback", "--roles"],
            cwd=tmp_path,
            input=patch_of(files, line),
            capture_output=True,
            text=True,
            check=True,
        )
        found: dict[str, set[str]] = {"maintainer": set(), "open list": set()}
        for printed in ran.stdout.splitlines():
            each, _, role = printed.partition(" (")
            kind = role.rstrip(")").partition(":")[0].replace("supporter", "maintainer")
            name = each.rpartition("<")[2].partition("@")[0]
            found.setdefault(kind, set()).add(name)
        assert found["maintainer"] == {*people.split()}
        assert found["open list"] == {*lists.split()}


def section(*lines: str) -> str:
    return "\n".join(("HOSTILE", "M:\tEve <eve@kernel.example>", "S:\tMaintained", *lines, ""))


CHANGE = Change(files=["kernel/" + "a" * 2000], patch=patch_of(["x"], "a" * 20_000 + "!"))


@pytest.mark.parametrize(
    ("lines", "problem"),
    [
        (["K:\t(a+)+$"], r"MAINTAINERS:4: pattern K: '\(a\+\)\+\$' takes more than"),
        (["N:\t(a|aa)+!"], "MAINTAINERS:4: pattern N: .* takes more than"),
        (["F:\tkernel/" + "a*" * 100 + "b"], "MAINTAINERS:4: pattern F: .* takes more than"),
        (["N:\t(a{1000}){1000}"], "MAINTAINERS:4: pattern N: .* is invalid"),
        (["K:\t(("], "MAINTAINERS:4: pattern K: .* is invalid"),
        (["N:\t" + "(" * 5000], "MAINTAINERS:4: pattern N: .* is invalid"),
        (["N:\t\x1b]0;x\x07("], "MAINTAINERS:4: pattern N: ']0;x.' is invalid"),
        (["M:\tEve\x1b[2J <eve@kernel.example>", "F:\t*/"], "MAINTAINERS:4: mail address"),
        (["M:\tA <a@b.example>, B <b@c.example>", "F:\t*/"], "MAINTAINERS:4: invalid mail"),
    ],
)
def test_a_hostile_file_is_refused_in_one_line_and_bounded_time(
    lines: list[str], problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("schedperf.publish.mail.maintainers.LIMIT_S", 0.5)
    began_s = time.process_time()
    with pytest.raises(InputError, match=problem) as error:
        find_maintainers(section(*lines), CHANGE, TREE)
    assert time.process_time() - began_s < 10
    assert str(error.value).isprintable()
    assert len(str(error.value)) < 300


def test_a_large_file_and_commit_take_little_time() -> None:
    text = "".join(
        f"S{number}\nM:\tP <p{number}@kernel.example>\nS:\tMaintained\nF:\tdrivers/d{number}/\n"
        f"F:\tinclude/*/d{number}*\nN:\td{number}x\n"
        for number in range(2000)
    )
    files = [f"drivers/d{number}/x.c" for number in range(200)]
    began_s = time.process_time()
    found = find_maintainers(text, Change(files=files, patch=""), TREE)
    assert len(found.people) == 200
    assert time.process_time() - began_s < LIMIT_S
