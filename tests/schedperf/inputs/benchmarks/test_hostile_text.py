# SPDX-License-Identifier: GPL-2.0-or-later
"""Every parser against text that no benchmark printed.

The samples are those of the parsers' docstrings and the recorded ones that a parser claims, so a
new parser is tested here without a word.
"""

import math
import random
import re
import time
from collections.abc import Iterable, Sequence

import pytest

from schedperf.inputs.benchmarks import (
    BadLine,
    BenchmarkParser,
    Execution,
    Measurement,
    all_parsers,
)
from schedperf.model.numbers import LARGEST_NUMBER
from tests.schedperf.inputs.benchmarks.samples import docstring_samples, samples

SEED = 20261121
VARIANTS = 100
ENORMOUS_BYTES = 250_000
# A parser reads this within 1 s on a slow machine; one that tries all ways to match never does.
CPU_LIMIT_S = 6.0
MIB = 1 << 20
STRETCHED = 100_000
# Of a text that has more lines, so many are stretched.
MOST_STRETCHED = 20
# Of the lines with results, so many are repeated.
MOST_RESULT_LINES = 3

# A message is one line beside others; reports strip its control characters.
LONGEST_PROBLEM = 500

NASTY_NUMBERS = (
    "nan", "-inf", "1e999", "1e308", "1e150", "-1", "0", "", "1_000", "0x10", "\u0661\u0662",
    "9" * 5000, "1e" + "9" * 5000, "%s%n", "{0}", "--1", "1.2.3", "\x00", "\x1b[31m1", "\u202e7",
)  # fmt: skip
NASTY_CHARACTERS = "\x00\x1b\r\t\x0b\x85\u2028\u202e\ud800\ufffd =:,;|%()[]{}/\\'\"-+.eE09"


SAMPLES = [
    pytest.param(parser, text, id=f"{name}-{number}")
    for name, parser in all_parsers().items()
    for number, text in enumerate(sample.text for sample in samples(parser))
]
every_sample = pytest.mark.parametrize(("parser", "text"), SAMPLES)
every_parser = pytest.mark.parametrize("parser", all_parsers().values(), ids=all_parsers())


def check(items: Iterable[Measurement | BadLine]) -> None:
    for item in items:
        if isinstance(item, BadLine):
            assert len(item.problem.splitlines()) == 1
            assert len(item.problem) <= LONGEST_PROBLEM
        else:
            assert abs(item.value) <= LARGEST_NUMBER
            assert item.resolution is None or 0.0 <= item.resolution < math.inf
            assert item.line_number >= 1


def read(parser: BenchmarkParser, text: str) -> None:
    """Parse a text whether the parser claims it or not, and check all that comes of it."""
    parser.claims(text)
    if parser.find_failure is not None:
        parser.find_failure(text, Execution())
    lines = text.splitlines()
    check(parser.read(lines, "stdout"))
    if parser.latencies is not None:
        list(parser.latencies(lines, "stdout"))


def read_in_time(parser: BenchmarkParser, text: str) -> None:
    began_s = time.process_time()
    read(parser, text)
    assert time.process_time() - began_s < CPU_LIMIT_S


def damage(text: str, chance: random.Random) -> str:
    """Change a few characters, or lose, repeat and exchange lines."""
    if chance.random() < 0.5:
        characters = list(text)
        for _ in range(chance.randint(1, 8)):
            characters[chance.randrange(len(characters))] = chance.choice(NASTY_CHARACTERS)
        return "".join(characters)
    lines = text.splitlines(keepends=True)
    kept = [line for line in lines if chance.random() > 0.2]
    repeated = [line for line in kept for _ in range(chance.choice((1, 1, 1, 2)))]
    if chance.random() < 0.3:
        chance.shuffle(repeated)
    return "".join(repeated)


@every_parser
def test_the_docstring_has_a_sample_that_is_claimed(parser: BenchmarkParser) -> None:
    texts = docstring_samples(parser)
    assert texts
    for text in texts:
        assert parser.claims(text)
        assert any(isinstance(item, Measurement) for item in parser.read(text.splitlines(), ""))


@every_parser
def test_no_text_is_claimed_by_nobody(parser: BenchmarkParser) -> None:
    for text in ("", "\n", " ", "\x00", "\n" * 1000):
        assert not parser.claims(text)
        assert list(parser.read(text.splitlines(), "stdout")) == []


@every_sample
def test_output_that_ends_anywhere_is_read_as_far_as_it_goes(
    parser: BenchmarkParser, text: str
) -> None:
    for end in range(0, len(text), max(1, len(text) // VARIANTS)):
        read(parser, text[:end])


@every_sample
def test_damaged_output_gives_numbers_or_bad_lines(parser: BenchmarkParser, text: str) -> None:
    chance = random.Random(SEED)  # noqa: S311 # no secret depends on it
    for _ in range(VARIANTS):
        read(parser, damage(text, chance))


@every_sample
def test_no_printed_number_is_trusted(parser: BenchmarkParser, text: str) -> None:
    for number in NASTY_NUMBERS:
        read(parser, re.sub(r"\d+(?:\.\d+)?", number, text))


@every_sample
def test_a_line_of_any_length_is_read_in_time(parser: BenchmarkParser, text: str) -> None:
    lines = text.splitlines()
    chosen = lines[:: 1 + len(lines) // MOST_STRETCHED]
    stretched: Sequence[str] = (
        *(re.sub(" +", " " * STRETCHED, line, count=1) for line in chosen),
        *(re.sub(r"\d", "7" * STRETCHED, line, count=1) for line in chosen),
        *(re.sub("[a-z]", "a" * STRETCHED, line, count=1) for line in chosen),
    )
    read_in_time(parser, "\n".join([*lines, *stretched]))


@every_parser
@pytest.mark.parametrize("blank", ["\n", " ", "\n "], ids=repr)
def test_a_mebibyte_of_blanks_is_read_in_time(parser: BenchmarkParser, blank: str) -> None:
    read_in_time(parser, blank * (MIB // len(blank)))


@every_parser
def test_a_mebibyte_of_one_line_of_its_output_is_read_in_time(parser: BenchmarkParser) -> None:
    text = samples(parser)[0].text
    results = {
        item.line
        for item in parser.read(text.splitlines(), "stdout")
        if isinstance(item, Measurement)
    }
    for line in {text.splitlines()[0], *sorted(results)[:MOST_RESULT_LINES]}:
        for repeated in (line, f"{line}\n"):
            read_in_time(parser, repeated * (MIB // len(repeated)))


@every_parser
def test_much_repeated_output_is_read_in_time(parser: BenchmarkParser) -> None:
    text = samples(parser)[0].text
    read_in_time(parser, text * (ENORMOUS_BYTES // len(text)))


@every_parser
@pytest.mark.parametrize("junk", [" ", "9", "1 ", "a,", "=", "\n1", "\n "])
def test_much_junk_behind_the_output_is_read_in_time(parser: BenchmarkParser, junk: str) -> None:
    read_in_time(parser, samples(parser)[0].text + junk * (ENORMOUS_BYTES // len(junk)))
