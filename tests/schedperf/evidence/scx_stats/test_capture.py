# SPDX-License-Identifier: GPL-2.0-or-later
"""Statistics of a scheduler become named fields, whatever a damaged or hostile capture holds."""

import json
from pathlib import Path
from typing import Any

import pytest

from schedperf.evidence.scx_stats.capture import (
    LONGEST_MEANING,
    LONGEST_NAME,
    MOST_BINS,
    MOST_FIELDS,
    MOST_SAMPLES,
    Field,
    ScxCapture,
    flatten,
    parse_scx_stats,
)
from schedperf.evidence.scx_stats.measure import amounts_of, classify_all, seconds_of
from schedperf.model.errors import InputError
from tests.schedperf.evidence.scx_stats.records import META, samples_of, write_capture

RECORDED = Path(__file__).parents[3] / "data" / "scx_stats" / "crate.json"


def parse(text: str | bytes) -> ScxCapture:
    return parse_scx_stats(text if isinstance(text, bytes) else text.encode(), "run")


def good() -> dict[str, Any]:
    content: dict[str, Any] = json.loads(write_capture(samples_of(1.0, direct=100.0)))
    return content


def test_fields_have_the_types_and_descriptions_of_the_metadata() -> None:
    [*_, last] = parse(json.dumps(good())).samples
    forms = {field.name: field.form for field in last.values}
    assert forms == {
        "at": "skipped",
        "mseq": "integer",
        "nr_cpus": "integer",
        "nr_direct": "integer",
        "nr_started": "integer",
        "proc_time": "float",
        "power_mode": "other",
        "layers.batch.index": "skipped",
        "layers.batch.util": "float",
        "layers.batch.total": "integer",
        "layers.batch.runq_lat_hist": "histogram",
        "layers.batch.cpus": "skipped",
    }
    meanings = {field.name: field.meaning for field in last.values}
    assert meanings["layers.batch.total"] == "count of sched events during the period"


def test_without_metadata_no_field_is_described() -> None:
    [*_, last] = parse(json.dumps(good() | {"meta": None})).samples
    assert {field.form for field in last.values} == {"number", "other"}


def test_the_struct_with_the_fields_of_the_answer_describes_it() -> None:
    # scx_lavd has two structs with "top".
    meta = {
        "SchedSample": {"top": "true", "fields": {"mseq": {"datum": "string"}, "pid": {}}},
        "SysStats": {"top": "true", "fields": {"mseq": {"datum": "u64"}}},
        "Other": {"fields": {"mseq": {"datum": "float"}}},
    }
    assert list(flatten({"mseq": 1}, meta)) == [Field("mseq", "integer", "")]


def test_samples_of_the_crate_are_read() -> None:
    capture = parse(RECORDED.read_bytes())
    # Several runs: one has too few increases to know a total.
    verdicts = classify_all([capture] * 3)
    kinds = {field: verdict.kind for field, verdict in verdicts.items() if verdict.kind}
    by_name = {field.name: kind for field, kind in kinds.items()}
    assert by_name == {
        "nr_direct_dispatches": "period",
        "since_start": "total",
        "nr_cpus": "level",
        "layers.batch.util": "level",
        "layers.batch.total": "period",
        "layers.batch.l_runq_lat_hist": "period",
    }
    # The server counts 1000 events per second, and three dispatches for each.
    amounts = {field.name: amount for field, amount in amounts_of(capture, kinds).items()}
    seconds = seconds_of(capture)
    assert amounts["since_start"] == pytest.approx(1000.0 * seconds, abs=2.0)
    assert amounts["layers.batch.total"] == pytest.approx(1000.0 * seconds, abs=2.0)
    assert amounts["nr_direct_dispatches"] == 3.0 * amounts["layers.batch.total"]
    assert amounts["nr_cpus"] == 2.0
    assert amounts["layers.batch.util"] == pytest.approx(40.0)


