# SPDX-License-Identifier: GPL-2.0-or-later
import os
import platform
import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest

from schedperf.inputs.kernel.kallsyms import parse_kernel_symbols
from schedperf.inputs.kernel.user_symbols import FileSymbols, file_symbols
from schedperf.inputs.perf_data import Keep, Recording, read_perf_data
from schedperf.inputs.perf_data.recording import MODE_GUEST_KERNEL, MODE_HYPERVISOR, MappedFile
from schedperf.inputs.symbols.local_symbols import symbols_for_file
from schedperf.inputs.symbols.places import Placed, Symbols, build_ids, place_samples
from schedperf.model.place import UNKNOWN, Place, is_kernel_dso
from schedperf_collectors.contract import Function
from schedperf_generators.events import PLAIN, Event, SampleType
from schedperf_generators.features import BuildId, Machine
from schedperf_generators.installed_perf import run_perf
from schedperf_generators.kernel import MODULES_START, KernelImage, lay_out
from schedperf_generators.perf_data import PerfData, write_perf_data
from schedperf_generators.records import (
    KERNEL_PID,
    PROT_EXEC,
    PROT_READ,
    Ksymbol,
    Mmap,
    Mmap2,
    Record,
)
from schedperf_generators.samples import (
    CONTEXT_KERNEL,
    CONTEXT_USER,
    MODE_KERNEL,
    MODE_USER,
    Sample,
)
from tests.shared_data import shared

KERNEL_BUILD_ID, LIBRARY_BUILD_ID = bytes(range(20)), bytes(range(20, 40))
FUNCTIONS = ("startup_64", "load_balance", "update_load_avg.isra.0", "do_syscall_64")
LIBRARY, LIBRARY_AT, OTHER_AT = "/usr/lib/libbench.so", 0x7F0000000000, 0x7F1100000000
PROGRAM, PROGRAM_AT = "/usr/bin/bench", 0x400000
BPF_AT = MODULES_START + 0x900000
SYMBOLS_OF_LIBRARY = file_symbols([Function(0x1000, 0x100, "send"), Function(0x1100, 0, "recv"),
                                   Function(0x1200, 8, "last")])  # fmt: skip


def image(slide: int = 0x1C00000) -> KernelImage:
    module = lay_out(("nf_hook", "nf_free"), MODULES_START + 0x1000, module="nf_conntrack")
    return KernelImage(functions=(*lay_out(FUNCTIONS), *module), slide=slide)


KERNEL = image()


def record(
    samples: Sequence[Sample], *, mapped: Sequence[Record] = (), chains: bool = True
) -> Recording:
    kind = PLAIN | SampleType.CALLCHAIN if chains else PLAIN
    maps = [
        Mmap2(pid=1000, start=LIBRARY_AT, length=0x10000, path=LIBRARY, build_id=LIBRARY_BUILD_ID),
        Mmap2(pid=2000, start=OTHER_AT, length=0x10000, path=LIBRARY, build_id=LIBRARY_BUILD_ID),
        Mmap2(pid=1000, start=PROGRAM_AT, length=0x1000, path=PROGRAM, page_offset=0x1000),
        Mmap2(pid=2000, start=PROGRAM_AT, length=0x1000, path=LIBRARY, page_offset=0x1000),
    ]
    data = PerfData(
        events=(Event(sample_type=kind),),
        records=(*KERNEL.mappings(), *maps, *mapped, *samples),
        machine=Machine(
            build_ids=(BuildId(path="[kernel.kallsyms]", raw=KERNEL_BUILD_ID, mode=1),)
        ),
    )
    keep = frozenset({Keep.TASK, Keep.CHAIN}) if chains else frozenset({Keep.TASK})
    return read_perf_data(write_perf_data(data), "perf.data", keep=keep)


def of_file(mapped: MappedFile) -> FileSymbols | None:
    return SYMBOLS_OF_LIBRARY if mapped.path == LIBRARY else None


