# SPDX-License-Identifier: GPL-2.0-or-later
"""schedperf.evidence.profile.alignment: what is the same code on both sides."""

from collections.abc import Collection, Sequence

from schedperf.evidence.profile import alignment
from schedperf.evidence.profile.alignment import Alignment, FileNames
from schedperf.inputs.symbols.functions import SharedNames
from schedperf.model.place import Place


def names(
    *, unnamed: Collection[str] = (), resolved: Collection[str] = (), **builds: str | None
) -> FileNames:
    return FileNames(
        builds={name: frozenset((build,)) for name, build in builds.items()},
        unnamed=frozenset(unnamed),
        resolved=frozenset(resolved),
    )


def align(base: Sequence[FileNames], new: Sequence[FileNames]) -> Alignment:
    return alignment.align(base, new, SharedNames())


def test_a_file_is_equal_by_the_runs_that_were_sampled_in_it() -> None:
    found = align([names(libc="aa", libm="bb"), names(libc="aa")], [names(libc="aa", libm="cc")])
    assert found.equal == {"libc"}
    assert align([names(libc="aa")], [names(libc=None)]).equal == frozenset()


def test_what_one_side_alone_can_name_is_one_row_and_that_is_said() -> None:
    found = align([names(resolved=["[kernel]"])], [names(unnamed=["[kernel]", "libc"])])
    whole = Place("[kernel] as a whole", "[kernel]")
    assert found.of(Place("schedule", "[kernel]")) == whole
    assert found.of(Place("[kernel] unresolved", "[kernel]")) == whole
    assert found.of(Place("main", "hackbench")) == Place("main", "hackbench")
    (note,) = found.notes
    assert note.startswith("only base has kernel symbols, so ")


def test_generated_code_is_compared_whatever_the_number_of_its_process() -> None:
    found = align([names()], [names()])
    for dso in ("[JIT] tid 4242", "[JIT] tid 4711"):
        assert found.of(Place("hot", dso)) == Place("hot", "[JIT]")
        assert found.of(Place(f"{dso} unresolved", dso)) == Place("[JIT] unresolved", "[JIT]")


def test_what_nobody_or_everybody_can_name_stays() -> None:
    nobody = align([names(unnamed=["[kernel]"])], [names(unnamed=["[kernel]"])])
    everybody = align([names(resolved=["[kernel]"])], [names(resolved=["[kernel]"])])
    assert nobody.whole == everybody.whole == frozenset()
    assert nobody.notes == ()
    mixed = align(
        [names(resolved=["[kernel]"]), names(unnamed=["[kernel]"])], [names(resolved=["[kernel]"])]
    )
    assert mixed.notes[0].startswith("not all runs have kernel symbols")
