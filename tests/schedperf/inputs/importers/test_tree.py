# SPDX-License-Identifier: GPL-2.0-or-later
"""Compressed files of foreign directories: read completely, or refused."""

import bz2
import gzip
import lzma
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard

from schedperf.inputs.importers.tree import Tree
from schedperf.model.errors import InputError

Compress = Callable[[bytes], bytes]
COMPRESS: dict[str, Compress] = {
    "gz": gzip.compress,
    "xz": lzma.compress,
    "bz2": bz2.compress,
    "zst": zstandard.ZstdCompressor().compress,
}
LOG = b"".join(b"Time: %d.%03d\n" % divmod(number * 7919, 1000) for number in range(2000))

every_kind = pytest.mark.parametrize("kind", COMPRESS)


@every_kind
def test_what_was_appended_is_read(kind: str, tmp_path: Path) -> None:
    whole = COMPRESS[kind](LOG) + COMPRESS[kind](b"last")
    (tmp_path / f"log.{kind}").write_bytes(whole)
    assert Tree(tmp_path).read("log") == LOG + b"last"


@every_kind
@pytest.mark.parametrize("part", [0.3, 0.99])
def test_a_truncated_file_is_refused(kind: str, part: float, tmp_path: Path) -> None:
    whole = COMPRESS[kind](LOG)
    (tmp_path / f"log.{kind}").write_bytes(whole[: int(len(whole) * part)])
    with pytest.raises(InputError, match=rf"log\.{kind}: damaged \.{kind} file \([^)]+\); copy"):
        Tree(tmp_path).read("log")


@every_kind
def test_a_bomb_is_refused(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("schedperf.inputs.importers.tree.LARGEST_FILE_BYTES", 1 << 20)
    (tmp_path / f"log.{kind}").write_bytes(COMPRESS[kind](bytes(8 << 20)))
    with pytest.raises(InputError, match="larger than 1 MiB decompressed"):
        Tree(tmp_path).read("log")