def kallsyms(kernel: KernelImage = KERNEL) -> Symbols:
    return Symbols(parse_kernel_symbols(kernel.kallsyms(), "kallsyms"), of_file)


def names(placed: Placed, recording: Recording) -> dict[int, Place]:
    """Return the place of each sampled address."""
    ips = recording.samples.ip.tolist()
    return {ip: placed.places[code] for ip, code in zip(ips, placed.of_row.tolist(), strict=True)}


def user(ip: int, pid: int = 1000, chain: tuple[int, ...] = ()) -> Sample:
    return Sample(ip=ip, mode=MODE_USER, pid=pid, chain=chain)


def test_the_kernel_and_its_modules_are_named_by_the_running_addresses() -> None:
    inside = KERNEL.address("load_balance", 3)
    module = KERNEL.address("nf_hook", 9)
    recording = record(
        [Sample(ip=inside), Sample(ip=module), Sample(ip=KERNEL.address("do_syscall_64"))]
    )

    found = names(place_samples(recording, kallsyms()), recording)

    assert found[inside] == Place("load_balance", "[kernel]")
    assert found[module] == Place("nf_hook", "[nf_conntrack]")


def test_user_addresses_of_samples_in_kernel_mode_are_unknown() -> None:
    inside = KERNEL.address("load_balance", 9)
    recording = record([Sample(ip=0x7F1200001000), Sample(ip=inside)])
    for symbols in (kallsyms(), Symbols(None, of_file)):
        placed = place_samples(recording, symbols)
        dsos = {address: each.dso for address, each in names(placed, recording).items()}
        assert dsos == {0x7F1200001000: UNKNOWN, inside: "[kernel]"}


def test_the_share_of_the_kernel_is_that_of_perf() -> None:
    content = shared("data/foreign/kernel_mode_user_address.data").read_bytes()
    recording = read_perf_data(content, "perf.data", keep=frozenset(Keep))
    placed = place_samples(recording, Symbols(None, of_file))
    periods = Counter[str]()
    for code, period in zip(placed.of_row, recording.samples.period, strict=True):
        periods[placed.places[code].dso] += period
    # perf report --sort dso: 7.69% [kernel.kallsyms], 92.31% [unknown]
    assert periods["[kernel]"] / periods.total() == pytest.approx(0.0769, abs=1e-4)


def test_functions_have_the_names_of_their_symbols() -> None:
    part, renamed = KERNEL.address("update_load_avg.isra.0"), KERNEL.address("load_balance")
    recording = record([Sample(ip=part), Sample(ip=renamed)])

    found = names(place_samples(recording, kallsyms()), recording)

    assert [found[part].symbol, found[renamed].symbol] == ["update_load_avg.isra.0", "load_balance"]


def test_user_code_is_named_by_its_offset_in_the_file() -> None:
    sent, received, last, behind = (LIBRARY_AT + at for at in (0x1000, 0x11FF, 0x1207, 0x1208))
    program, nowhere = PROGRAM_AT + 8, 0x10
    recording = record([user(ip) for ip in (sent, received, last, behind, program, nowhere)])

    found = names(place_samples(recording, kallsyms()), recording)

    assert [found[ip].symbol for ip in (sent, received, last)] == ["send", "recv", "last"]
    assert found[behind] == Place("[libbench.so] unresolved", "libbench.so")
    assert found[program] == Place("[bench] unresolved", "bench")
    assert found[nowhere] == Place("[unknown] unresolved", "[unknown]")


