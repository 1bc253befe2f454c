# SPDX-License-Identifier: GPL-2.0-or-later
"""The archive layer: what a tar of strangers may hold, and what happens when it is damaged."""

import gzip
import io
import lzma
import os
import tarfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Literal

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from schedperf.inputs.bundle.tar import (
    MAX_HEADERS,
    MAX_MEMBER_BYTES,
    MAX_TOTAL_BYTES,
    Archive,
    _decode,
    _decode_plain,
)
from schedperf.model.errors import BundleError

MakeTar = Callable[[Path, Iterable[tuple[str, bytes]]], Path]


def member(name: str = "boots/0/x", **attributes: object) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    for attribute, value in attributes.items():
        setattr(info, attribute, value)
    return info


def header(info: tarfile.TarInfo, tar_format: Literal[1, 2] = tarfile.GNU_FORMAT) -> bytes:
    return info.tobuf(tar_format)


def pax(records: dict[str, str], name: str = "boots/0/x") -> bytes:
    return header(member(name, pax_headers=records), tarfile.PAX_FORMAT)


END = bytes(2 * tarfile.BLOCKSIZE)


def read_all(path: Path, *, salvage: bool = False) -> dict[str, bytes]:
    archive = Archive(path, salvage=salvage)
    return {name: archive.read(found) for name, found in archive.members.items()}


