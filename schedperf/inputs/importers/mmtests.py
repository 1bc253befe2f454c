# SPDX-License-Identifier: GPL-2.0-or-later
"""Import results of mmtests: ``work/log/NAME``, with one directory ``iter-N`` per iteration.

mmtests keeps what each benchmark printed in ``iter-N/BENCHMARK/logs`` (``noprofile`` in versions
until May 2019). File names contain the load and the iteration: ``hackbench-4``,
``benchlog-8-_-3``. A log with several runs, one appended after the other, is cut before each run.
"""

import re
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise

from msgspec import Struct

from schedperf.inputs.benchmarks import all_parsers
from schedperf.inputs.importers import Imported, ImportedBoot, ImportedRun, importer
from schedperf.inputs.importers import _unixbenchd as unixbenchd
from schedperf.inputs.importers import host_fields as hosts
from schedperf.inputs.importers._times import parse_seconds, to_utc
from schedperf.inputs.importers.tree import Tree, strip_compression
from schedperf.model.errors import InputError
from schedperf.model.text import clean_line, list_some

STAMPS = "tests-timestamp"
ACTIVITIES = ("tests-activity", "mmtests-activity")
# Directories with the output of a benchmark: current name, and name in versions until May 2019.
LOG_FOLDERS = ("logs", "noprofile")
# Files that repeat the output of a benchmark, or that a benchmark writes beside it.
NOT_OUTPUT = re.compile(
    r"mmtests\.log|.*-init(?:\.log)?|dblog|.*transactions.*|procnetdev-.*|time-\d+|.*\.time"
    # Lines in the log of dbench, by kind.
    r"|benchlog-(?:loadfile|tput|op)-\d+"
)
# Files without a known name are tried if they are this small.
LARGEST_UNKNOWN_BYTES = 4 << 20
# Jiffies per second of kernels; the start of a test may be logged seconds before /proc/schedstat.
TICKS = (100, 250, 300, 1000)
TOLERANCE = 0.05
SHORTEST_S = 60
MOST_NAMES = 5

_BEGIN = re.compile(r"test begin :: (\S+) (\d{1,12})", re.ASCII)
_END = re.compile(r"test end :: (\S+) \d{1,12} (-?\d{1,6})", re.ASCII)
_START = re.compile(r"^start :: (\d{1,12})", re.ASCII | re.MULTILINE)
_ACTIVITY = re.compile(
    r"^(\d{1,12}) run-mmtests: test (start|end) :: (\S+)(?: \d{1,12})?(?: (-?\d{1,6}))?$",
    re.ASCII | re.MULTILINE,
)
_JIFFIES = re.compile(
    r"file start :: /proc/schedstat\s+version \d+\s+timestamp (\d{1,20})", re.ASCII
)
_ITERATION = re.compile(r"(?:^|/)iter-(\d{1,6})$", re.ASCII)
# First lines of programs whose runs are appended to one log.
_FIRST_LINE = re.compile(
    r"^(?:# Running '[\w/-]+' benchmark:"
    r"|Running in (?:process|threaded) mode with \d+ groups using "
    r"|sysbench \d+\.\d\S*(?: \(|: +multi-threaded ))",
    re.ASCII | re.MULTILINE,
)