def test_one_address_means_something_else_in_another_process() -> None:
    recording = record(
        [user(PROGRAM_AT + 8), user(PROGRAM_AT + 8, 2000), user(OTHER_AT + 0x1001, 2000)]
    )

    placed = place_samples(recording, kallsyms())

    pids = [recording.tasks[task].pid for task in recording.samples.task.tolist()]
    found = {
        (pid, ip): placed.places[code].symbol
        for pid, ip, code in zip(
            pids, recording.samples.ip.tolist(), placed.of_row.tolist(), strict=True
        )
    }
    assert found == {
        (1000, PROGRAM_AT + 8): "[bench] unresolved",
        (2000, PROGRAM_AT + 8): "send",
        (2000, OTHER_AT + 0x1001): "send",
    }


def test_unresolved_addresses_are_told_apart_by_offset_only_where_it_is_asked_for() -> None:
    behind, program = LIBRARY_AT + 0x4321, PROGRAM_AT + 8
    unknown = KERNEL.address("do_syscall_64") + 0x500000
    recording = record([user(behind), user(program), Sample(ip=unknown)])
    ids = build_ids(recording)
    assert {LIBRARY_BUILD_ID.hex(), KERNEL_BUILD_ID.hex()} <= ids

    found = names(place_samples(recording, kallsyms(), by_offset=ids), recording)

    assert found[behind] == Place("libbench.so+0x4321", "libbench.so")
    assert found[program] == Place("[bench] unresolved", "bench")
    assert re.fullmatch(r"\[kernel\]\+0x[0-9a-f]+", found[unknown].symbol)


def test_the_offset_of_a_kernel_address_does_not_depend_on_kaslr() -> None:
    assert record([Sample(ip=1)]).kernel is not None
    ip = KERNEL.address("do_syscall_64") + 0x500000
    recording = record([Sample(ip=ip)])
    text = recording.kernel
    assert text is not None
    nothing = Symbols(None, of_file)

    found = place_samples(recording, nothing, by_offset=build_ids(recording))

    assert found.places == (Place(f"[kernel]+{ip - text.address:#x}", "[kernel]"),)


def test_programs_that_were_loaded_while_perf_recorded_have_names() -> None:
    late, early = BPF_AT + 0x10, BPF_AT + 0x1010
    text = (
        KERNEL.kallsyms()
        + f"{BPF_AT:x} t bpf_prog_old\t[bpf]\n{BPF_AT + 0x1000:x} t bpf_prog_0\t[bpf]\n"
    )
    symbols = Symbols(parse_kernel_symbols(text, "kallsyms"), of_file)
    loaded = Ksymbol(address=BPF_AT, size=0x40, name="bpf_prog_6deef7357e7b4530_count")
    recording = record([Sample(ip=late), Sample(ip=early)], mapped=[loaded])

    found = names(place_samples(recording, symbols), recording)

    assert found[late] == Place("bpf_prog_6deef7357e7b4530_count", "[bpf]")
    assert found[early] == Place("bpf_prog_0", "[bpf]")


def test_code_that_the_kernel_makes_for_itself_is_the_kernels() -> None:
    at = MODULES_START + 0x800000
    text = KERNEL.kallsyms() + f"{at:x} t ftrace_trampoline\t[__builtin__ftrace]\n"
    recording = record([Sample(ip=at + 4)])
    symbols = Symbols(parse_kernel_symbols(text, "kallsyms"), of_file)

    found = place_samples(recording, symbols)

    assert found.places == (Place("ftrace_trampoline", "[kernel]"),)


def test_without_symbols_modules_and_other_modes_are_still_told_apart() -> None:
    module, packed = KERNEL.address("nf_hook", 4), MODULES_START + 0x700004
    samples = [
        Sample(ip=module),
        Sample(ip=packed),
        Sample(ip=2, mode=MODE_HYPERVISOR),
        Sample(ip=3, mode=MODE_GUEST_KERNEL),
        Sample(ip=4, mode=0),
    ]
    path = "/lib/modules/6.1.0/kernel/net/foo-bar.ko.xz"
    mapped = Mmap(pid=KERNEL_PID, start=packed - 4, length=0x1000, mode=MODE_KERNEL, path=path)
    recording = record(samples, mapped=[mapped])

    found = names(place_samples(recording, Symbols(None, of_file)), recording)

    assert found[module] == Place("[nf_conntrack] unresolved", "[nf_conntrack]")
    assert found[packed] == Place("[foo_bar] unresolved", "[foo_bar]")
    assert found[2].symbol == "[hypervisor] unresolved"
    assert found[3].symbol == "[guest kernel] unresolved"
    assert found[4].symbol == "[unknown] unresolved"


