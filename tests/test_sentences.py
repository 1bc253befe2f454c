# SPDX-License-Identifier: GPL-2.0-or-later
"""scripts/sentences.py: it extracts what users read and draws the same sentences for a seed."""

import subprocess
import sys
from pathlib import Path

import pytest

from scripts import sentences

PROGRAM = Path(__file__).parents[1] / "scripts" / "sentences.py"

MODULE = '''
"""Parse the output of a program."""

@click.command()
@click.option("--jobs", help="number of jobs that run at once")
def command(count):
    """Write the result to a file.

    \\b
    Examples of how it is called
    """
    """a b c"""
    raise Failed(f"{path}: cannot read {count} of the files"
                 " that it names")

ENDINGS = {"words of another program": "its name in schedperf"}

def refuse():
    raise Skipped("no counter on this machine", f"record on {machine}")
    return "the first half of the list: " + " and ".join(halves)

def other():
    """Return what no user of the program reads."""
    return re.compile(r"one two \\d three four")
'''


def test_strings_of_python() -> None:
    texts = [text.strip() for _, text in sorted(sentences.of_python(MODULE))]
    assert [text for text in texts if sentences.is_prose(text)] == [
        "number of jobs that run at once",
        "Write the result to a file.",
        "{path}: cannot read {count} of the files that it names",
        "no counter on this machine; record on {machine}",
        "the first half of the list: {' and '.join(halves)}",
    ]


def test_documents_without_code_headings_and_comments() -> None:
    text = (
        "# A heading of words\n\nThe first sentence is\non 2 lines. Here is one more sentence.\n"
        "* an item of a list\n\n<!-- not run: it needs two kernels -->\n"
        "```console\n$ not a sentence of it\n```\n\n"
        "| first cell of the table | second cell of the table |\n"
    )
    assert [
        (line, part)
        for line, paragraph in sentences.of_document(text)
        for part in sentences.split(paragraph)
        if sentences.is_prose(part)
    ] == [
        (3, "The first sentence is on 2 lines."),
        (3, "Here is one more sentence."),
        (5, "an item of a list"),
        (12, "first cell of the table"),
        (12, "second cell of the table"),
    ]


def test_texts_of_templates_and_scripts() -> None:
    template = (
        '{# not for the reader #}\n<p title="what the column means">the {{ n }} rows of a table</p>'
    )
    assert [text for _, text in sentences.of_template(template)] == [
        "what the column means",
        "the {{ n }} rows of a table",
    ]
    script = "// a comment of four words\nsay(`go to ${rows[0]} of the table`);"
    assert list(sentences.of_script(script)) == [(2, "go to ${rows[0]} of the table")]


def test_a_pronoun_stays_with_the_sentence_that_it_refers_to() -> None:
    assert sentences.split("The runs vary. They need a CI. A run is short.") == [
        "The runs vary. They need a CI.",
        "A run is short.",
    ]
    assert sentences.split("Two tests (*J. Roy. Stat. Soc.* 57) agree. Others do not.") == [
        "Two tests (*J. Roy. Stat. Soc.* 57) agree.",
        "Others do not.",
    ]


@pytest.mark.parametrize(
    "text",
    [
        "one two three",
        "<b>one two three four",
        "{a} {b} {c} {d}",
        "`p t`, `q`, `r s`",
        "one two three four;",
    ],
)
def test_no_prose(text: str) -> None:
    assert not sentences.is_prose(text)


def run(*arguments: str) -> list[str]:
    done = subprocess.run([sys.executable, PROGRAM, *arguments], capture_output=True, check=True)
    return done.stdout.decode().splitlines()


def test_a_seed_determines_the_draw() -> None:
    # All files take seconds to read, and a draw from some of them is made in the same way.
    some = ("-n", "20", "docs", "schedperf/stats", "templates")
    drawn = run("--seed", "1a2b3c", *some)
    assert len(drawn) == 20
    assert run("--seed", "1a2b3c", *some) == drawn
    assert run("--seed", "other", *some) != drawn


def test_all_files_are_read_unless_some_are_named() -> None:
    folders = {line.split()[1].split("/")[0] for line in run("-n", "0")}
    assert {"schedperf", "reports", "collectors", "templates", "docs"} <= folders


def test_all_sentences_of_some_files() -> None:
    lines = run("-n", "0", "docs/vm.md", "docs/tables.md")
    assert {line.split()[1].split(":")[0] for line in lines} == {"docs/vm.md", "docs/tables.md"}
    assert len(lines) > 50
