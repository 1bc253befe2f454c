# SPDX-License-Identifier: GPL-2.0-or-later
"""Commands on several lines: a shell reads them as the one that they were."""

import shlex
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedperf_reports.blocks import Item, Items
from schedperf_reports.text.commands import wrap_command
from schedperf_reports.text.markdown import draw_section as draw_markdown
from schedperf_reports.text.terminal import draw_section, write_text

COMMAND = (
    "schedperf ab --base base.tar --new new.tar --base-setup 'echo 0 >/proc/x && ./enter 0 $$' "
    '-n 8 -- sh -c "echo \\"a  b\\"" it\\\'s'
)


@pytest.mark.parametrize("width", [10, 30, 40, 78, 200])
def test_a_shell_reads_the_same_words(width: int) -> None:
    lines = "\n".join(wrap_command(COMMAND, width))
    script = f'words() {{ printf \'%s\\n\' "$#" "$@"; }}\nwords {lines}'
    said = subprocess.run(["/bin/sh", "-c", script], capture_output=True, text=True, check=True)
    whole = subprocess.run(
        ["/bin/sh", "-c", script.replace(lines, COMMAND)],
        capture_output=True,
        text=True,
        check=True,
    )
    # $$ stands within single quotes, so it is no number of a process here.
    assert said.stdout == whole.stdout


@given(st.lists(st.text(st.characters(codec="ascii", exclude_categories=["Cc"]))), st.integers(4))
def test_quoted_words_come_back(words: list[str], width: int) -> None:
    lines = "\n".join(wrap_command(shlex.join(words), width))
    assert shlex.split(lines.replace("\\\n", "")) == words


@given(st.text(), st.integers(4, 100))
def test_no_letter_of_any_text_is_lost(text: str, width: int) -> None:
    joined = " ".join(line.removesuffix(" \\") for line in wrap_command(text, width))
    assert "".join(joined.replace("\\", "").split()) == "".join(text.replace("\\", "").split())


def test_a_text_shows_commands_below_their_item() -> None:
    items = Items(items=(Item(text="record more", commands=("a 'b  c'", "d" * 30)),), ordered=True)
    drawn = write_text(draw_section([items], None, 40, see="--all"), 40, colour=False)
    assert drawn.splitlines() == ["  1. record more", "  a 'b  c'", "  " + "d" * 30]


def test_a_word_that_is_wider_than_the_terminal_stays_whole() -> None:
    items = Items(items=(Item(text="x", commands=(f"cat {'d' * 50} e",)),))
    drawn = write_text(draw_section([items], None, 40, see="--all"), 40, colour=False)
    assert drawn.splitlines() == ["  - x", "  cat \\", "    " + "d" * 50 + " \\", "    e"]


def test_a_command_of_strangers_drives_no_terminal_and_ends_no_code() -> None:
    items = Items(items=(Item(text="x", commands=("a\x1b[31m\n```\n# b",)),))
    drawn = write_text(draw_section([items], None, 40, see="--all"), 40, colour=False)
    assert drawn.splitlines() == ["  - x", "  a[31m ``` # b"]
    [text] = draw_markdown([items], None)
    assert text.splitlines() == ["- x", "  ````sh", "  a[31m ``` # b", "  ````"]