def test_frames_are_the_chain_from_the_outside_and_end_in_the_sampled_place() -> None:
    ip, caller = KERNEL.address("load_balance", 5), KERNEL.address("do_syscall_64", 7)
    chain = (CONTEXT_KERNEL, ip, caller, CONTEXT_USER, LIBRARY_AT + 0x1001, PROGRAM_AT + 5)
    recording = record(
        [
            Sample(ip=ip, chain=chain),
            Sample(ip=caller, pid=2000, chain=chain),
            user(LIBRARY_AT + 0x1001, chain=(CONTEXT_USER, LIBRARY_AT + 0x1001)),
            Sample(ip=caller, chain=()),
        ]
    )
    placed = place_samples(recording, kallsyms())

    frames = placed.frames(np.arange(len(recording.samples)))

    shown = {tuple(placed.places[place].symbol for place in row) for row in frames}
    assert shown == {
        ("[bench] unresolved", "send", "do_syscall_64", "load_balance"),
        # Process 2000 has the library where process 1000 has the program, and no library.
        ("send", "[unknown] unresolved", "do_syscall_64", "load_balance", "do_syscall_64"),
        ("send",),
        ("do_syscall_64",),
    }
    assert placed.frames(np.array([], np.int64)) == []


def test_a_recording_without_chains_or_samples_has_places_all_the_same() -> None:
    recording = record([Sample(ip=KERNEL.address("load_balance"))], chains=False)
    placed = place_samples(recording, kallsyms())
    assert placed.frames(np.array([0])) == [(0,)]

    empty = place_samples(record([]), kallsyms())
    assert empty.places == ()
    assert empty.of_row.tolist() == []


@pytest.mark.parametrize("moved_by", [0, 0x1000, -0x1000, 0x200000])
def test_a_module_names_only_addresses_where_perf_saw_it_loaded(moved_by: int) -> None:
    # It was loaded again, or in another boot without KASLR.
    at = KERNEL.address("nf_hook", 4)
    recording = record([Sample(ip=at, mode=MODE_KERNEL)])
    table = re.sub(
        r"^(\w+)(?= . \S+\t?\s*\[nf_conntrack\])",
        lambda address: f"{int(address[0], 16) + moved_by:x}",
        KERNEL.kallsyms(),
        flags=re.MULTILINE,
    )
    assert (table == KERNEL.kallsyms()) == (moved_by == 0)
    symbols = Symbols(parse_kernel_symbols(table, "kallsyms"), lambda _: None)
    placed = place_samples(recording, symbols)
    (place,) = {placed.places[index] for index in placed.of_row}
    named = Place("nf_hook", "[nf_conntrack]")
    assert place == (
        named if not moved_by else Place("[nf_conntrack] unresolved", "[nf_conntrack]")
    )


GENERATES_CODE = """
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
int main(void) {
    /* mov %edi,%ecx; loop: dec %ecx; jnz loop; ret */
    static const unsigned char code[] = {0x89, 0xf9, 0xff, 0xc9, 0x75, 0xfc, 0xc3};
    unsigned char *at = mmap(0, 4096, PROT_READ | PROT_WRITE | PROT_EXEC,
                             MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char name[64];
    long sum = 0;
    memcpy(at, code, sizeof(code));
    snprintf(name, sizeof(name), "/tmp/perf-%d.map", getpid());
    FILE *map = fopen(name, "w");
    fprintf(map, "%lx %zx LazyCompile:*hot /app/x.js:12\\n", (long)at, sizeof(code));
    fclose(map);
    puts(name);
    for (int i = 0; i < 200; i++) {
        ((void (*)(int))at)(1000000);
        for (int k = 0; k < 100000; k++)
            sum += rand();
    }
    /* perf records the build id of a kernel that it samples. */
    for (int i = 0; i < 300; i++)
        munmap(memset(mmap(0, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0),
                      1, 1 << 20), 1 << 20);
    return sum == 1;
}
"""