@pytest.mark.parametrize("end", [0, 1, 100, -2])
def test_cut_files_are_refused_in_one_line(end: int) -> None:
    with pytest.raises(InputError, match=r"^run: invalid JSON: [^\n]+$"):
        parse(write_capture(samples_of(1.0, direct=100.0))[:end])


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({"schema": "schedperf/scx_stats/9"}, r"\$\.schema is"),
        ({"meta": []}, r"\$\.meta is"),
        ({"samples": {}}, r"\$\.samples is"),
        ({"samples": [{"ns": -1, "when": "before", "stats": {}}]}, r"samples\[0\]\.ns is -1"),
        ({"samples": [{"ns": 1, "when": "later", "stats": {}}]}, r"samples\[0\]\.when is"),
        ({"samples": [{"ns": 1, "when": "before", "stats": [1]}]}, r"samples\[0\]\.stats is"),
        ({"samples": []}, "no sample before and after the run"),
        ({"samples": [], "failure": "no answer\n\x1b[31m within 5 s"}, "no answer .*within 5 s; "),
        ({"failure": 7}, r"\$\.failure is 7"),
        ({"left_out": -1}, r"\$\.left_out is -1"),
    ],
)
def test_damaged_files_are_refused_in_one_line(changed: dict[str, Any], problem: str) -> None:
    with pytest.raises(InputError, match=problem) as raised:
        parse(json.dumps(good() | changed))
    assert "\n" not in str(raised.value)
    assert "\x1b" not in str(raised.value)


def test_times_must_increase() -> None:
    content = good()
    content["samples"][1]["ns"] = content["samples"][0]["ns"]
    with pytest.raises(InputError, match="not in the order of time"):
        parse(json.dumps(content))


def test_too_many_samples_are_refused() -> None:
    content = good()
    content["samples"] = [content["samples"][0]] * (MOST_SAMPLES + 1)
    with pytest.raises(InputError, match=r"samples"):
        parse(json.dumps(content))


def test_too_many_fields_are_refused() -> None:
    content = good()
    content["samples"][0]["stats"] = {str(each): 1 for each in range(MOST_FIELDS + 1)}
    with pytest.raises(InputError, match=r"samples\[0\] has more than"):
        parse(json.dumps(content))


def test_deep_answers_are_refused() -> None:
    text = write_capture([]).replace('"samples": []', f'"samples": {"[" * 40}{"]" * 40}')
    with pytest.raises(InputError, match="nested too deeply"):
        parse(text)


def test_names_and_descriptions_become_one_short_line() -> None:
    meta = {"Top": {"fields": {"x": {"datum": "u64", "desc": "a\n\x1b[31m" + "b" * 500}}}}
    [field] = flatten({"x": 1}, meta)
    assert "\n" not in field.meaning
    assert "\x1b" not in field.meaning
    assert len(field.meaning) == LONGEST_MEANING
    [field] = flatten({"y" * 500: {"\n": 1}}, {})
    assert len(field.name) == LONGEST_NAME


@pytest.mark.parametrize(
    "meta",
    [
        {"Top": None},
        {"Top": {"fields": 7}},
        {"Top": {"fields": {"x": "u64"}}},
        {"Top": {"fields": {"x": {"datum": ["u64"]}}}},
        {"Top": {"fields": {"x": {"datum": {"struct": 7}}}}},
        {"Top": {"fields": {"x": {"datum": {"struct": "Missing"}}}}},
        {"Top": {"fields": {"x": {"dict": "u64"}}}},
        {"Top": {"fields": {"x": {"array": {"struct": "Top"}}}}},
        {"Top": {"fields": {"x": {"user": 3, "desc": 4}}}},
    ],
)
@pytest.mark.parametrize(
    "value", [1, 1.5, None, True, "text", [1, "2"], {"x": 1}, {"x": {"x": 2}}, [], {}]
)
def test_damaged_metadata_describe_nothing(meta: dict[str, Any], value: object) -> None:
    for field in flatten({"x": value}, meta):
        assert field.form in ("number", "other")


@pytest.mark.parametrize("value", [[1, None], [-1, 5], [], [1] * (MOST_BINS + 1), ["x"], [True]])
def test_a_histogram_has_counts_only(value: list[object]) -> None:
    [(field, counts)] = flatten({"runq_lat_hist": value}, {"Layer": META["LayerStats"]}).items()
    assert (field.form, counts) == ("histogram", None)