# Names of log files. Groups are parameters, except `iteration` and `_`.
_NAMES = tuple(
    re.compile(pattern, re.ASCII)
    for pattern in (
        r"hackbench-(?P<groups>\d+)",
        r"schbench-(?P<workers>\d+)",
        r"[dt]bench-(?P<clients>\d+)",
        r"pgbench-(?P<clients>\d+)",
        r"sysbench-raw-(?P<threads>\d+)-(?P<iteration>\d+)",
        r"stressng-(?P<instances>\d+)-(?P<iteration>\d+)",
        r"(?P<protocol>(?:TCP|UDP|SCTP|STREAM|DG)_[A-Z_]+)-(?P<bytes>\d+)\.(?P<iteration>\d+)",
        r"(?P<operation>wake|wake-parallel|requeue|requeue-pi|hash|lock-pi)-(?P<threads>\d+)",
        r"redis-(?P<clients>\d+)-(?P<iteration>\d+)",
        r"benchlog-(?P<test>[a-z]\w*_(?:threads|processes))-(?P<tasks>\d+)",
        r"benchlog-(?P<factorA>[\w.]+)-(?P<factorB>[\w.]+)-(?P<iteration>\d+)",
        r"benchlog-(?P<factorA>[\w.]+)-(?P<factorB>[\w.]+)",
    )
)
# Names of log files of single scripts; in logs of other scripts, the numbers mean something else.
_NAMES_BY_SCRIPT = {
    "easywave": re.compile(r"benchlog-(?P<threads>\d+)-(?P<iteration>\d+)", re.ASCII),
    "redis-memtier": re.compile(r"benchlog-(?P<clients>\d+)-(?P<iteration>\d+)", re.ASCII),
    "unixbench": re.compile(
        r"(?P<test>[a-z]\w*(?:-[rw])?)-(?P<threads>\d+)-(?P<iteration>\d+)", re.ASCII
    ),
}
_REPEATED = re.compile(r"(.+)\.(\d{1,6})", re.ASCII)
# Output of time(1), which mmtests keeps for most benchmarks; it is the result of kernbench and
# builds.
_TIMES = re.compile(r"time-(?P<jobs>[\w.]+)-(?P<iteration>\d+)", re.ASCII)


class _Test(Struct, frozen=True, kw_only=True):
    # One benchmark in one iteration: start in s since 1970, exit status as recorded by mmtests.
    name: str
    begin: int | None = None
    status: int | None = None
    has_ended: bool = True


class _Log(Struct, frozen=True, kw_only=True):
    # One file with output; ``key`` is its sort key.
    name: str
    key: tuple[tuple[tuple[int, str], ...], int, str]
    parameters: Mapping[str, str]
    is_time: bool = False
    is_known: bool = True


class _Iteration(Struct, frozen=True, kw_only=True):
    # jiffies at the start of the first test; None if not recorded.
    folder: str
    start: int | None
    tests: tuple[_Test, ...]
    jiffies: int | None


@importer("mmtests", summary="results directory of mmtests, e.g. work/log/NAME")
def import_mmtests(tree: Tree) -> Imported:
    """Read a results directory; each reboot between two iterations begins a new boot.

    Damaged files are left out, with a note.

    :raises InputError: the directory has no results of mmtests, results of several recordings, or
        no output that a benchmark parser reads
    """
    folders = _find_iterations(tree)
    iterations = sorted(
        (_read_iteration(tree, folder) for folder in folders),
        key=lambda each: (each.start is None, each.start or 0, _number(each.folder)),
    )
    reading = _Reading(tree)
    boots = [reading.read_boot(boot) for boot in _to_boots(iterations)]
    if not any(boot.runs for boot in boots):
        tests = list_some(sorted(reading.unread), MOST_NAMES)
        raise InputError(
            f"{tree.root}: no output that a benchmark parser reads"
            f"{f' ({tests})' if tests else ''}; see `schedperf import --help`"
        )
    return Imported(
        label=_label(tree, folders),
        boots=tuple(boots),
        originals=tuple(sorted(reading.used)),
        notes=(*_notes(iterations), *reading.notes(), *tree.skipped),
        incomplete=_unfinished(iterations),
    )