@pytest.fixture
def generating(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Path]:
    """Record a program that generates code and lists it in /tmp/perf-PID.map."""
    event = getattr(request, "param", "cpu-clock")
    if platform.machine() != "x86_64" or not shutil.which("gcc"):
        pytest.skip("needs gcc on x86-64")
    source, program, path = (tmp_path / name for name in ("a.c", "a.out", "perf.data"))
    source.write_text(GENERATES_CODE)
    subprocess.run(["gcc", "-O1", "-o", program, source], check=True)
    command = ["perf", "record", "-q", "-N", "-e", event, "-F", "1999", "-o", str(path)]
    done = subprocess.run([*command, str(program)], capture_output=True, text=True)
    if done.returncode:
        pytest.skip("perf cannot record here")
    yield path
    Path(done.stdout.strip()).unlink()


@pytest.mark.system
@pytest.mark.parametrize("generating", ["cpu-clock:u"], indirect=True)
def test_without_samples_in_the_kernel_generated_code_has_no_names(generating: Path) -> None:
    recording = read_perf_data(generating, "perf.data")
    assert recording.kernel_build_id is None
    notes: list[str] = []
    placed = place_samples(recording, symbols_for_file(recording, None, notes.append))
    assert not any(place.symbol.startswith("Lazy") for place in placed.places)
    assert any("addresses of JIT-compiled functions stay unresolved" in note for note in notes)


@pytest.mark.system
def test_generated_code_and_linkage_tables_have_the_names_of_perf(generating: Path) -> None:
    recording = read_perf_data(generating, "perf.data")
    if recording.kernel_build_id is None and os.geteuid() != 0:
        pytest.skip("needs root, or kernel.perf_event_paranoid of 1, to sample the kernel")
    notes: list[str] = []
    placed = place_samples(recording, symbols_for_file(recording, None, notes.append))
    ours = Counter[Place]()
    for row, index in enumerate(placed.of_row.tolist()):
        ours[placed.places[index]] += int(recording.samples.period[row])
    report = run_perf(
        "report", "-i", generating, "-t", "|", "--sort", "dso,symbol", "-F", "period,dso,symbol"
    )
    rows = re.findall(r"^ *(\d+) *\|(.+?) *\|\[\.\] ([^|]+?) *(?:\||$)", report, re.MULTILINE)
    special = {
        Place(symbol, dso): int(period)
        for period, dso, symbol in rows
        if symbol.endswith("@plt") or (dso.startswith("[JIT]") and not symbol.startswith("0x"))
    }
    assert "LazyCompile:*hot /app/x.js:12" in {symbol for symbol, _ in special}
    assert {place: ours[place] for place in special} == special
    assert any("names of JIT-compiled functions come from" in note for note in notes)


@pytest.fixture
def live(tmp_path: Path) -> Path:
    path = tmp_path / "perf.data"
    loop = "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); echo $i > /dev/null; done"
    loads = f"{loop}; ls -lR /usr >/dev/null; find /usr -newer /etc/passwd | sort | gzip | wc -c"
    # Without -a: programs of another root directory have files that are not this machine's own.
    # With -N: it writes nothing into the user's cache.
    command = ["perf", "record", "-q", "-N", "-g", "-e", "cpu-clock", "-F", "999", "-o", str(path)]
    done = subprocess.run([*command, "--", "sh", "-c", loads], capture_output=True)
    if done.returncode:
        pytest.skip("perf cannot record here")
    return path


