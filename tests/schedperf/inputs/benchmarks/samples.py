# SPDX-License-Identifier: GPL-2.0-or-later
"""Find the output of every parser's program: the docstrings' samples and the recorded files."""

import ast
import doctest
import importlib
import re
import shlex
from dataclasses import dataclass
from pathlib import Path

from schedperf.inputs.benchmarks import BenchmarkParser, Execution

RECORDED = Path(__file__).resolve().parents[3] / "data" / "benchmarks"

# A row of the table in the README: file, program, command.
ROW = re.compile(r"^\| `(\S+)` \| [^|]+ \| (?:`([^`]+)`)?", re.MULTILINE)


@dataclass(frozen=True, kw_only=True, slots=True)
class Sample:
    """What one run printed.

    :param name: of the recorded file; "docstring" and a number for others
    """

    name: str
    text: str
    execution: Execution


def docstring_samples(parser: BenchmarkParser) -> list[str]:
    module = importlib.import_module(parser.parse.__module__)
    examples = doctest.DocTestParser().get_examples(module.__doc__ or "")
    return [
        ast.literal_eval(example.source.removeprefix("text = "))
        for example in examples
        if example.source.startswith("text = ")
    ]


def command_of(name: str) -> tuple[str, ...]:
    """Return the words of the command in the README; none if it describes the file in words."""
    commands = dict(ROW.findall((RECORDED / "README.md").read_text()))
    return tuple(shlex.split(commands.get(name, "").replace("\\|", "|")))


def samples(parser: BenchmarkParser) -> list[Sample]:
    """Return the samples of a parser, and the recorded ones that it claims."""
    of_docstring = [
        Sample(name=f"docstring {number}", text=text, execution=Execution())
        for number, text in enumerate(docstring_samples(parser))
    ]
    recorded = [
        Sample(name=path.name, text=text, execution=Execution(command=command_of(path.name)))
        for path in sorted(RECORDED.glob("*.txt"))
        if parser.claims(text := path.read_text())
    ]
    return of_docstring + recorded
