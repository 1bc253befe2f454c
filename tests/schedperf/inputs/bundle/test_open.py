# SPDX-License-Identifier: GPL-2.0-or-later
"""The bundle reader: what it gives, what it refuses, what it salvages."""

import gzip
import hashlib
import json
import lzma
import tarfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedperf.inputs.bundle.open import Bundle, open_bundle
from schedperf.model.errors import BundleError

MakeBundle = Callable[..., Path]
MakeMembers = Callable[..., dict[str, bytes]]
MakeTar = Callable[[Path, Iterable[tuple[str, bytes]]], Path]

RUN = "boots/0/runs/000/run.json"
MANIFEST = "manifest.json"


def changed(content: bytes, **changes: object) -> bytes:
    return json.dumps({**json.loads(content), **changes}).encode()


def data_of(bundle: Bundle) -> Mapping[str, object]:
    """Return all that was captured; the manifest has no checksum of its own."""
    contents = {name: bundle.read(name) for name in bundle.names() if name != MANIFEST}
    return {"digest": bundle.digest, "boots": bundle.boots, "contents": contents}


def codes(bundle: Bundle) -> list[str]:
    return [caveat.code for caveat in bundle.caveats]


class TestReading:
    """A bundle gives back what was put in."""

    def test_runs_boots_and_the_manifest_are_records(
        self, tmp_path: Path, make_bundle: MakeBundle
    ) -> None:
        runs = [
            {"time_s": 0.5, "point": {"groups": "1"}},
            {"time_s": 0.7, "point": {"groups": "4"}, "kind": "instrumented"},
            {"boot": 1, "run": 0, "point": {"groups": "1"}, "warmup": True},
        ]
        rule = {"name": "rate", "unit": "1/s", "better": "higher", "regex": "rate (.*)"}
        bundle = open_bundle(
            make_bundle(tmp_path / "b.tar", runs=runs, metric=[rule], treatment=["sched.autogroup"])
        )
        assert (bundle.label, bundle.complete, bundle.planned_runs) == ("base", True, 2)
        assert bundle.workload == ("hackbench -l 100 -g {groups}",)
        assert bundle.points == ("groups=1", "groups=4")
        assert bundle.treatment == ("sched.autogroup",)
        assert bundle.metric_rules[0].better == "higher"
        assert [boot.folder for boot in bundle.boots] == ["boots/0", "boots/1"]
        assert bundle.boots[0].host_fields["clock"] == {
            "source": "tsc",
            "available": "tsc hpet acpi_pm",
        }
        first, second, third = bundle.runs
        assert first.command == ("hackbench", "-l", "100", "-g", "1")
        assert (first.kind, second.kind) == ("clean", "instrumented")
        assert third.warmup
        assert third.folder == "boots/1/runs/000"
        assert "Time: 0.700" in bundle.read_text("boots/0/runs/001/stdout")
        assert bundle.caveats == ()

    def test_only_an_exit_status_of_0_is_success(
        self, tmp_path: Path, make_bundle: MakeBundle
    ) -> None:
        runs = [
            {},
            {"exit_status": 1},
            {"exit_status": None, "signal": 9},
            {"exit_status": None, "failure": "no such program"},
        ]
        bundle = open_bundle(make_bundle(tmp_path / "b.tar", runs=runs))
        assert [run.succeeded for run in bundle.runs] == [True, False, False, False]

    def test_compressed_bundles_are_the_same_bundle(
        self, tmp_path: Path, make_bundle: MakeBundle
    ) -> None:
        paths = [make_bundle(tmp_path / f"b.tar{suffix}") for suffix in ("", ".gz", ".xz")]
        plain, *others = [data_of(open_bundle(path)) for path in paths]
        assert others == [plain, plain]

    def test_names_are_sorted_and_filtered_by_prefix(
        self, tmp_path: Path, make_bundle: MakeBundle
    ) -> None:
        bundle = open_bundle(make_bundle(tmp_path / "b.tar", runs=1))
        assert bundle.names("boots/0/runs/") == (
            "boots/0/runs/000/run.json",
            "boots/0/runs/000/stderr",
            "boots/0/runs/000/stdout",
        )
        assert bundle.size("boots/0/runs/000/stderr") == 0
        assert bundle.size("boots/0/runs/001/stderr") is None

    def test_bytes_that_are_not_utf_8_are_replaced_in_text(
        self, tmp_path: Path, make_bundle: MakeBundle
    ) -> None:
        bundle = open_bundle(make_bundle(tmp_path / "b.tar", runs=[{"stdout": b"a\xffb"}]))
        assert bundle.read_text("boots/0/runs/000/stdout") == "a\N{REPLACEMENT CHARACTER}b"

    def test_a_member_is_copied_to_a_file_of_the_caller_s_own(
        self, tmp_path: Path, make_bundle: MakeBundle
    ) -> None:
        bundle = open_bundle(make_bundle(tmp_path / "base.tar", runs=[{"stdout": "x" * 3_000_000}]))
        name = "boots/0/runs/000/stdout"
        folder = tmp_path / "out"
        folder.mkdir()
        copied = bundle.extract(name, folder)
        assert copied.parent == folder
        assert copied.read_bytes() == bundle.read(name)
        with pytest.raises(BundleError, match=r"has 3000000 bytes \(expected at most 5"):
            bundle.extract(name, folder, limit=5)
        with pytest.raises(BundleError, match="no member nothing; "):
            bundle.extract("nothing", folder)
        with pytest.raises(
            BundleError, match="stdout cannot be copied to .*; set TMPDIR to a larger"
        ):
            bundle.extract(name, tmp_path / "missing")

    def test_the_digest_is_over_names_and_checksums_without_the_manifest(
        self, tmp_path: Path, make_members: MakeMembers, make_tar: MakeTar
    ) -> None:
        members = make_members(runs=1)
        expected = hashlib.sha256()
        for name in sorted(set(members) - {MANIFEST}):
            expected.update(f"{name}\0{hashlib.sha256(members[name]).hexdigest()}\n".encode())
        members[MANIFEST] = changed(members[MANIFEST], label="other", planned_runs=9)
        shuffled = sorted(members.items(), reverse=True)
        bundle = open_bundle(make_tar(tmp_path / "b.tar", shuffled))
        assert bundle.digest == expected.hexdigest()

    def test_a_member_that_is_not_there_is_an_error_that_names_it(
        self, tmp_path: Path, make_bundle: MakeBundle
    ) -> None:
        bundle = open_bundle(make_bundle(tmp_path / "b.tar"))
        with pytest.raises(BundleError, match="no member boots/9/x"):
            bundle.read("boots/9/x")

    def test_a_bundle_without_runs_is_read(self, tmp_path: Path, make_bundle: MakeBundle) -> None:
        bundle = open_bundle(make_bundle(tmp_path / "b.tar", runs=[]))
        assert bundle.runs == ()
        assert len(bundle.boots) == 1


