# SPDX-License-Identifier: GPL-2.0-or-later
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from schedperf.inputs.bundle.open import open_bundle
from schedperf.inputs.kernel.renames import newest_function, renamed_functions
from schedperf.inputs.side import Side
from schedperf.inputs.symbols.function_names import (
    FunctionNames,
    KernelNames,
    Words,
    read_kernel_names,
)
from schedperf.model.comparison import Comparison
from schedperf.model.schema import to_plain

OLD, NEW = KernelNames(release="6.1.0"), KernelNames(release="6.12.0")
BACKPORTED = KernelNames(release="5.14.0", symbols=frozenset({"sched_balance_rq"}))
UNKNOWN = KernelNames()
CALL = re.compile(r"\b(\w+)\(\)")


@pytest.mark.parametrize(
    ("base", "new", "expected"),
    [
        (OLD, OLD, "load_balance()"),
        (NEW, NEW, "sched_balance_rq()"),
        (OLD, NEW, "sched_balance_rq() (load_balance() in base)"),
        (NEW, OLD, "load_balance() (sched_balance_rq() in base)"),
        (BACKPORTED, BACKPORTED, "sched_balance_rq()"),
        (UNKNOWN, OLD, "load_balance()"),
        (NEW, UNKNOWN, "sched_balance_rq()"),
        (UNKNOWN, UNKNOWN, "sched_balance_rq() (load_balance() before Linux 6.10)"),
        (OLD, None, "load_balance()"),
    ],
)
def test_texts_name_functions_as_the_kernels_do(
    base: KernelNames, new: KernelNames | None, expected: str
) -> None:
    text = FunctionNames(base, new).in_text("look at sched_balance_rq(): sgc, schedule()")
    assert text == f"look at {expected}: sgc, schedule()"


def test_symbols_decide_before_the_release(
    make_bundle: Callable[..., Path], tmp_path: Path
) -> None:
    for symbols, name in (("load_balance", "load_balance"), ("schedule", "sched_balance_rq")):
        path = make_bundle(
            tmp_path / f"{symbols}.tar",
            host={"kernel": {"release": "6.12.0"}},
            files={"boots/0/layout/kallsyms": f"ffffffff81000000 t {symbols}\n"},
        )
        names = read_kernel_names(Side(name="base", bundle=open_bundle(path)))
        assert names.of("sched_balance_rq") == name


@pytest.mark.parametrize("name", ["deep-cgroup", "cluster-percpu", "deep-cgroup-arm64"])
def test_an_example_names_no_function_that_its_kernels_call_otherwise(
    compared_example: Callable[[str], Comparison], name: str
) -> None:
    bundles = [open_bundle(Path(f"examples/{name}/{side}.tar.xz")) for side in ("base", "new")]
    kernels = [read_kernel_names(Side(name="base", bundle=bundle)) for bundle in bundles]
    texts = list(strings(to_plain(compared_example(name))))
    renamed = {*renamed_functions(), *map(newest_function, renamed_functions())}
    named = {call for text in texts for call in CALL.findall(text)} & renamed
    # Former names are also words: a migration has the cause load_balance.
    newest = {*map(newest_function, renamed_functions())}
    named |= {word for text in texts for word in re.findall(r"\w+", text)} & newest
    assert {name for name in named if name not in {kernel.of(name) for kernel in kernels}} == set()


def strings(record: object) -> list[str]:
    if isinstance(record, dict):
        return [text for value in record.values() for text in strings(value)]
    if isinstance(record, list | tuple):
        return [text for value in record for text in strings(value)]
    return [record] if isinstance(record, str) else []


TABLE = """\
ffffffff81000000 T load_balance
ffffffff81000010 t nohz_load_balance_stub
ffffffffc0000000 t veth_open\t[veth]"""


@pytest.mark.parametrize("word", [*TABLE.split(), "balance", "load_balanc", "load", "", "open"])
def test_words_of_a_symbol_table_are_found_whole(word: str) -> None:
    words = Words(TABLE)
    assert [word in words, word in words] == [word in TABLE.split()] * 2