REFUSED = {
    "a parent folder": (header(member("boots/../../x")), "points outside of the bundle"),
    "an absolute name": (header(member("/etc/passwd")), "is an absolute path"),
    "a backslash": (header(member("boots\\..\\x")), "points outside of the bundle"),
    "an empty part": (header(member("boots//x")), "has an empty component"),
    "a dot inside": (header(member("boots/./x")), "has an empty component"),
    "an escape sequence": (header(member("boots/\x1b[2J")), "control characters"),
    "a newline": (header(member("boots/a\nb")), "control characters"),
    "a right-to-left override": (header(member("boots/\u202egnp.x")), "control characters"),
    "a NUL by pax": (pax({"path": "boots/0/x\0/y"}), "control characters"),
    "a parent directory by pax": (pax({"path": "../x"}), "points outside of the bundle"),
    "a parent directory by GNU long name": (
        header(member("a/" * 60 + "../../x")),
        "points outside of the bundle",
    ),
    "a name longer than PATH_MAX": (header(member("a/" * 3000 + "x")), "longer than 4096"),
    "a hard link": (header(member(type=tarfile.LNKTYPE, linkname="y")), "is a hard link"),
    "a symbolic link": (header(member(type=tarfile.SYMTYPE, linkname="/y")), "is a symbolic link"),
    "a character device": (header(member(type=tarfile.CHRTYPE)), "is a device"),
    "a block device": (header(member(type=tarfile.BLKTYPE)), "is a device"),
    "a fifo": (header(member(type=tarfile.FIFOTYPE)), "is a fifo"),
    "a GNU sparse member": (header(member(type=tarfile.GNUTYPE_SPARSE)), "is a sparse file"),
    "a pax sparse member": (pax({"GNU.sparse.size": "10000000000"}), "sparse file"),
    "an unknown type": (header(member(type=b"Z")), "is of type b'Z'"),
    "a directory with contents": (
        header(member("boots", type=tarfile.DIRTYPE, size=512)),
        "directory entry boots has size 512",
    ),
    "a member of 10 GB": (header(member(size=10**10)), "has 10000000000 bytes"),
    "a member of 10 GB by pax": (pax({"size": str(10**10)}), "has 10000000000 bytes"),
    "a negative size": (pax({"size": "-512"}), "has -512 bytes"),
    "a size that is no number": (pax({"size": "1e3"}), "unreadable extended header"),
    "a huge extended header": (
        header(member("x", type=tarfile.XHDTYPE, size=1 << 30)),
        "extended header of 1073741824 bytes",
    ),
    "a broken extended header": (
        header(member("x", type=tarfile.XHDTYPE, size=512)) + b"9" * 512,
        "unreadable extended header",
    ),
    "an extended header without an equals sign": (
        header(member("x", type=tarfile.XHDTYPE, size=6)) + b"6 abc\n".ljust(512, b"\0"),
        "unreadable extended header",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_member_that_no_recorder_writes_is_refused(case: str, tmp_path: Path) -> None:
    content, problem = REFUSED[case]
    path = tmp_path / "b.tar"
    path.write_bytes(content + END)
    for salvage in (False, True):
        with pytest.raises(BundleError, match=problem.replace("'", ".")) as caught:
            Archive(path, salvage=salvage)
        assert str(caught.value).startswith(f"{path}: ")
        assert "\n" not in str(caught.value)


def test_a_name_that_is_not_utf_8_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "b.tar"
    info = member("boots/\udcff")
    path.write_bytes(info.tobuf(tarfile.GNU_FORMAT, "utf-8", "surrogateescape") + END)
    with pytest.raises(BundleError, match="invalid UTF-8 in the member name"):
        Archive(path, salvage=True)


def test_two_members_of_one_name_are_refused(tmp_path: Path, make_tar: MakeTar) -> None:
    path = make_tar(tmp_path / "b.tar", [("a", b"1"), ("./a", b"2")])
    with pytest.raises(BundleError, match="duplicate member a;"):
        Archive(path, salvage=False)


def test_members_of_too_many_bytes_together_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "b.tar"
    step = MAX_MEMBER_BYTES + tarfile.BLOCKSIZE
    count = MAX_TOTAL_BYTES // MAX_MEMBER_BYTES + 1
    with path.open("wb") as file:
        for place in range(count):
            file.seek(place * step)
            file.write(header(member(f"m{place}", size=MAX_MEMBER_BYTES)))
        file.truncate(count * step)
    with pytest.raises(BundleError, match="the members exceed 8 GiB in total"):
        Archive(path, salvage=False)


def test_too_many_members_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "b.tar.gz"
    folder = header(member("boots", type=tarfile.DIRTYPE))
    path.write_bytes(gzip.compress(folder * (MAX_HEADERS + 1), 1))
    with pytest.raises(
        BundleError, match=f"too many members in the archive .expected at most {MAX_HEADERS}."
    ):
        Archive(path, salvage=False)


def test_a_decompression_bomb_is_refused_at_its_header(tmp_path: Path) -> None:
    path = tmp_path / "b.tar.xz"
    content = lzma.compress(header(member(size=10**10)) + os.urandom(4 << 20), preset=0)
    # Whoever unpacks all of it before looking stumbles over the broken end.
    path.write_bytes(content[:-1000] + bytes(1000))
    with pytest.raises(BundleError, match="has 10000000000 bytes"):
        Archive(path, salvage=True)


def test_a_decompressor_that_wants_much_memory_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "b.tar.zst"
    settings = zstandard.ZstdCompressionParameters(window_log=28, strategy=1)
    stream = zstandard.ZstdCompressor(compression_params=settings).compressobj()
    path.write_bytes(stream.compress(header(member()) + END) + stream.flush())
    with pytest.raises(BundleError, match="zst data cannot be decompressed"):
        Archive(path, salvage=False)


@pytest.mark.parametrize(
    "tar_format", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT]
)
def test_names_of_any_tar_format_are_read(tar_format: int, tmp_path: Path) -> None:
    names = ["short", "boots/" + "d" * 60 + "/" + "e" * 60, "boots/ümlaut"]
    if tar_format != tarfile.USTAR_FORMAT:
        names.append("boots/0/" + "x" * 200)
    path = tmp_path / "b.tar"
    with tarfile.open(path, "w", format=tar_format) as archive:
        for name in names:
            archive.addfile(member(name, size=len(name.encode())), io.BytesIO(name.encode()))
    assert read_all(path) == {name: name.encode() for name in names}


def test_a_bundle_that_was_unpacked_and_packed_again_is_read(tmp_path: Path) -> None:
    folder = tmp_path / "unpacked" / "boots"
    folder.mkdir(parents=True)
    (folder / "x").write_bytes(b"content")
    path = tmp_path / "b.tar"
    with tarfile.open(path, "w") as archive:
        archive.add(folder.parent, ".")
    assert read_all(path) == {"boots/x": b"content"}


COMPRESSORS: dict[str, Callable[[bytes], bytes]] = {
    "plain": bytes,
    "gz": gzip.compress,
    "xz": lambda content: lzma.compress(content, preset=0),
    "zst": zstandard.ZstdCompressor(write_checksum=True).compress,
}


@pytest.mark.parametrize("kind", COMPRESSORS)
def test_compression_is_told_by_the_content_not_by_the_name(
    kind: str, tmp_path: Path, make_tar: MakeTar
) -> None:
    members = {"a": b"1" * 1000, "b": os.urandom(2 << 20), "c": b""}
    path = make_tar(tmp_path / "b.tar", members.items())
    path.write_bytes(COMPRESSORS[kind](path.read_bytes()))
    assert read_all(path) == members


@pytest.mark.parametrize("kind", COMPRESSORS)
def test_a_truncated_archive_says_where_it_ends_and_salvage_reads_what_is_left(
    kind: str, tmp_path: Path, make_tar: MakeTar
) -> None:
    members = {"whole": b"1" * 1000, "cut": os.urandom(2 << 20)}
    path = make_tar(tmp_path / "b.tar", members.items())
    content = COMPRESSORS[kind](path.read_bytes())
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(BundleError, match="truncated at .*byte [0-9]+, inside cut; copy it again"):
        Archive(path, salvage=False)
    assert read_all(path, salvage=True) == {"whole": members["whole"]}


@pytest.mark.parametrize("kind", ["gz", "xz", "zst"])
def test_a_flipped_bit_in_compressed_data_is_found(
    kind: str, tmp_path: Path, make_tar: MakeTar
) -> None:
    path = make_tar(tmp_path / "b.tar", [("a", os.urandom(100_000))])
    content = bytearray(COMPRESSORS[kind](path.read_bytes()))
    content[len(content) // 2] ^= 0x10
    path.write_bytes(content)
    with pytest.raises(BundleError, match=f"{kind} data cannot be decompressed"):
        Archive(path, salvage=False)


def test_a_damaged_header_is_no_end_of_the_archive(tmp_path: Path, make_tar: MakeTar) -> None:
    path = make_tar(tmp_path / "b.tar", [("a", b"1"), ("b", b"2")])
    content = bytearray(path.read_bytes())
    content[1024] ^= 1
    path.write_bytes(content)
    with pytest.raises(BundleError, match="damaged at byte 1024, after a"):
        Archive(path, salvage=False)
    assert read_all(path, salvage=True) == {"a": b"1"}


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "empty file"),
        (b"short", "invalid tar archive"),
        (
            b'{"schema": "schedperf/compare/1"}',
            r"result of a comparison, schedperf/compare/1 \(expected a bundle\)",
        ),
        (
            b'{\n "schema": "schedperf/compare/2",\n' + b" " * 999,
            r"schedperf/compare/2 \(expected a bundle\)",
        ),
        (b'{"schema": "other/compare/1"}' + b" " * 999, "invalid tar archive"),
        (b"\x7fELF" + b"x" * 4096, "invalid tar archive"),
        (b"\x1f\x8b", "before the first member"),
        (b"\xfd7zXZ\x00" + b"x" * 4096, "xz data cannot be decompressed"),
        (b"\x28\xb5\x2f\xfd" + b"x" * 4096, "zst data cannot be decompressed"),
        (gzip.compress(b"x" * 4096, mtime=0), "invalid tar archive"),
    ],
)
def test_what_is_no_tar_is_refused(content: bytes, problem: str, tmp_path: Path) -> None:
    path = tmp_path / "b.tar"
    path.write_bytes(content)
    with pytest.raises(BundleError, match=problem):
        Archive(path, salvage=False)