def _find_iterations(tree: Tree) -> list[str]:
    marked = {
        name.rpartition("/")[0]
        for name in tree.files()
        if _is_stamp(name.rpartition("/")[2]) and "mmtests-activity" not in name
    }
    numbered = {
        name[: match.end()]
        for name in tree.files()
        if (match := re.search(r"(?:^|/)iter-\d{1,6}(?=/)", name, re.ASCII))
    }
    folders = sorted(numbered or marked, key=lambda name: (_parent(name), _number(name)))
    if not folders and any(_log_folders(tree, "")):
        folders = [""]
    if not folders:
        raise InputError(
            f"{tree.root}: not a results directory of mmtests (expected {STAMPS} or iter-0, "
            "e.g. in work/log/NAME); check the path"
        )
    _refuse_shared(tree, folders)
    recordings = sorted({_parent(folder) for folder in folders} if numbered else set(folders))
    if len(recordings) > 1:
        names = list_some([clean_line(name) for name in recordings], MOST_NAMES)
        raise InputError(
            f"{tree.root}: contains {len(recordings)} recordings ({names}; expected one); pass one "
            "of these directories"
        )
    return folders


def _refuse_shared(tree: Tree, folders: Sequence[str]) -> None:
    # Versions until May 2019 keep all recordings in one directory: tests-timestamp-NAME.
    files = [name for name in tree.files() if _parent(name) in folders]
    names = {
        match[1]
        for name in files
        if (match := re.fullmatch(rf"{STAMPS}-(.+)", strip_compression(name.rpartition("/")[2])))
    }
    if len(names) > len(folders):
        listed = list_some([clean_line(name) for name in sorted(names)], MOST_NAMES)
        raise InputError(
            f"{tree.root}: contains {len(names)} recordings ({listed}; expected one); copy "
            f"{STAMPS}-NAME and the directories that end with NAME to a directory of their own"
        )


def _is_stamp(file: str) -> bool:
    return strip_compression(file).startswith((STAMPS, *ACTIVITIES))


def _parent(folder: str) -> str:
    return folder.rpartition("/")[0]


def _number(folder: str) -> int:
    match = _ITERATION.search(folder)
    return int(match[1]) if match else 0


def _label(tree: Tree, folders: Sequence[str]) -> str:
    parent = _parent(folders[0]).rpartition("/")[2] if _ITERATION.search(folders[0]) else ""
    if parent:
        return parent
    above = tree.root.resolve()
    return above.parent.name if _ITERATION.search(above.name) else tree.name


def _join(*parts: str) -> str:
    return "/".join(filter(None, parts))


def _read_iteration(tree: Tree, folder: str) -> _Iteration:
    names = [name for name in tree.files(folder) if _is_stamp(name.rpartition("/")[2])]
    own = [name for name in names if _parent(name) == folder]
    text = "".join(_text(tree, name) for name in own if STAMPS in name)
    activity = "".join(_text(tree, name) for name in own if STAMPS not in name)
    tests = _parse_tests(text) or _parse_activity(activity)
    start = _START.search(text)
    known = {test.name for test in tests}
    others = sorted(
        name for name in _log_folders(tree, folder) if _test_of(name, known) not in known
    )
    state = _text(tree, _join(folder, "tests-sysstate.gz")) or _text(
        tree, _join(folder, "tests-sysstate")
    )
    jiffies = _JIFFIES.search(state)
    begins = [test.begin for test in tests if test.begin is not None]
    return _Iteration(
        folder=folder,
        start=parse_seconds(start[1]) if start else min(begins, default=None),
        tests=(*tests, *(_Test(name=name) for name in others)),
        jiffies=int(jiffies[1]) if jiffies else None,
    )


def _text(tree: Tree, name: str) -> str:
    return (tree.read_or_skip(name) or b"").decode(errors="replace")


def _parse_tests(text: str) -> list[_Test]:
    ends = {match[1]: int(match[2]) for match in _END.finditer(text)}
    return [
        _Test(
            name=match[1],
            begin=parse_seconds(match[2]),
            status=ends.get(match[1]),
            has_ended=match[1] in ends,
        )
        for match in {match[1]: match for match in _BEGIN.finditer(text)}.values()
    ]


def _parse_activity(text: str) -> list[_Test]:
    begun = {match[3]: match for match in _ACTIVITY.finditer(text) if match[2] == "start"}
    ended = {match[3]: match for match in _ACTIVITY.finditer(text) if match[2] == "end"}
    return [
        _Test(
            name=name,
            begin=parse_seconds(match[1]),
            status=int(ended[name][4]) if name in ended and ended[name][4] else None,
            has_ended=name in ended,
        )
        for name, match in begun.items()
    ]