class TestVersions:
    """A newer major version is refused, a newer minor one is read with a caveat."""

    def test_a_future_major_version_is_refused_with_both_versions(
        self, tmp_path: Path, make_bundle: MakeBundle
    ) -> None:
        version = {"major": 2, "minor": 7}
        path = make_bundle(tmp_path / "b.tar", manifest={"version": version, "captures": "new"})
        for salvage in (False, True):
            with pytest.raises(
                BundleError,
                match=r"has format 2.7, but this schedperf reads format 1.0; use a newer",
            ):
                open_bundle(path, salvage=salvage)

    def test_a_newer_minor_version_is_a_caveat(
        self, tmp_path: Path, make_bundle: MakeBundle
    ) -> None:
        version = {"major": 1, "minor": 3}
        bundle = open_bundle(
            make_bundle(tmp_path / "b.tar", manifest={"version": version, "colour": "blue"})
        )
        assert [caveat.text for caveat in bundle.caveats] == [
            "b.tar has format 1.3, newer than 1.0, so new fields are not read"
        ]

    def test_another_format_is_refused(self, tmp_path: Path, make_bundle: MakeBundle) -> None:
        path = make_bundle(tmp_path / "b.tar", manifest={"format": "sosreport"})
        with pytest.raises(
            BundleError,
            match='format is "sosreport" \\(expected "schedperf-bundle"\\); use the version',
        ):
            open_bundle(path)


