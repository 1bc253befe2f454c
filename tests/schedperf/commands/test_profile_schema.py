# SPDX-License-Identifier: GPL-2.0-or-later
"""The JSON of ``schedperf profile`` and ``schedperf c2c``, and the published schemas of records."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from schedperf.cli import main
from schedperf_generators.events import PLAIN, Event, SampleType
from schedperf_generators.memory import scheduler_run
from schedperf_generators.numa import Numa
from schedperf_generators.perf_data import PerfData, write_perf_data
from schedperf_generators.samples import Sample

PUBLISHED = Path(__file__).parents[3] / "docs" / "schema"
Capture = pytest.CaptureFixture[str]


def closed(schema: Any) -> Any:
    """Return the schema with no room for keys that it does not describe."""
    if isinstance(schema, list):
        return [closed(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    parts = {key: closed(part) for key, part in schema.items()}
    has_keys = schema.get("type") == "object" and "properties" in schema
    return {"additionalProperties": False, **parts} if has_keys else parts


def follows_schema(capsys: Capture, command: str, *arguments: object) -> Any:
    assert main([command, *map(str, arguments), "--json", "-"]) == 0
    data = json.loads(capsys.readouterr().out)
    schema = json.loads((PUBLISHED / f"{command}-1.schema.json").read_text())
    jsonschema_rs.Draft202012Validator(closed(schema)).validate(data)
    return data


@pytest.mark.parametrize(
    "record",
    [
        "schedperf.evidence.c2c.record:C2cDocument",
        "schedperf.evidence.profile.document:ProfileDocument",
        "schedperf.lab.bisect.document:BisectDocument",
    ],
)
def test_the_published_schemas_are_those_that_are_made(record: str) -> None:
    command = ["-m", "schedperf.model.schema", record]
    made = json.loads(subprocess.check_output([sys.executable, *command], text=True))
    name = str(made["title"]).removeprefix("schedperf/").replace("/", "-")
    assert json.loads((PUBLISHED / f"{name}.schema.json").read_text()) == made, (
        f"write it with: python {' '.join(command)} > docs/schema/{name}.schema.json"
    )
    jsonschema_rs.meta.validate(made)


def test_profiles_of_one_side_and_of_two_follow_their_schema(
    tmp_path: Path, profiled: Any, capsys: Capture
) -> None:
    asked = PLAIN | SampleType.IDENTIFIER
    events = (
        Event(name="cycles", sample_type=asked, ids=(1,)),
        Event(name="cpu-clock", type=1, sample_type=asked, ids=(2,)),
    )
    for name, numbers in (("base", (0, 1)), ("new", (0,))):
        samples = [Sample(ip=4096, event=number, period=0) for number in numbers]
        data = PerfData(events=events, records=[*samples, Sample(ip=8192, period=7)])
        (tmp_path / f"{name}.data").write_bytes(write_perf_data(data))
    base, new = tmp_path / "base.data", tmp_path / "new.data"
    every = "event,cpu,node,comm,dso,symbol"
    assert follows_schema(capsys, "profile", base, "--sort", every)["rows"]
    assert follows_schema(capsys, "profile", base, new)["rows"]
    files = {"boots/0/layout/kallsyms": profiled.kallsyms()}
    bundles = [
        profiled.make_bundle(tmp_path / f"{hot}.tar", runs=profiled.runs(*run), files=files)
        for hot, run in ((1, (10, 11, 12)), (2, (110, 120, 115)))
    ]
    assert any(row["q"] for row in follows_schema(capsys, "profile", *bundles)["rows"])


def test_cache_lines_of_one_side_and_of_two_follow_their_schema(
    tmp_path: Path, capsys: Capture
) -> None:
    kinds: tuple[tuple[Any, Any], ...] = (
        ("base", "intel"), ("new", "intel"), ("new", "arm"), ("new", "amd"),
    )  # fmt: skip
    for side, vendor in kinds:
        memory = scheduler_run(side, numa=Numa(cpus=4, nodes=2), vendor=vendor)
        (tmp_path / f"{side}-{vendor}").write_bytes(write_perf_data(memory.perf_data()))
        data = follows_schema(capsys, "c2c", tmp_path / f"{side}-{vendor}")
        assert data["sides"][0]["lines"][0]["accesses"]
    base = tmp_path / "base-intel"
    data = follows_schema(capsys, "c2c", base, tmp_path / "new-intel")
    assert data["comparison"]["lines"]
    assert follows_schema(capsys, "c2c", base, tmp_path / "new-arm")["comparison"]["reason"]
