"""Bundles between boots."""

from collections.abc import Callable
from pathlib import Path

import pytest

from schedperf.bundle.open import open_bundle
from schedperf.model.errors import InputError
from schedperf.vm.bundles import check_bundles, keep, mark_incomplete

MakeBundle = Callable[..., Path]


def test_a_bundle_that_exists_is_not_overwritten(make_bundle: MakeBundle, tmp_path: Path) -> None:
    path = make_bundle(tmp_path / "tip.tar")
    with pytest.raises(InputError, match="exists; add --add-boots"):
        check_bundles([path], may_exist=False)
    check_bundles([path, tmp_path / "new.tar"], may_exist=True)


@pytest.mark.parametrize("content", [b"", b"nonsense", bytes(10240)])
def test_what_is_no_bundle_gets_no_boots(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "tip.tar").write_bytes(content)
    with pytest.raises(InputError, match="record a new bundle"):
        check_bundles([tmp_path / "tip.tar"], may_exist=True)


def test_a_bundle_that_another_recording_writes_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "tip.tar.partial").touch()
    with pytest.raises(InputError, match="another recording writes it"):
        check_bundles([tmp_path / "tip.tar"], may_exist=False)


def test_a_copy_that_fails_leaves_what_was_there(make_bundle: MakeBundle, tmp_path: Path) -> None:
    path = make_bundle(tmp_path / "tip.tar")
    before = path.read_bytes()
    with pytest.raises(FileNotFoundError):
        keep(tmp_path / "none.tar", path)
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["tip.tar"]


def test_a_bundle_says_how_many_runs_are_missing(make_bundle: MakeBundle, tmp_path: Path) -> None:
    path = make_bundle(tmp_path / "tip.tar", runs=3)
    mark_incomplete(path, "interrupted after 1 of 3 boots", 2)
    bundle = open_bundle(path)
    assert (bundle.complete, bundle.planned_runs, len(bundle.runs)) == (False, 9, 3)
    assert bundle.incomplete_reason == "interrupted after 1 of 3 boots"
    assert bundle.broken_members() == ()