def _log_folders(tree: Tree, folder: str) -> dict[str, list[str]]:
    """Return the directories with output of benchmarks, by the name of the directory above."""
    found: dict[str, list[str]] = {}
    for test in tree.folders(folder):
        for name in LOG_FOLDERS:
            if tree.files(_join(test, name)):
                found.setdefault(test.rpartition("/")[2], []).append(_join(test, name))
    return found


def _test_of(folder: str, known: Iterable[str]) -> str:
    # Versions until May 2019 append the name of the recording: hackbench-pipes-4.0.0-vanilla.
    if folder in known:
        return folder
    starts = [name for name in known if folder.startswith(f"{name}-")]
    return max(starts, key=len, default=folder)


def _to_boots(iterations: Sequence[_Iteration]) -> list[list[_Iteration]]:
    boots: list[list[_Iteration]] = [[iterations[0]]]
    for before, after in pairwise(iterations):
        if _was_rebooted(before, after):
            boots.append([])
        boots[-1].append(after)
    return boots


def _was_rebooted(before: _Iteration, after: _Iteration) -> bool:
    """Return whether jiffies show that the kernel was started between two iterations.

    False if that is unknown.
    """
    if before.jiffies is None or after.jiffies is None:
        return False
    ticks = after.jiffies - before.jiffies
    if ticks <= 0:
        return True
    if before.start is None or after.start is None:
        return False
    seconds = after.start - before.start
    return seconds >= SHORTEST_S and not any(
        abs(ticks / rate - seconds) <= TOLERANCE * seconds for rate in TICKS
    )


