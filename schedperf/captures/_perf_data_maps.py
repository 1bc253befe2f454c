"""Which file a task had mapped at an address, from the MMAP, MMAP2 and FORK records."""

from bisect import bisect_right
from collections import defaultdict

# The pid of what the kernel itself maps: its text and its modules.
KERNEL_PID = 0xFFFFFFFF

# A shell's child's child … inherits what it has not mapped itself; real chains are short.
_MOST_ANCESTORS = 64


class Mappings:
    """All mappings of a recording.

    Times are ignored: a task that maps two files at one address, one after the
    other, has the later one. Address randomisation makes that rare, and only
    user space is affected.
    """

    def __init__(self) -> None:
        self._files: defaultdict[int, dict[int, tuple[int, str]]] = defaultdict(dict)
        self._parents: dict[int, int] = {}
        self._starts: dict[int, list[int]] = {}

    def add(self, pid: int, start: int, length: int, name: str) -> None:
        """Note a mapping of a process."""
        self._files[pid][start] = (start + length, name)
        self._starts.pop(pid, None)

    def fork(self, parent: int, child: int) -> None:
        """Note that a process has its parent's mappings; a new thread has the same pid."""
        if parent != child:
            self._parents[child] = parent

    def find(self, pid: int, address: int) -> str | None:
        """Return the mapped file's name: a path, ``[vdso]``, ``//anon``; None if nobody knows."""
        owner: int | None = pid
        for _ in range(_MOST_ANCESTORS):
            if owner is None:
                break
            name = self._find_own(owner, address)
            if name is not None:
                return name
            owner = self._parents.get(owner)
        return None

    def _find_own(self, pid: int, address: int) -> str | None:
        files = self._files.get(pid)
        if files is None:
            return None
        starts = self._starts.get(pid)
        if starts is None:
            starts = self._starts[pid] = sorted(files)
        index = bisect_right(starts, address)
        if index == 0:
            return None
        end, name = files[starts[index - 1]]
        return name if address < end else None
