# SPDX-License-Identifier: GPL-2.0-or-later
"""fio: the real program's text and JSON, recorded output, old versions, and damage."""

from collections.abc import Callable
from functools import partial

import pytest

from schedperf.inputs.benchmarks import BadLine, Measurement

ParseText = Callable[[str, str], list[Measurement | BadLine]]
Values = Callable[[str], dict[str, float]]
Text = Callable[[str], str]
Run = Callable[..., str]

JOB = "job: (groupid=0, jobs=1): err= 0: pid=1: Fri Nov 27 10:48:13 2026\n"
PERCENTILES = ["p50", "p90", "p95", "p99", "p99.9", "p99.99"]


@pytest.fixture
def measured(parse_values: Callable[[str, str], dict[str, float]]) -> Values:
    return partial(parse_values, "fio")


def names(found: list[Measurement | BadLine]) -> set[str]:
    assert not [item for item in found if isinstance(item, BadLine)]
    return {item.metric.name for item in found if isinstance(item, Measurement)}


@pytest.mark.system
def test_text_and_json_of_the_real_program_have_the_same_metrics(
    run_program: Run, parse_text: ParseText
) -> None:
    options = ("--rw=randrw", "--size=256k", "--bs=4k", "--ioengine=psync", "--filename=data")
    jobs = ("--name=one", "--numjobs=2", *options, "--name=two", *options)
    text = parse_text("fio", run_program("fio", *jobs))
    json = parse_text("fio", run_program("fio", *jobs, "--output-format=json"))
    both = parse_text("fio", run_program("fio", *jobs, "--output-format=normal,json"))
    assert names(text) == names(json) == names(both)
    assert len(both) == len(json)
    latencies = {f"{time} {name}" for time in ("clat", "lat") for name in ("average", "max")}
    latencies |= {f"clat {percent}" for percent in PERCENTILES}
    assert names(json) == {
        f"fio {job} {direction} {name}"
        for job in ("one", "two")
        for direction in ("read", "write")
        for name in ("IOPS", "bandwidth", *latencies)
    }


class TestRecordings:
    def test_clones_of_a_job_are_summed(self, parse_text: ParseText, recorded_text: Text) -> None:
        text = recorded_text("fio.txt")
        printed = [
            float(line.partition("IOPS=")[2].partition(",")[0].removesuffix("k"))
            * (1000.0 if "k," in line else 1.0)
            for line in text.splitlines()
            if line.startswith("  read: IOPS=")
        ]
        assert len(printed) > 1
        rates = [
            item.value
            for item in parse_text("fio", text)
            if isinstance(item, Measurement) and item.metric.name == "fio reader read IOPS"
        ]
        assert rates == [pytest.approx(sum(printed))]

    def test_the_latencies_of_syncs_are_not_those_of_requests(
        self, measured: Values, recorded_text: Text
    ) -> None:
        found = measured(recorded_text("fio-fsync.txt"))
        assert found["log write IOPS"] == 727.0
        assert found["log write clat p99"] == pytest.approx(19072e-9)

    def test_json_is_exact(self, measured: Values, recorded_text: Text) -> None:
        found = measured(recorded_text("fio-json.txt"))
        assert found["mixed read IOPS"] == 3241.830065
        assert found["mixed write bandwidth"] == 14135215.0


class TestTexts:
    def test_prefixes(self, measured: Values) -> None:
        text = JOB + (
            "  write: IOPS=12.5k, BW=48.8MiB/s (51.2MB/s)(488MiB/10001msec); 0 zone resets\n"
            "    clat (nsec): min=900, max=21k, avg=1840.17, stdev=445.37\n"
        )
        assert measured(text) == {
            "job write IOPS": 12500.0,
            "job write bandwidth": pytest.approx(48.8 * 2**20),
            "job write clat max": pytest.approx(21e-6),
            "job write clat average": pytest.approx(1.84017e-6),
        }

    def test_the_latencies_of_a_priority_are_not_those_of_all_requests(
        self, measured: Values
    ) -> None:
        text = JOB + (
            "  read: IOPS=10, BW=40.0KiB/s (41.0kB/s)(4KiB/1msec)\n"
            "    clat percentiles (usec):\n     | 50.00th=[  322], 99.00th=[ 4113],\n"
            "    clat prio 1/0 (51.17% of IOs) percentiles (usec):\n"
            "     | 50.00th=[  326], 99.00th=[ 1483],\n"
        )
        assert measured(text)["job read clat p99"] == pytest.approx(4113e-6)

    def test_version_2(self, measured: Values) -> None:
        text = JOB + "  read : io=4096.0KB, bw=71859KB/s, iops=17964, runt=    57msec\n"
        assert measured(text) == {
            "job read IOPS": 17964.0,
            "job read bandwidth": 71859.0 * 1024,
        }

    def test_each_fio_is_a_measurement(self, parse_text: ParseText) -> None:
        text = f"fio-3.33\n{JOB}  read: IOPS=10, BW=40.0KiB/s (41.0kB/s)(4KiB/1msec)\n\n"
        found = parse_text("fio", text + text)
        rates = [item.value for item in found if isinstance(item, Measurement)]
        assert rates == [10.0, 40960.0, 10.0, 40960.0]

    def test_a_damaged_number_costs_only_itself(self, parse_text: ParseText) -> None:
        text = JOB + "  read: IOPS=?, BW=40.0KiB/s (41.0kB/s)(4KiB/1msec)\n"
        found = parse_text("fio", text)
        assert found[0] == BadLine(problem="stdout:2: fio job read IOPS: invalid number '?'")
        assert isinstance(found[1], Measurement)

    def test_json_that_ends_early_is_a_bad_line(
        self, parse_text: ParseText, recorded_text: Text
    ) -> None:
        text = recorded_text("fio-json.txt")
        [found] = parse_text("fio", text[: text.index('      "write"')])
        assert found == BadLine(problem="stdout:1: invalid JSON: ends early; record again")
