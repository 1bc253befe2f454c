# SPDX-License-Identifier: GPL-2.0-or-later
import re
import shutil
import struct
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedperf_collectors.machine.elf_plt import AARCH64, X86_64, PltEntry, plt_entries
from schedperf_collectors.machine.elf_symbols import read_functions

SOURCE = """
#include <stdlib.h>
#include <string.h>
#include <time.h>
int main(int count, char **words) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return abs(rand()) + strlen(words[0]) + (int)now.tv_sec + atoi(words[count - 1]);
}
"""


@pytest.mark.skipif(not shutil.which("gcc"), reason="needs gcc")
@pytest.mark.skipif(not shutil.which("objdump"), reason="needs objdump")
@pytest.mark.parametrize(
    "options", [(), ("-fcf-protection=full", "-Wl,-z,ibtplt"), ("-Wl,-z,now",)]
)
def test_entries_of_a_program_have_the_names_that_objdump_gives(
    options: tuple[str, ...], tmp_path: Path
) -> None:
    (tmp_path / "a.c").write_text(SOURCE)
    program = tmp_path / "a.out"
    build = ["gcc", "-O1", "-fno-builtin", *options, "-o", str(program), str(tmp_path / "a.c")]
    if subprocess.run(build, capture_output=True).returncode:
        pytest.skip(f"gcc cannot build it with {' '.join(options)}")
    dump = subprocess.run(["objdump", "-d", program], capture_output=True, text=True, check=True)
    # In the text of a small program addresses are offsets in the file.
    expected = {
        int(address, 16): name
        for address, name in re.findall(r"^(\w+) <([^>]+@plt)>:$", dump.stdout, re.MULTILINE)
    }
    functions = read_functions(program).functions
    found = {start: name for start, _, name in functions if name.endswith("@plt")}
    assert found == expected
    assert {"rand@plt", "clock_gettime@plt"} <= set(found.values())


def test_entries_of_arm64_point_to_their_slots() -> None:
    # The header, an entry, and one with a landing pad; of GNU ld, at 0x5c0, slots at 0x1ffa8.
    header = (0xA9BF7BF0, 0xF00000F0, 0xF947CE11, 0x913E6210, 0xD61F0220)
    entry = (0xF00000F0, 0xF947D211, 0x913E8210, 0xD61F0220)
    landing = (0xD503245F, 0xF00000F0, 0xF947D611, 0x913EA210, 0xD61F0220, 0xD503201F)
    code = struct.pack("<15I", *header, *entry, *landing)
    assert list(plt_entries(AARCH64, code, 0x5C0, 0)) == [
        PltEntry(0x5C4, 16, 0x1FF98),
        PltEntry(0x5D4, 16, 0x1FFA0),
        PltEntry(0x5E4, 24, 0x1FFA8),
    ]


@given(
    st.sampled_from((X86_64, AARCH64, 0)), st.binary(max_size=200), st.sampled_from((0, 1, 8, 16))
)
def test_any_bytes_are_entries_of_their_section_or_none(
    machine: int, code: bytes, entry_bytes: int
) -> None:
    for entry in plt_entries(machine, code, 0x1000, entry_bytes):
        assert 0x1000 <= entry.address < 0x1000 + len(code)
        assert 0 <= entry.slot < 1 << 64