def test_what_is_no_regular_file_is_refused_without_waiting(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    cases = {
        tmp_path: "a directory .expected",
        fifo: "not a regular file",
        tmp_path / "no": "no such",
    }
    for path, problem in cases.items():
        with pytest.raises(BundleError, match=problem):
            Archive(path, salvage=True)


def test_an_unfinished_recording_is_named_where_the_finished_one_is_missing(tmp_path: Path) -> None:
    (tmp_path / "a b.tar.partial").write_bytes(b"")
    advice = "see `schedperf show '.*/a b.tar.partial'`"
    with pytest.raises(BundleError, match=f"a b.tar.partial of an interrupted or .*{advice}"):
        Archive(tmp_path / "a b.tar", salvage=False)


def test_a_file_that_becomes_shorter_while_it_is_read_is_an_error(
    tmp_path: Path, make_tar: MakeTar
) -> None:
    path = make_tar(tmp_path / "b.tar", [("a", bytes(100_000))])
    archive = Archive(path, salvage=False)
    os.truncate(path, 1024)
    with pytest.raises(BundleError, match="truncated while it was read"):
        archive.read(archive.members["a"])


@pytest.mark.parametrize("name", ["boots/0/x", "a/" * 60 + "x", "b\u00f6ots/x"])
def test_plain_headers_are_decoded_as_tarfile_decodes_them(name: str) -> None:
    block = member(name, size=4711, mode=0o640, mtime=1_700_000_000).tobuf(tarfile.USTAR_FORMAT)
    decoded = _decode_plain(block)
    assert decoded is not None
    assert decoded == _decode(block)


@settings(deadline=None)
@given(offset=st.integers(0, tarfile.BLOCKSIZE - 1), value=st.integers(0, 255))
@pytest.mark.property
def test_a_header_with_a_changed_byte_is_not_decoded_otherwise(offset: int, value: int) -> None:
    block = bytearray(member("boots/0/x", size=4711).tobuf(tarfile.USTAR_FORMAT))
    block[offset] = value
    try:
        expected = _decode(bytes(block))
    except (tarfile.HeaderError, UnicodeDecodeError):
        assert _decode_plain(bytes(block)) is None
    else:
        assert _decode_plain(bytes(block)) in {None, expected}