class _Reading:
    # State of the import: the files that were used, and the tests without a parser.

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._parsers = tuple(all_parsers().values())
        self.used: set[str] = set()
        # By benchmark: iterations whose output no parser reads, and iterations without output.
        self.unread: dict[str, list[str]] = {}
        self._missing: dict[str, list[str]] = {}
        # Iterations without benchmarks, and the total number of iterations.
        self._empty: list[str] = []
        self._iterations = 0
        self._files_unread: list[str] = []

    def read_boot(self, iterations: Sequence[_Iteration]) -> ImportedBoot:
        host, config = self._read_host(iterations[0].folder)
        return ImportedBoot(
            host=host,
            config=config,
            runs=tuple(run for each in iterations for run in self._read_runs(each)),
        )

    def notes(self) -> Iterator[str]:
        if self.unread:
            yield f"no parser reads the output of {self._list(self.unread)}"
        if self._missing:
            yield f"no output of {self._list(self._missing)}"
        if self._empty:
            yield f"no benchmarks in {list_some(self._empty, MOST_NAMES)}"
        if self._files_unread:
            names = list_some([clean_line(name) for name in self._files_unread], MOST_NAMES)
            yield f"no parser reads the output in {names}"

    def _list(self, tests: Mapping[str, Sequence[str]]) -> str:
        # Iterations are listed unless all are affected.
        names = [
            test if len(folders) == self._iterations else f"{test} ({list_some(folders, 2)})"
            for test, folders in tests.items()
        ]
        return list_some(names, MOST_NAMES)

    def _read_runs(self, iteration: _Iteration) -> Iterator[ImportedRun]:
        self._use_marks(iteration.folder)
        self._iterations += 1
        where = clean_line(iteration.folder or "iter-0")
        if not iteration.tests:
            self._empty.append(where)
        folders = _log_folders(self._tree, iteration.folder)
        names = [test.name for test in iteration.tests]
        for test in iteration.tests:
            paths = [
                path
                for folder, paths in folders.items()
                if _test_of(folder, names) == test.name
                for path in paths
            ]
            runs = [run for path in paths for run in self._read_logs(path, test)]
            if not runs:
                gaps = self.unread if paths else self._missing
                gaps.setdefault(clean_line(test.name), []).append(where)
            yield from runs

    def _use_marks(self, folder: str) -> None:
        for name in self._tree.files(folder):
            if _parent(name) == folder and _is_stamp(name.rpartition("/")[2]):
                self.used.add(name)

    def _read_logs(self, folder: str, test: _Test) -> Iterator[ImportedRun]:
        names = [name for name in self._tree.files(folder) if self._is_output(name)]
        repeated = _find_repeated(_stem(name, folder) for name in names)
        logs = sorted(
            (_describe(name, _stem(name, folder), repeated, test.name) for name in names),
            key=lambda log: log.key,
        )
        runs = [run for log in logs if not log.is_time for run in self._read_log(log, test)]
        yield from runs or (run for log in logs if log.is_time for run in self._read_log(log, test))

    def _is_output(self, name: str) -> bool:
        # If a log exists both plain and compressed, the plain file is read.
        plain = strip_compression(name)
        is_other = NOT_OUTPUT.fullmatch(plain.rpartition("/")[2])
        return is_other is None and self._tree.find(plain) == name

    def _read_log(self, log: _Log, test: _Test) -> Iterator[ImportedRun]:
        name = log.name
        if not log.is_known and self._tree.size(name) > LARGEST_UNKNOWN_BYTES:
            return
        content = self._tree.read_or_skip(name)
        if not content:
            return
        text = content.decode(errors="replace")
        if not any(parser.claims(text) for parser in self._parsers):
            if log.is_known and not log.is_time:
                self._files_unread.append(name)
            return
        self.used.add(name)
        start = None if test.begin is None else to_utc(test.begin)
        point, parts = self._split(log, content, text)
        for number, part in enumerate(parts, start=1):
            yield ImportedRun(
                workload=test.name,
                command=(test.name,),
                point=_name_parameters(point, test.name),
                text=part,
                source=f"{name}, run {number} of {len(parts)}" if len(parts) > 1 else name,
                start=start,
            )

    def _split(self, log: _Log, content: bytes, text: str) -> tuple[Mapping[str, str], list[bytes]]:
        if log.parameters != {"log": unixbenchd.LOG}:
            return log.parameters, _cut(content, text)
        commands = _join(_parent(log.name), unixbenchd.COMMANDS)
        point = unixbenchd.read_command(_text(self._tree, commands))
        if point and (name := self._tree.find(commands)) is not None:
            self.used.add(name)
        return point or log.parameters, unixbenchd.cut_runs(content, point.get("test"))

    def _read_host(self, folder: str) -> tuple[hosts.Fields, bytes | None]:
        def text(name: str) -> str:
            path = _join(folder, name)
            if (file := self._tree.find(path)) is not None:
                self.used.add(file)
            return _text(self._tree, path)

        config = self._read_config(folder)
        state = text("tests-sysstate.gz") or text("tests-sysstate")
        parts = (
            hosts.read_lscpu(text("lscpu.txt")),
            hosts.read_mitigations(text("cpu-vulnerabilities.txt")),
            hosts.read_frequency(text("cpupower.txt")),
            hosts.read_command_line(text("dmesg")),
            hosts.read_tunables(text("kernel-tuning.txt")),
            hosts.read_preemption(text("preempt-dynamic")),
            hosts.read_distro(text("os-release")),
            hosts.read_memory(state),
            hosts.read_config(config) if config is not None else {},
            hosts.read_uname(text("kernel.version")),
        )
        return hosts.merge(parts), config

    def _read_config(self, folder: str) -> bytes | None:
        files = [
            name
            for name in self._tree.files(folder)
            if _parent(name) == folder and name.rpartition("/")[2].startswith("kconfig-")
        ]
        # There may be several after an update of the kernel package.
        if len(files) != 1:
            return None
        self.used.add(files[0])
        return self._tree.read_or_skip(files[0])


def _stem(name: str, folder: str) -> str:
    file = strip_compression(name.removeprefix(f"{folder}/"))
    return file.removesuffix(".log").removesuffix(".txt")