class TestMissingManifest:
    """The run.json files repeat what a reader needs of the manifest."""

    def test_it_is_rebuilt_with_a_caveat(
        self, tmp_path: Path, make_members: MakeMembers, make_tar: MakeTar
    ) -> None:
        members = make_members(
            runs=[{"point": {"groups": "1"}}, {"point": {"groups": "4"}}], treatment=["sched.hz"]
        )
        whole = open_bundle(make_tar(tmp_path / "whole.tar", members.items()))
        del members[MANIFEST]
        bundle = open_bundle(make_tar(tmp_path / "b.tar", members.items()))
        assert codes(bundle) == ["rebuilt-manifest"]
        assert data_of(bundle) == data_of(whole)
        assert not bundle.complete
        assert "no manifest" in str(bundle.incomplete_reason)
        for name in ("label", "workload", "points", "treatment", "metric_rules", "tool_version"):
            assert getattr(bundle, name) == getattr(whole, name)
        assert {(entry.collector, entry.path) for entry in bundle.captures} == {
            (entry.collector, entry.path) for entry in whole.captures
        }

    def test_the_checksums_of_the_run_json_files_still_count(
        self, tmp_path: Path, make_members: MakeMembers, make_tar: MakeTar
    ) -> None:
        members = make_members()
        del members[MANIFEST]
        members["boots/0/runs/002/stdout"] = b"Time: 0.001\n"
        bundle = open_bundle(make_tar(tmp_path / "b.tar", members.items()))
        with pytest.raises(BundleError, match="boots/0/runs/002/stdout does not match"):
            bundle.read("boots/0/runs/002/stdout")

    def test_a_tar_without_manifest_and_boots_is_no_bundle(
        self, tmp_path: Path, make_tar: MakeTar
    ) -> None:
        path = make_tar(tmp_path / "b.tar", [("vmlinux", b"x")])
        with pytest.raises(BundleError, match="invalid bundle"):
            open_bundle(path)

    def test_an_empty_tar_is_no_bundle(self, tmp_path: Path, make_tar: MakeTar) -> None:
        with pytest.raises(BundleError, match="no members"):
            open_bundle(make_tar(tmp_path / "b.tar", []))


class TestChecksums:
    """No changed byte is ever handed on."""

    def test_a_changed_member_is_refused_when_it_is_read_and_by_the_digest(
        self, tmp_path: Path, make_members: MakeMembers, make_tar: MakeTar
    ) -> None:
        members = make_members(files={"boots/0/layout/kallsyms": "original"})
        members["boots/0/layout/kallsyms"] = b"tampered"
        bundle = open_bundle(make_tar(tmp_path / "b.tar", members.items()))
        with pytest.raises(BundleError, match="kallsyms does not match its checksum"):
            bundle.extract("boots/0/layout/kallsyms", tmp_path)
        with pytest.raises(BundleError, match="kallsyms does not match its checksum"):
            bundle.read("boots/0/layout/kallsyms")
        with pytest.raises(BundleError, match="kallsyms does not match its checksum"):
            _ = bundle.digest
        assert bundle.broken_members() == ("boots/0/layout/kallsyms",)

    def test_a_changed_run_json_is_refused_at_once(
        self, tmp_path: Path, make_members: MakeMembers, make_tar: MakeTar
    ) -> None:
        members = make_members()
        members[RUN] = changed(members[RUN], wall_s=0.001)
        path = make_tar(tmp_path / "b.tar", members.items())
        with pytest.raises(BundleError, match="000/run.json does not match its checksum"):
            open_bundle(path)
        salvaged = open_bundle(path, salvage=True)
        assert len(salvaged.runs) == 4
        assert codes(salvaged) == ["damaged"]

    def test_a_listed_member_that_is_absent_is_refused(
        self, tmp_path: Path, make_members: MakeMembers, make_tar: MakeTar
    ) -> None:
        members = make_members()
        del members["boots/0/runs/001/stdout"]
        path = make_tar(tmp_path / "b.tar", members.items())
        with pytest.raises(
            BundleError, match="001/stdout is in the manifest but not in the archive"
        ):
            open_bundle(path)
        assert codes(open_bundle(path, salvage=True)) == ["damaged"]

    def test_a_member_that_is_not_listed_is_a_caveat(
        self, tmp_path: Path, make_members: MakeMembers, make_tar: MakeTar
    ) -> None:
        members = {**make_members(), "notes.txt": b"mine", "a.txt": b"mine"}
        bundle = open_bundle(make_tar(tmp_path / "b.tar", members.items()))
        (found,) = bundle.caveats
        assert (found.code, found.numbers["count"]) == ("unlisted-members", 2)
        assert found.numbers["first"] == "a.txt"


