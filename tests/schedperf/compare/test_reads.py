# SPDX-License-Identifier: GPL-2.0-or-later
"""Sections that use the same captures share them: a comparison reads each member once.

Apart from that, the digest hashes all members.
"""

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from schedperf.compare.bundles import compare_bundles
from schedperf.inputs.bundle.open import Bundle, open_bundle
from tests import golden_evidence, golden_inputs

Write = Callable[[Path], None]


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> Counter[tuple[str, str]]:
    """Count the reads of each member, by the names of the bundle and of the member."""
    counts = Counter[tuple[str, str]]()
    read, extract = Bundle.read, Bundle.extract

    def counted_read(self: Bundle, name: str, limit: int | None = None) -> bytes:
        counts[self.path.name, name] += 1
        return read(self, name, limit)

    def counted_extract(self: Bundle, name: str, folder: Path, limit: int | None = None) -> Path:
        counts[self.path.name, name] += 1
        return extract(self, name, folder, limit)

    monkeypatch.setattr(Bundle, "read", counted_read)
    monkeypatch.setattr(Bundle, "extract", counted_extract)
    return counts


@pytest.mark.parametrize(
    ("write", "several_readers"),
    [
        # Profile, layout and names of functions; memory samples besides.
        pytest.param(golden_evidence.story, "layout/kallsyms", id="story"),
        pytest.param(golden_evidence.cache_lines, "layout/kallsyms", id="cache-lines"),
        # Counts of wakeups for PELT, settings of runs and of boots, the configuration.
        pytest.param(
            golden_inputs.example("cluster-percpu"),
            "perf_stat/perf_stat.csv",
            id="cluster-percpu",
            marks=pytest.mark.system,
        ),
    ],
)
def test_each_member_is_read_once(
    tmp_path: Path, reads: Counter[tuple[str, str]], write: Write, several_readers: str
) -> None:
    write(tmp_path)
    compare_bundles([open_bundle(path) for path in sorted(tmp_path.glob("*.tar*"))])
    assert any(member.endswith(several_readers) for _, member in reads)
    assert {member: count for member, count in reads.items() if count > 1} == {}
