# SPDX-License-Identifier: GPL-2.0-or-later
"""Limit the stored output of a workload: the beginning and the end of a long text."""

from pathlib import Path

# Benchmarks print kilobytes, with settings first and results last. Readers of bundles refuse texts
# of more than 16 MiB.
HEAD_BYTES = 4 << 20
TAIL_BYTES = 8 << 20


def shorten(path: Path, head_bytes: int = HEAD_BYTES, tail_bytes: int = TAIL_BYTES) -> int:
    """Leave out the middle of a long text file, in whole lines if they are shorter than the parts.

    :return: number of bytes left out; 0 if the file is short
    """
    size = path.stat().st_size
    if size <= head_bytes + tail_bytes:
        return 0
    with path.open("r+b") as file:
        head = file.read(head_bytes)
        # With the byte before it, which may end a line.
        file.seek(size - tail_bytes - 1)
        tail = file.read()
        head = head[: head.rfind(b"\n") + 1] or head
        tail = tail.partition(b"\n")[2] or tail[1:]
        file.seek(len(head))
        file.write(tail)
        file.truncate()
    return size - len(head) - len(tail)


def shorten_output(folder: Path) -> dict[str, int]:
    """Shorten stdout and stderr of a run; return the bytes left out of each that was too long."""
    left_out = {name: shorten(Path(folder, name)) for name in ("stdout", "stderr")}
    return {name: count for name, count in left_out.items() if count}


def describe_left_out(left_out: dict[str, int]) -> str:
    """Return the warning about output that is not kept."""
    parts = ", ".join(f"{count} bytes of {name}" for name, count in left_out.items())
    return (
        f"the output is too long, so {parts} are omitted and only the first {HEAD_BYTES >> 20} "
        f"and the last {TAIL_BYTES >> 20} MiB are kept; redirect output without results to "
        "/dev/null"
    )