class TestSalvage:
    """What was finished before the damage is still there."""

    def test_a_partial_file_is_salvaged_without_being_asked(
        self, tmp_path: Path, make_bundle: MakeBundle
    ) -> None:
        path = make_bundle(tmp_path / "b.tar", runs=5)
        with tarfile.open(path) as archive:
            cut = archive.getmember("boots/0/runs/003/stdout").offset_data + 10
        partial = tmp_path / "b.tar.partial"
        partial.write_bytes(path.read_bytes()[:cut])
        bundle = open_bundle(partial)
        assert len(bundle.runs) == 3
        assert codes(bundle) == ["damaged", "rebuilt-manifest"]

    def test_runs_that_have_no_run_json_are_counted(
        self, tmp_path: Path, make_bundle: MakeBundle
    ) -> None:
        path = make_bundle(tmp_path / "b.tar", runs=5)
        with tarfile.open(path) as archive:
            cut = archive.getmember("boots/0/runs/003/run.json").offset
        path.write_bytes(path.read_bytes()[:cut])
        bundle = open_bundle(path, salvage=True)
        assert codes(bundle) == ["damaged", "unfinished-runs", "rebuilt-manifest"]
        assert bundle.caveats[1].numbers["first"] == "boots/0/runs/003"

    def test_a_bundle_without_host_json_is_read_with_a_caveat(
        self, tmp_path: Path, make_bundle: MakeBundle
    ) -> None:
        bundle = open_bundle(make_bundle(tmp_path / "b.tar", host=None))
        assert codes(bundle) == ["no-host"]
        assert bundle.boots[0].host_fields == {}

    def test_nothing_left_to_salvage_is_an_error(
        self, tmp_path: Path, make_bundle: MakeBundle
    ) -> None:
        path = make_bundle(tmp_path / "b.tar")
        path.write_bytes(path.read_bytes()[:1000])
        with pytest.raises(BundleError, match="truncated at byte 1000, inside boots/0/host.json"):
            open_bundle(path, salvage=True)


@pytest.fixture(scope="module", params=["plain", "gz", "xz"])
def sample(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    make_bundle: MakeBundle,
) -> tuple[Path, bytes, Mapping[str, object]]:
    """Return where a bundle may be written, its bytes, and what it reads as."""
    path = make_bundle(tmp_path_factory.mktemp("damage") / "b.tar", runs=2)
    expected = data_of(open_bundle(path))
    compressors: dict[str, Callable[[bytes], bytes]] = {
        "plain": bytes,
        "gz": gzip.compress,
        "xz": lzma.compress,
    }
    return path, compressors[request.param](path.read_bytes()), expected


def outcome(path: Path, *, salvage: bool) -> Mapping[str, object] | str:
    """Return what a bundle reads as, or the error."""
    try:
        bundle = open_bundle(path, salvage=salvage)
        return data_of(bundle)
    except BundleError as error:
        return str(error)


@pytest.mark.property
class TestDamageLaw:
    """A truncated or bit-flipped bundle is a BundleError, or it reads equal."""

    @staticmethod
    def check(path: Path, content: bytes, expected: Mapping[str, object]) -> None:
        path.write_bytes(content)
        strict, salvaged = outcome(path, salvage=False), outcome(path, salvage=True)
        if not isinstance(strict, str):
            assert strict == expected
        for found in (strict, salvaged):
            if isinstance(found, str):
                assert "\n" not in found

    @given(share=st.floats(0, 1))
    def test_of_truncation(
        self, sample: tuple[Path, bytes, Mapping[str, object]], share: float
    ) -> None:
        path, content, expected = sample
        self.check(path, content[: int(share * len(content))], expected)

    @given(places=st.lists(st.floats(0, 1, exclude_max=True), min_size=1, max_size=3))
    def test_of_flipped_bits(
        self, sample: tuple[Path, bytes, Mapping[str, object]], places: list[float]
    ) -> None:
        path, content, expected = sample
        damaged = bytearray(content)
        for place in places:
            bit = int(place * len(content) * 8)
            damaged[bit // 8] ^= 1 << bit % 8
        self.check(path, bytes(damaged), expected)
