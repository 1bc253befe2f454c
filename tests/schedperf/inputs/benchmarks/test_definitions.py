# SPDX-License-Identifier: GPL-2.0-or-later
"""Where numbers come from: every metric says what it is, every number the line that holds it."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from schedperf.inputs.benchmarks import Measurement, Metric, all_parsers

RECORDED = Path(__file__).parents[3] / "data" / "benchmarks"
TEXTS = sorted(path.name for path in RECORDED.glob("*.txt"))
LONGEST_SENTENCE = 180

SHORT = {
    "hackbench": "Running in process mode with 1 groups using 40 file descriptors each (== 40 "
    "tasks)\nEach sender will pass 100 messages of 100 bytes\nTime: 0.056\n",
    "imported values": "# schedperf-values/1\nhackbench.throughput\t12345.6\t\t\n",
    "kernbench": "Average Optimal load -j 8 Run (std deviation):\nElapsed Time 28.094 (0.182565)\n"
    "User Time 184.74 (0.397052)\nSystem Time 20.72 (0.18262)\n",
    "perf bench sched messaging": "# Running 'sched/messaging' benchmark:\n"
    "     Total time: 0.271 [sec]\n",
    "perf bench sched pipe": "# Running 'sched/pipe' benchmark:\n       33.561000 usecs/op\n"
    "           29796 ops/sec\n",
    "rtla": "# RTLA osnoise histogram\n# Time unit is nanoseconds (ns)\nIndex   CPU-000\n"
    "500           9\nover:         1\ncount:       10\nmin:        500\navg:     570.00\n"
    "max:       1200\n",
    "stress-ng": "stress-ng: metrc: [79] stressor       bogo ops real time  usr time  sys time   "
    "bogo ops/s     bogo ops/s\nstress-ng: metrc: [79] pipe            1714401      1.00      0.31"
    "      1.57   1713294.83      912231.80\n",
    "sysbench": "sysbench 1.0.20 (using system LuaJIT 2.1.0-beta3)\n"
    "    events per second:  5133.22\n    total time:                          1.0003s\n"
    "         avg:                                    0.39\n",
}


def measured(text: str) -> Iterator[Measurement]:
    for parser in all_parsers().values():
        if parser.claims(text):
            for item in parser.read(text.splitlines(), "stdout"):
                if isinstance(item, Measurement):
                    yield item


def check(text: str) -> None:
    lines = text.splitlines()
    for item in measured(text):
        definition = item.metric.definition
        assert definition is not None, item.metric.name
        assert definition[0].isupper() or definition[0].isdigit(), definition
        assert definition.endswith("."), definition
        assert ". " not in definition, definition
        assert len(definition) <= LONGEST_SENTENCE, definition
        assert item.line == lines[item.line_number - 1].strip(), item.metric.name


@pytest.mark.parametrize("name", TEXTS)
def test_each_number_of_a_recorded_text_has_a_definition_and_its_line(
    name: str, recorded_text: Callable[[str], str]
) -> None:
    check(recorded_text(name))


@pytest.mark.parametrize("name", SHORT)
def test_each_number_of_a_short_text_has_a_definition_and_its_line(name: str) -> None:
    assert list(measured(SHORT[name]))
    check(SHORT[name])


def test_the_texts_are_of_all_parsers() -> None:
    texts = [*SHORT.values(), *((RECORDED / name).read_text() for name in TEXTS)]
    unseen = [
        name
        for name, parser in all_parsers().items()
        if not any(parser.claims(text) for text in texts)
    ]
    assert unseen == []


def test_a_definition_describes_a_metric_and_is_no_part_of_what_it_is() -> None:
    plain = Metric(name="time", unit="s", better="lower", family="primary")
    told = Metric(
        name="time", unit="s", better="lower", family="primary", definition="Time of a lap."
    )
    assert plain == told
    assert len({plain, told}) == 1
    assert plain.definition is None


def test_each_benchmark_has_a_class_unless_any_command_may_have_printed_the_numbers() -> None:
    unknown = {parser.name for parser in all_parsers().values() if parser.class_ is None}
    assert unknown == {"imported values", "time"}
