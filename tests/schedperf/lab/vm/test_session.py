# SPDX-License-Identifier: GPL-2.0-or-later
"""Sessions of several boots: their order, their bundles, and what ends them early."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from schedperf.inputs.bundle.open import open_bundle
from schedperf.lab.vm.guest import Hypervisor
from schedperf.lab.vm.images import Kernel
from schedperf.lab.vm.script import Work
from schedperf.lab.vm.session import (
    News,
    Request,
    bundle_path,
    check_bundles,
    claimed,
    keep_bundle,
    mark_incomplete,
    plan_boots,
    record_in_guests,
)
from schedperf.model.errors import InputError

MakeHypervisor = Callable[..., Hypervisor]

# From the second boot on of a kernel the bundle is there; this one only looks at what it is given.
KEEPS_SCRIPT = "cp $share/run {folder}/run.$boot\n"
WELL = """\
echo '{"event": "booted"}' >$share/events
[ -e $share/bundle.tar ] || cp $share/../../guest.tar $share/bundle.tar
echo 0 >$share/status
"""


@pytest.fixture
def request_of(tmp_path: Path, make_image: Callable[[str], bytes]) -> Callable[..., Request]:
    """Return a request for some boots of ``tip`` and ``new`` into ``out``."""
    (tmp_path / "out").mkdir()
    for name in ("tip", "new"):
        (tmp_path / f"{name}.image").write_bytes(make_image(f"6.1.0-{name}"))
    (tmp_path / "System.map").write_text("map")

    def make(boots: int) -> Request:
        kernels = [
            Kernel(
                name=name,
                image=tmp_path / f"{name}.image",
                release=f"6.1.0-{name}",
                files={"System.map": tmp_path / "System.map"},
            )
            for name in ("tip", "new")
        ]
        work = Work(python="python3", recorder=b"zip", arguments=[], setup="", folder=tmp_path)
        return Request(kernels=kernels, boots=boots, work=work, output=tmp_path / "out")

    return make


@pytest.fixture
def well(tmp_path: Path, make_bundle: Callable[..., Path]) -> str:
    """Return the behaviour of guests that bring one bundle of two runs."""
    made = make_bundle(tmp_path / "guest.tar", runs=2)
    return WELL.replace("$share/../../guest.tar", str(made))


def record(request: Request, hypervisor: Hypervisor) -> list[News]:
    news: list[News] = []
    record_in_guests(request, hypervisor, news.append)
    return news


def test_two_sessions_do_not_write_the_same_bundles(
    request_of: Any, make_hypervisor: MakeHypervisor, well: str
) -> None:
    request = request_of(1)
    paths = [bundle_path(request.output, kernel) for kernel in request.kernels]
    with claimed(paths[1:]), pytest.raises(InputError) as refused:
        record(request, make_hypervisor(well))
    assert str(refused.value).startswith(
        f"{paths[1]}: another `schedperf vm` is writing to this path; "
    )
    assert list(request.output.iterdir()) == []
    # The file of a killed session is no obstacle.
    paths[0].with_name("tip.tar.lock").touch()
    record(request, make_hypervisor(well))
    assert sorted(request.output.iterdir()) == sorted(paths)


def test_kernels_are_booted_in_abba_order_each_boot_a_turn_of_one_session(
    request_of: Any, make_hypervisor: MakeHypervisor, well: str, tmp_path: Path
) -> None:
    news = record(request_of(2), make_hypervisor(KEEPS_SCRIPT.format(folder=tmp_path) + well))
    assert [one.kernel for one in news if one.what == "booted"] == ["tip", "new", "new", "tip"]
    scripts = [(tmp_path / f"run.{boot}").read_text() for boot in (1, 2, 3, 4)]
    turns = [script.partition("--turn ")[2].split()[0].split(",") for script in scripts]
    assert len({session for session, _, _ in turns}) == 1
    assert [(int(number), int(order)) for _, number, order in turns] == [
        (0, 0),
        (0, 100_000),
        (1, 200_000),
        (1, 300_000),
    ]
    assert [" record --events 9 -o " in script for script in scripts] == [True, True, False, False]
    assert all("--kernel-files /mnt/kernel" in script for script in scripts)
    for name in ("tip", "new"):
        assert open_bundle(tmp_path / "out" / f"{name}.tar").complete
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["new.tar", "tip.tar"]


def test_the_time_that_is_left_is_known_after_the_first_boot(
    request_of: Any, make_hypervisor: MakeHypervisor, well: str
) -> None:
    news = record(request_of(1), make_hypervisor(well))
    assert news[0].left_s is None
    first, last = (one.left_s for one in news if one.what == "booted")
    assert first is not None
    assert first > 0
    assert last == 0


def test_a_boot_that_dies_once_is_made_again_and_talks_then(
    request_of: Any, make_hypervisor: MakeHypervisor, well: str, tmp_path: Path
) -> None:
    dies = "[ $boot != 2 ] || { echo 'Kernel panic - not syncing: oops'; exit 255; }\n"
    news = record(request_of(1), make_hypervisor(dies + well))
    (again,) = [one for one in news if one.what == "again"]
    assert (again.kernel, again.text) == ("new", "Kernel panic - not syncing: oops")
    calls = (tmp_path / "calls").read_text().splitlines()
    assert ["--verbose" in call for call in calls] == [False, False, True]
    assert open_bundle(tmp_path / "out/new.tar").complete


def test_a_boot_that_dies_twice_ends_the_session_and_bundles_say_what_they_lack(
    request_of: Any, make_hypervisor: MakeHypervisor, well: str, tmp_path: Path
) -> None:
    dies = "[ $boot -lt 3 ] || { echo 'Kernel panic - not syncing: oops'; exit 255; }\n"
    with pytest.raises(InputError) as caught:
        record(request_of(2), make_hypervisor(dies + well))
    said = str(caught.value)
    assert said.startswith("new: the guest failed in all 2 attempts (Kernel panic")
    for name in ("tip", "new"):
        bundle = open_bundle(tmp_path / "out" / f"{name}.tar")
        assert not bundle.complete
        assert bundle.incomplete_reason == f"{said} after 1 of 2 boots"
        assert (len(bundle.runs), bundle.planned_runs) == (2, 4)
        assert bundle.broken_members() == ()


def test_a_recorder_that_stops_ends_the_session_and_what_it_finished_is_kept(
    request_of: Any, make_hypervisor: MakeHypervisor, well: str, tmp_path: Path
) -> None:
    stops = "echo 'schedperf: error: the workload never succeeded' >$share/log\n"
    behaviour = well.replace("echo 0", "echo 2") + stops
    with pytest.raises(InputError, match="^tip: boot 1: the workload never succeeded$"):
        record(request_of(2), make_hypervisor(behaviour))
    bundle = open_bundle(tmp_path / "out/tip.tar")
    assert (bundle.complete, bundle.planned_runs) == (False, 4)
    assert "the workload never succeeded after 0 of 2 boots" in str(bundle.incomplete_reason)
    assert not (tmp_path / "out/new.tar").exists()
    assert len((tmp_path / "calls").read_text().splitlines()) == 1


def test_a_setup_that_fails_in_a_later_boot_leaves_the_runs_of_the_earlier_ones(
    request_of: Any, make_hypervisor: MakeHypervisor, well: str, tmp_path: Path
) -> None:
    fails = (
        "if [ $boot = 4 ]; then\n"
        "echo 'sh: no such group' >$share/log; echo 1 >$share/status; exit\n"
        "fi\n"
    )
    with pytest.raises(InputError, match="^tip: boot 4: sh: no such group$"):
        record(request_of(2), make_hypervisor(fails + well))
    bundle = open_bundle(tmp_path / "out/tip.tar")
    assert (bundle.planned_runs, len(bundle.runs)) == (4, 2)
    assert str(bundle.incomplete_reason).endswith("sh: no such group after 1 of 2 boots")
    assert open_bundle(tmp_path / "out/new.tar").complete


def test_ctrl_c_keeps_the_boots_that_were_finished(
    request_of: Any, make_hypervisor: MakeHypervisor, well: str, tmp_path: Path
) -> None:
    def interrupt(news: News) -> None:
        if news.what == "booting" and news.boot == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        record_in_guests(request_of(2), make_hypervisor(well), interrupt)
    assert open_bundle(tmp_path / "out/new.tar").complete
    tip = open_bundle(tmp_path / "out/tip.tar")
    assert tip.incomplete_reason == "interrupted after 1 of 2 boots"


def test_more_boots_are_added_to_bundles_that_exist(
    request_of: Any, make_hypervisor: MakeHypervisor, well: str, tmp_path: Path
) -> None:
    behaviour = KEEPS_SCRIPT.format(folder=tmp_path) + well
    for _ in range(2):
        record(request_of(1), make_hypervisor(behaviour))
    scripts = [(tmp_path / f"run.{boot}").read_text() for boot in (1, 2, 3, 4)]
    assert ["--append $TMPDIR/" in script for script in scripts] == [False, False, True, True]


def test_an_image_that_is_built_anew_meanwhile_does_not_change_what_is_booted(
    request_of: Any, make_hypervisor: MakeHypervisor, well: str, tmp_path: Path
) -> None:
    request = request_of(2)
    image = (tmp_path / "tip.image").read_bytes()
    behaviour = (
        f"cp $(dirname $share)/image {tmp_path}/booted.$boot\necho rebuilt >{tmp_path}/tip.image\n"
    )
    record(request, make_hypervisor(behaviour + well))
    assert (tmp_path / "tip.image").read_text() == "rebuilt\n"
    assert [(tmp_path / f"booted.{boot}").read_bytes() == image for boot in (1, 2, 3, 4)] == [
        True,
        False,
        False,
        True,
    ]


def test_a_temporary_folder_that_virtme_ng_cannot_share_is_refused(
    request_of: Any,
    make_hypervisor: MakeHypervisor,
    well: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    odd = tmp_path / "a b"
    odd.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(odd))
    with pytest.raises(InputError, match="invalid directory name for virtme-ng"):
        record(request_of(1), make_hypervisor(well))
    assert list(odd.iterdir()) == []


def test_the_modules_of_an_unpacked_package_are_where_its_image_is_booted(
    request_of: Any, make_hypervisor: MakeHypervisor, well: str, tmp_path: Path
) -> None:
    request = request_of(1)
    modules = tmp_path / "package/lib/modules/6.1.0-new"
    modules.mkdir(parents=True)
    (modules / "modules.order").write_text("kernel/fs/9p/9p.ko")
    tip, new = request.kernels
    request = replace(request, kernels=[tip, replace(new, modules=modules)])
    look = f"cat $share/../lib/modules/*/modules.order >{tmp_path}/seen.$boot\n"
    record(request, make_hypervisor(look + well))
    assert (tmp_path / "seen.1").read_text() == ""
    assert (tmp_path / "seen.2").read_text() == "kernel/fs/9p/9p.ko"


@pytest.mark.parametrize(("kernels", "boots"), [(2, 1), (2, 4), (3, 3), (5, 2)])
def test_each_round_boots_each_kernel_once(kernels: int, boots: int) -> None:
    plan = plan_boots(kernels, boots)
    for number in range(boots):
        in_round = [boot.kernel for boot in plan if boot.round == number]
        assert sorted(in_round) == list(range(kernels))
    assert [boot.round for boot in plan] == sorted(boot.round for boot in plan)


@pytest.mark.parametrize(("kernels", "boots"), [(2, 2), (2, 6), (4, 4)])
def test_with_an_even_number_of_rounds_a_linear_drift_hits_all_kernels_alike(
    kernels: int, boots: int
) -> None:
    plan = plan_boots(kernels, boots)
    places = [
        sum(place for place, boot in enumerate(plan) if boot.kernel == kernel)
        for kernel in range(kernels)
    ]
    assert len(set(places)) == 1


MakeBundle = Callable[..., Path]


def test_a_bundle_that_exists_is_not_overwritten(make_bundle: MakeBundle, tmp_path: Path) -> None:
    path = make_bundle(tmp_path / "tip.tar")
    with pytest.raises(
        InputError, match="exists; use --add-boots to add boots to it, or choose another --output"
    ):
        check_bundles([path], may_exist=False)
    check_bundles([path, tmp_path / "new.tar"], may_exist=True)


@pytest.mark.parametrize("content", [b"", b"nonsense", bytes(10240)])
def test_what_is_no_bundle_gets_no_boots(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "tip.tar").write_bytes(content)
    with pytest.raises(InputError, match="record a new bundle"):
        check_bundles([tmp_path / "tip.tar"], may_exist=True)


def test_a_bundle_that_another_recording_writes_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "tip.tar.partial").touch()
    with pytest.raises(InputError, match="another recording is running"):
        check_bundles([tmp_path / "tip.tar"], may_exist=False)


def test_a_copy_that_fails_leaves_what_was_there(make_bundle: MakeBundle, tmp_path: Path) -> None:
    path = make_bundle(tmp_path / "tip.tar")
    before = path.read_bytes()
    with pytest.raises(FileNotFoundError):
        keep_bundle(tmp_path / "none.tar", path, 0o600)
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["tip.tar"]


def test_a_bundle_says_how_many_runs_are_missing(make_bundle: MakeBundle, tmp_path: Path) -> None:
    path = make_bundle(tmp_path / "tip.tar", runs=3)
    mark_incomplete(path, "interrupted after 1 of 3 boots", 2)
    bundle = open_bundle(path)
    assert (bundle.complete, bundle.planned_runs, len(bundle.runs)) == (False, 9, 3)
    assert bundle.incomplete_reason == "interrupted after 1 of 3 boots"
    assert bundle.broken_members() == ()
