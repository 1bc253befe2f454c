# SPDX-License-Identifier: GPL-2.0-or-later
"""Boot, power and console hooks that hang, lie or print anything, in whole nights.

More of what they do is in the tests of the engine of boots.
"""

import os
import re

import pytest

from tests.schedperf.lab.night.machines import HOOK, Lab

pytestmark = [
    pytest.mark.system,
    pytest.mark.skipif(os.geteuid() != 0, reason="mount namespaces need root"),
]

HANG = "exec sleep 2236.06"
MUCH = "head -c 1000000 /dev/zero | tr '\\0' x"
SIGNS = "printf '\\033]0;t\\007\\033[2J\\n'; printf '\\033[31mno\\n\\377\\376\\n' >&2"
# One of the boots is recorded before it.
AT_TWO = '[ "$(cat "$MACHINE/armed")" != two ] ||'
NOT_REBOOTED = "not rebooted within 2 s, it answers in the same boot"
CANNOT = "failed in record: --boot command:{hook}: the hook cannot select it"


def plant(lab: Lab, action: str, script: str, **programs: str) -> None:
    """Let the hook do something else in one of its actions; it is mended by a file."""
    condition = f'[ "$1" = {action} ] && [ ! -e "$MACHINE/mended" ]'
    lab.write_program("hook", f"if {condition}; then\n{script}\nfi", HOOK.read_text())
    machine = "boot_limit = 2\n"
    for name, text in programs.items():
        lab.write_program(name, text)
        machine += f'{name} = "{name}"\n'
    lab.write_job(boots=1, machine=machine)


def last_line(lab: Lab, status: int) -> str:
    """Run the night; return its last line, without its mark."""
    found, errors = lab.run()
    assert found == status, errors
    assert all(line.isprintable() for line in errors.splitlines())
    line = errors.splitlines()[-1]
    assert len(line) < 1000
    return re.sub(r"^(schedperf: error: |night [0-9-]+: )", "", line)


@pytest.mark.parametrize(
    ("action", "script", "said"),
    [
        ("arm", f"{MUCH} >&2; {SIGNS}; exit 3", f"{CANNOT}: xxx"),
        pytest.param("arm", HANG, f"{CANNOT}: killed after 60 s", marks=pytest.mark.slow),
    ],
)
def test_a_hook_that_does_not_select_a_kernel_ends_the_night(
    lab: Lab, action: str, script: str, said: str
) -> None:
    plant(lab, action, script)
    line = last_line(lab, 1)
    assert line.startswith(said.format(hook=lab.folder / "hook"))
    assert line.count("0 of 2 boots recorded") == 1
    # The machine is free.
    assert not (lab.machine.folder / "lib/schedperf/boots/claim.json").exists()


@pytest.mark.parametrize(
    ("script", "programs", "said", "noted"),
    [
        (
            f"{AT_TWO} exit 0",
            {"power": "exit 0", "console": f"{SIGNS}; {MUCH}"},
            f"root@lab: power-cycled, but {NOT_REBOOTED}; start it",
            f"{NOT_REBOOTED}; console: ]0;t[2J | {200 * 'x'}",
        ),
        pytest.param(
            f"{AT_TWO} {HANG}",
            {"power": HANG, "console": HANG},
            "--power {folder}/power: cycle failed (killed after 60 s); power-cycle root@lab",
            f"{NOT_REBOOTED}; console: the console program was killed after 60 s",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_a_machine_that_does_not_reboot_loses_no_run(
    lab: Lab, script: str, programs: dict[str, str], said: str, noted: str
) -> None:
    plant(lab, "reboot", script, **programs)
    line = last_line(lab, 75)
    assert line.startswith(said.format(folder=lab.folder))
    assert line.count("1 of 2 boots recorded") == 1
    (log,) = lab.out.glob("2*/night.log")
    assert f"boot 2 of 2 (new): failed: {noted}\n" in log.read_text()
    (lab.machine.folder / "mended").touch()
    assert "inconclusive" in last_line(lab, 0)
    # No run is recorded twice.
    assert [lab.count_runs(f"2*/night-{name}") for name in ("base", "new")] == [2, 2]


def test_an_entry_that_cannot_be_cancelled_loses_no_result(lab: Lab) -> None:
    plant(lab, "disarm", f"{SIGNS}; exit 1")
    assert "inconclusive" in last_line(lab, 0)
    (state,) = lab.states()
    (note,) = state["notes"]
    assert note.startswith(f"night: --boot command:{lab.folder / 'hook'}: `disarm` failed (")
    assert "make sure that none is set before root@lab boots again" in note
    assert "make sure that none" in " ".join(lab.status().stdout.split())
