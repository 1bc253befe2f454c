# SPDX-License-Identifier: GPL-2.0-or-later
"""Read perf.data without perf: samples counted by event, CPU, task, address and call chain.

No sample becomes an object: the walk over the records is plain Python, everything
else works on columns of numbers, so that a file takes about as long as with
``perf report -g none``. Files, pipes and folders of ``perf record`` from Linux 2.6.39 on
are read, compressed or not, of both byte orders; what a newer perf adds is skipped
and counted::

    recording = read_perf_data(Path("perf.data"), "perf.data")
    recording.samples.period.sum()
"""

from schedperf.perf_data._features import Cache, Features
from schedperf.perf_data._reader import Keep, read_perf_data
from schedperf.perf_data.recording import Recording

__all__ = [
    "LARGEST_PERF_DATA_BYTES",
    "Cache",
    "Features",
    "Keep",
    "Recording",
    "read_perf_data",
]

# A minute of 200 CPUs at 1 kHz with call chains of 15 addresses; it is read from a file.
LARGEST_PERF_DATA_BYTES = 2 << 30
