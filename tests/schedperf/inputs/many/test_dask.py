# SPDX-License-Identifier: GPL-2.0-or-later
"""Dask workers do what processes do; without workers there is one line, within a limit of time."""

import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from bench.history.cluster import cluster
from schedperf.history.store.directory import open_directory
from schedperf.inputs.many import dask
from schedperf.inputs.many.lost import Lost
from schedperf.inputs.many.workers import start_workers
from schedperf.model.errors import InputError
from tests.clusters import die_at_seven, die_once, double, fail_at_seven
from tests.histories import dump, make_night, make_recording, night_name

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("dask")]
RunCli = Callable[..., subprocess.CompletedProcess[str]]
MANY = range(40)


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Start two workers."""
    with cluster(tmp_path_factory.mktemp("cluster"), 2) as started:
        yield started.address


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Do not depend on how busy the machine is."""
    monkeypatch.setattr(dask, "ANSWER_S", 120.0)


def refusal(address: str) -> str:
    with pytest.raises(InputError) as error, start_workers(1, address):
        pass
    text = str(error.value)
    assert "\n" not in text
    return text


def test_results_come_in_the_order_of_the_items(address: str) -> None:
    with start_workers(len(MANY), address) as workers:
        assert list(workers.map(double, MANY)) == [(each, 2 * each) for each in MANY]


def test_an_item_that_kills_its_workers_does_not_cost_the_others(address: str) -> None:
    with start_workers(len(MANY), address) as workers:
        found = dict(workers.map(die_at_seven, MANY))
    assert isinstance(found.pop(7), Lost)
    assert found == {each: 2 * each for each in MANY if each != 7}


def test_an_error_of_the_function_is_raised(address: str) -> None:
    with start_workers(len(MANY), address) as workers, pytest.raises(OSError, match="seven"):
        list(workers.map(fail_at_seven, MANY))


def test_a_worker_that_dies_once_costs_nothing(address: str, tmp_path: Path) -> None:
    tasks = [(each, str(tmp_path / "mark")) for each in MANY]
    with start_workers(len(MANY), address) as workers:
        assert [result for _, result in workers.map(die_once, tasks)] == [2 * each for each in MANY]
    assert (tmp_path / "mark").exists()


def test_workers_add_what_processes_add(
    address: str, tmp_path: Path, run_cli: RunCli, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A bundle that cannot be read is one line, and does not cost the others of its batch."""
    monkeypatch.chdir(tmp_path)
    for number in range(8):
        make_night(tmp_path / "nights", number)
    (tmp_path / "bundles").mkdir()
    make_recording(tmp_path / "bundles" / "a.tar", night_name(20), "new", [[0.6]])
    (tmp_path / "bundles" / "b.tar").write_bytes(b"no tar")
    make_recording(tmp_path / "bundles" / "c.tar", night_name(21), "new", [[0.6]])
    inputs = ("nights", f"file:{tmp_path}/bundles/c.tar", "bundles")
    stores = {}
    for name, options in (("here", ()), ("there", ("--scheduler", address))):
        done = run_cli("history", "add", "--store", name, *options, *inputs)
        assert done.returncode == 2
        assert f"{name}: 18 added, 1 already in the store, 8 outcomes" in done.stdout
        [line] = [each for each in done.stderr.splitlines() if "b.tar" in each]
        assert "invalid tar archive" in line
        assert run_cli("history", "check", "--store", name).returncode == 0
        stores[name] = dump(open_directory(tmp_path / name))
    assert stores["here"] == stores["there"]


def test_workers_compare_what_processes_compare(
    address: str, tmp_path: Path, run_cli: RunCli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    night = make_night(tmp_path, 0).name
    (tmp_path / "bad.tar").write_bytes(b"no tar")
    pair = f"{night}/night-base.tar,{night}/night-new.tar"
    (tmp_path / "pairs.csv").write_text(
        f"base,new\n{pair}\nbad.tar,{night}/night-new.tar\n{pair}\n"
    )
    command = ("compare", "--many", "pairs.csv")
    here = run_cli(*command, "--output", "here")
    there = run_cli(*command, "--output", "there", "--scheduler", address)
    assert (there.returncode, there.stdout, there.stderr) == (2, here.stdout, here.stderr)
    for name in ("1.json", "3.json"):
        assert (tmp_path / "here" / name).read_text() == (tmp_path / "there" / name).read_text()
    assert not (tmp_path / "there" / "2.json").exists()


def test_a_scheduler_that_does_not_answer_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dask, "ANSWER_S", 2.0)
    # Nothing uses port 1.
    text = refusal("tcp://127.0.0.1:1")
    assert text.startswith("tcp://127.0.0.1:1: no Dask scheduler: no answer within 2 s")


def test_an_invalid_address_is_one_line() -> None:
    assert "missing port number" in refusal("controller")


def test_a_scheduler_without_workers_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with cluster(tmp_path, 0) as started:
        # Within which a busy scheduler answers, too.
        monkeypatch.setattr(dask, "ANSWER_S", 10.0)
        assert refusal(started.address).startswith(f"{started.address}: the scheduler has no wor")


def test_workers_with_another_version_are_refused(tmp_path: Path) -> None:
    package = tmp_path / "other" / "schedperf-9.9.dist-info"
    package.mkdir(parents=True)
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: schedperf\nVersion: 9.9\n")
    with cluster(tmp_path, 1, path=[package.parent]) as started:
        text = refusal(started.address)
    assert " has schedperf 9.9 (expected " in text


def test_a_worker_of_another_version_that_comes_later_is_refused(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with start_workers(1, address) as workers:
        monkeypatch.setattr(dask, "__version__", "9.9")
        with pytest.raises(InputError, match=r"a new worker has schedperf .* \(expected 9\.9\)"):
            list(workers.map(double, MANY))


def test_a_closed_client_has_nothing_to_cancel(address: str) -> None:
    from distributed import Client  # noqa: PLC0415 # an extra

    make: Any = Client
    client = make(address, set_as_default=False)
    cluster_of = dask.Cluster(client, address, 1)
    started = cluster_of.start(double, [1, 2])
    client.close()
    cluster_of.drop(started)


def test_a_scheduler_that_ends_is_one_line(tmp_path: Path) -> None:
    with ExitStack() as stack:
        address = stack.enter_context(cluster(tmp_path, 1)).address
        with start_workers(1, address) as workers:
            stack.close()
            with pytest.raises(InputError, match="scheduler"):
                list(workers.map(double, MANY))