def _find_repeated(stems: Iterable[str]) -> set[str]:
    """Return the names to which scripts of mmtests append an iteration: "tcp-2" for "tcp-2.1".

    A single number that is not the first iteration is part of the name: "foo-6.12".
    """
    numbers: dict[str, list[int]] = {}
    for stem in stems:
        if match := _REPEATED.fullmatch(stem):
            numbers.setdefault(match[1], []).append(int(match[2]))
    return {base for base, found in numbers.items() if len(found) > 1 or min(found) <= 1}


def _describe(name: str, stem: str, repeated: Container[str], test: str) -> _Log:
    own = [pattern for script, pattern in _NAMES_BY_SCRIPT.items() if test.startswith(script)]
    for pattern in (*own, *_NAMES, _TIMES):
        if match := pattern.fullmatch(stem):
            groups = {name: text for name, text in match.groupdict().items() if text != "_"}
            iteration = int(groups.pop("iteration", "0"))
            return _Log(
                name=name,
                key=(_ranks(groups), iteration, stem),
                parameters=groups,
                is_time=pattern is _TIMES,
            )
    # A script of mmtests that repeats a measurement appends its number: tcp-1024-100M-2.1.
    match = _REPEATED.fullmatch(stem)
    is_repeated = match is not None and match[1] in repeated
    base, iteration = (match[1], int(match[2])) if match and is_repeated else (stem, 0)
    # Names become part of the point's text.
    parameters = {"log": re.sub(r"[^\w.+-]", "_", base)}
    return _Log(
        name=name, key=(((0, base),), iteration, stem), parameters=parameters, is_known=False
    )


def _name_parameters(parameters: Mapping[str, str], test: str) -> dict[str, str]:
    # For most benchmarks, only the script of mmtests defines the first parameter.
    is_sysbench = test.startswith("sysbench")
    return {
        "threads" if is_sysbench and name == "factorA" else name: text
        for name, text in parameters.items()
    }


def _ranks(groups: Mapping[str, str]) -> tuple[tuple[int, str], ...]:
    # Sort numbers by value, other text by name.
    return tuple((int(text) if text.isdigit() else 0, text) for text in groups.values())


def _cut(content: bytes, text: str) -> list[bytes]:
    """Return the text of each run in a log, to which mmtests appends one run after the other.

    A log whose runs do not begin with the same known line is returned as one run.
    """
    first = [match[0] for match in _FIRST_LINE.finditer(text)]
    if len(first) < 2 or len(set(first)) > 1:  # noqa: PLR2004 # one run
        return [content]
    lines = content.splitlines(keepends=True)
    mark = first[0].encode()
    starts = [index for index, line in enumerate(lines) if line.startswith(mark)]
    if len(starts) != len(first):
        return [content]
    # What precedes the first run, e.g. a message, belongs to it.
    starts[0] = 0
    return [b"".join(lines[a:b]) for a, b in pairwise((*starts, len(lines)))]


def _unfinished(iterations: Sequence[_Iteration]) -> str | None:
    names = [
        clean_line(f"{test.name} ({each.folder})" if each.folder else test.name)
        for each in iterations
        for test in each.tests
        if not test.has_ended
    ]
    return f"mmtests did not finish {list_some(names, MOST_NAMES)}" if names else None


def _notes(iterations: Sequence[_Iteration]) -> Iterator[str]:
    failed = [
        clean_line(f"{test.name} ({each.folder or 'iter-0'}: {test.status})")
        for each in iterations
        for test in each.tests
        if test.status
    ]
    if failed:
        yield f"mmtests recorded an exit status other than 0 of {list_some(failed, MOST_NAMES)}"
    if len(iterations) > 1 and any(each.jiffies is None for each in iterations):
        yield (
            "the files do not show whether the machine was rebooted between iterations, so they "
            "count as runs of one boot"
        )
    if any(each.start is None for each in iterations):
        yield "mmtests recorded no times, so iterations are in the order of their numbers"