@pytest.mark.system
def test_this_machines_own_files_name_what_was_recorded_here(live: Path) -> None:
    recording = read_perf_data(live, "perf.data")
    notes: list[str] = []

    placed = place_samples(recording, symbols_for_file(recording, None, notes.append))

    periods = np.bincount(placed.of_row, recording.samples.period, len(placed.places))
    ours = {place: period for place, period in zip(placed.places, periods, strict=True) if period}
    report = run_perf(
        "report", "-i", live, "--no-children", "-g", "none", "-t", "|", "--sort", "dso,symbol",
        "-F", "period,dso,symbol", "--no-demangle",
    )  # fmt: skip
    rows = re.findall(r"^ *(\d+) *\|(\S+) *\|\[[.k]\] ([^ |]+)", report, re.MULTILINE)
    named = {
        Place(symbol, "[kernel]" if dso.startswith("[kernel") else dso): int(period)
        for period, dso, symbol in rows
        # perf makes up names for the linkage table, and chooses other names of some addresses.
        if not symbol.startswith("0x") and not symbol.endswith("@plt")
    }
    other = {place: (period, ours.get(place)) for place, period in named.items()}
    other = {place: both for place, both in other.items() if both[0] != both[1]}
    assert sum(period for period, _ in other.values()) < 0.1 * sum(named.values()), other
    assert periods.sum() == recording.samples.period.sum()


def test_without_stacks_there_are_the_places_of_samples_alone() -> None:
    sampled, caller = KERNEL.address("load_balance"), KERNEL.address("do_syscall_64")
    unread = (CONTEXT_USER, PROGRAM_AT + 8)
    chains = (CONTEXT_KERNEL, sampled, caller, *unread), (CONTEXT_KERNEL, sampled, *unread)
    recording = record([Sample(ip=sampled, chain=chain) for chain in chains])
    placed = place_samples(recording, kallsyms())

    alone = placed.without_stacks()

    assert [place.symbol for place in alone.places] == ["load_balance"]
    assert names(alone, recording) == {sampled: Place("load_balance", "[kernel]")}
    assert alone.frames(np.arange(2)) == [(0,), (0,)]
    assert (placed.unnamed, alone.unnamed) == (frozenset({"bench"}), frozenset())


def test_what_the_kernel_maps_into_processes_is_not_the_kernel() -> None:
    kernel = ("[kernel]", "[nf_conntrack]", "[bpf]")
    mapped = ("[vdso]", "[vsyscall]", "[uprobes]", "[vectors]", "[sigpage]", "[vvar]", "[heap]")
    others = ("[unknown]", "[JIT] tid 42", "[guest]", "[guest kernel]", "[hypervisor]", "libc.so.6")
    assert [dso for dso in (*kernel, *mapped, *others) if is_kernel_dso(dso)] == [*kernel]


@pytest.mark.parametrize(
    ("name", "protection"),
    [
        ("[heap]", PROT_READ),
        ("[stack]", PROT_READ),
        ("[stack:1000]", PROT_READ),
        # perf reads them from /proc/PID/maps; a process gives them names.
        ("[anon:v8]", PROT_READ | PROT_EXEC),
        ("[anon_shmem:v8]", PROT_READ | PROT_EXEC),
    ],
)
def test_memory_of_a_process_is_not_the_kernel(name: str, protection: int) -> None:
    # With perf record -d, mappings of data are recorded; broken call chains lead into them.
    mapped = Mmap2(pid=1000, start=0x5000, length=0x1000, path=name, protection=protection)
    program = PROGRAM_AT + 8
    recording = record([user(program, chain=(CONTEXT_USER, program, 0x5008))], mapped=[mapped])
    placed = place_samples(recording, kallsyms())
    [(caller, _)] = placed.frames(np.arange(1))
    assert placed.places[caller].dso == name
    assert not is_kernel_dso(name)
