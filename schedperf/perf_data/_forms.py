"""The forms of a perf.data: a file, a pipe's bytes, a folder, each perhaps compressed.

All of them become streams of records, and what perf says about them.
"""

import mmap
import re
import stat
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from schedperf.perf_data._bytes import Bytes
from schedperf.perf_data._compressed import decompress
from schedperf.perf_data._features import Features, read_sections, section_cursors
from schedperf.perf_data._pipe import announces_compression, read_pipe_header
from schedperf.perf_data._walk import Stream, Walked, walk
from schedperf_collectors.perf_header import (
    DIR_FORMAT,
    PIPE_HEADER_BYTES,
    BadPerfData,
    Event,
    byte_order,
    is_pipe,
    read_header,
)

# The file with the header, as perf names it and as its documentation does.
_MAIN_FILES = ("data", "header")
_DATA_FILE = re.compile(r"data\.[0-9]{1,6}")


@dataclass(frozen=True, kw_only=True, slots=True)
class Opened:
    """A perf.data of any form, its records found but not read.

    :param streams: each with what was found in it
    """

    order: str
    events: tuple[Event, ...]
    features: Features
    streams: tuple[tuple[Stream, Walked], ...]
    notes: tuple[str, ...]


def open_perf_data(source: Path | bytes, label: str) -> Opened:
    """Find all records of a perf.data.

    :raises BadPerfData: nothing of it can be read
    :raises OSError: a file cannot be opened
    """
    if isinstance(source, Path) and source.is_dir():
        return _open_folder(source, label)
    data = source if isinstance(source, bytes) else _map(source, label)
    order = byte_order(data, label)
    if is_pipe(data, order, label):
        return _open_pipe(data, order, label)
    return _open_file(data, label, {})


def _open_folder(folder: Path, label: str) -> Opened:
    names = {path.name: path for path in folder.iterdir()}
    main = next((names[name] for name in _MAIN_FILES if name in names), None)
    if main is None:
        raise BadPerfData(f"{label}: a folder without a file `data`; give one of perf record")
    parts = {
        name: _map_member(names[name], f"{label}: {name}")
        for name in sorted(filter(_DATA_FILE.fullmatch, names), key=lambda name: int(name[5:]))
    }
    opened = _open_file(_map_member(main, f"{label}: {main.name}"), label, parts)
    # perf numbers them from 0; how many there were is written nowhere.
    last = max((int(name[5:]) for name in parts), default=-1)
    if absent := last + 1 - len(parts):
        note = f"{absent} of {last + 1} files of the folder are missing, with their samples"
        return replace(opened, notes=(note, *opened.notes))
    return opened


def _map_member(path: Path, label: str) -> Bytes:
    # In a folder that somebody else made, a link may lead anywhere.
    if not stat.S_ISREG(path.lstat().st_mode):
        raise BadPerfData(f"{label}: a link or a device; give a folder of perf record --threads")
    # A thread that saw nothing leaves an empty file.
    return _map(path, label) if path.lstat().st_size else b""


def _map(path: Path, label: str) -> Bytes:
    if not stat.S_ISREG(path.stat().st_mode):
        raise BadPerfData(f"{label}: no regular file; give one of perf record")
    if not path.stat().st_size:
        raise BadPerfData(f"{label}: empty; record it again")
    with path.open("rb") as file:
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


def _open_file(data: Bytes, label: str, parts: Mapping[str, Bytes]) -> Opened:
    header = read_header(data, label)
    notes = list(header.notes)
    cursors, more = section_cursors(data, header, label)
    features, damaged = read_sections(cursors)
    notes += more + damaged
    if DIR_FORMAT in header.features and not parts:
        notes.append("one file of a folder: the samples in its other files are missing")
    streams = _Streams(header.order, label, zstd=header.compressed)
    streams.add(data, header.start, header.end, cut=header.cut)
    for part in parts.values():
        streams.add(part, 0, len(part), cut=False)
    return Opened(
        order=header.order,
        events=header.events,
        features=features,
        streams=tuple(streams.found),
        notes=(*notes, *streams.notes),
    )


def _open_pipe(data: Bytes, order: str, label: str) -> Opened:
    streams = _Streams(order, label, zstd=announces_compression(data, order))
    # A pipe does not say where it ends.
    streams.add(data, PIPE_HEADER_BYTES, len(data), cut=True)
    stream, walked = streams.found[0]
    header = read_pipe_header(stream, walked.others)
    features, damaged = read_sections(header.sections)
    return Opened(
        order=order,
        events=header.events,
        features=replace(features, build_ids={**header.build_ids, **features.build_ids}),
        streams=tuple(streams.found),
        notes=(*header.notes, *damaged, *streams.notes),
    )


class _Streams:
    # The streams of a recording: those of its files, and what was compressed in each.

    def __init__(self, order: str, label: str, *, zstd: bool) -> None:
        self.order = order
        self.label = label
        self.zstd = zstd
        self.found: list[tuple[Stream, Walked]] = []
        self.notes: list[str] = []
        self.base = 0

    def add(self, data: Bytes, start: int, end: int, *, cut: bool) -> None:
        stream, walked = self._walk(data, start, end, cut=cut)
        inner, notes = decompress(stream, walked.others)
        self.notes += notes
        if inner:
            # perf cuts its compressed records where it likes, so a damaged one is a cut as well.
            self._walk(inner, 0, len(inner), cut=cut or bool(notes))

    def _walk(self, data: Bytes, start: int, end: int, *, cut: bool) -> tuple[Stream, Walked]:
        stream = Stream(
            data=data,
            start=start,
            end=end,
            order=self.order,
            label=self.label,
            base=self.base,
            cut=cut,
            zstd=self.zstd,
        )
        self.base += len(data)
        walked = walk(stream)
        self.found.append((stream, walked))
        self.notes += walked.notes
        return stream, walked
