# SPDX-License-Identifier: GPL-2.0-or-later
"""Read perf.data without perf: samples counted by event, CPU, task, address and call chain.

The walk over the records is plain Python; everything else works on columns of numbers, not on one
object per sample, so reading a file takes about as long as ``perf report -g none``. The reader
supports files, pipes and directories of ``perf record`` since Linux 2.6.39, compressed or not, in
either byte order. It skips records that it does not need, and counts those of unknown types::

    recording = read_perf_data(Path("perf.data"), "perf.data")
    recording.samples.period.sum()
"""

from schedperf.inputs.perf_data._features import Cache, Features
from schedperf.inputs.perf_data._reader import Keep, read_perf_data
from schedperf.inputs.perf_data.recording import Recording

__all__ = [
    "LARGEST_PERF_DATA_BYTES",
    "Cache",
    "Features",
    "Keep",
    "Recording",
    "read_perf_data",
]

# Largest size of a perf.data of a bundle: one minute of 200 CPUs at 1 kHz with call chains of 15
# addresses.
LARGEST_PERF_DATA_BYTES = 2 << 30
