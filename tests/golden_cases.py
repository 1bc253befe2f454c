# SPDX-License-Identifier: GPL-2.0-or-later
"""The golden cases: what is given to which commands, and what all of them together must reach."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from tests import golden_evidence as evidence
from tests import golden_inputs as inputs
from tests import golden_tables as tables

Make = Callable[[Path], None]


@dataclass(frozen=True, kw_only=True, slots=True)
class Case:
    """Some files, and commands that read them.

    :param make: writes the files into an empty directory
    :param outputs: by the name of the expectation the command line that prints it
    """

    name: str
    make: Make
    outputs: Mapping[str, str]


def comparison(name: str, make: Make, arguments: str = "base.tar new.tar") -> Case:
    """Return a case that prints one comparison in every form that is read as text."""
    return Case(
        name=name,
        make=make,
        outputs={
            "text.txt": f"compare {arguments}",
            "all.txt": f"compare {arguments} --all",
            "markdown.md": f"compare {arguments} --format markdown",
            "compare.json": f"compare {arguments} --json -",
        },
    )


def several(name: str, make: Make, arguments: str) -> Case:
    """Return a case that has a table of its own in a mail as well."""
    compared = comparison(name, make, arguments)
    return replace(
        compared,
        outputs={**compared.outputs, "lkml.txt": f"compare {arguments} --format lkml"},
    )


def example(name: str) -> Case:
    """Return a case of two bundles that were really recorded.

    All of the Markdown of cluster-percpu is more than a golden file may be.
    """
    files = "base.tar.xz new.tar.xz"
    compared = comparison(f"example-{name}", inputs.example(name), files)
    more = {
        "lkml.txt": f"compare {files} --format lkml",
        "results.csv": f"compare {files} --format csv",
        "show.txt": "show --runs base.tar.xz",
    }
    if name != "cluster-percpu":
        more["all.md"] = f"compare {files} --all --format markdown"
    return Case(name=compared.name, make=compared.make, outputs={**compared.outputs, **more})


def seed(name: str) -> Case:
    make = several if name.endswith("-kernels") else comparison
    return make(f"seed-{name}", tables.seed(f"{name}.csv"), f"{name}.csv")


COMMANDS = (
    "ab", "bisect", "c2c", "compare", "completion", "culprit", "doctor", "exec", "history",
    "import", "layout", "mail", "mechanism", "night", "pack", "profile", "publish", "record",
    "rerun", "schedstat", "series", "show", "vm",
)  # fmt: skip

CASES = (
    *map(example, ("cluster-percpu", "deep-cgroup", "deep-cgroup-arm64", "other-load")),
    *map(
        seed,
        (
            "load-balance-large",
            "load-balance-small",
            "schbench-cfs-bandwidth",
            "stress-ng-cfs-bandwidth",
            "tbench-6148",
            "tbench-7742",
            "tbench-zen3-4-kernels",
            "tbench-zen3-5-kernels",
            "tg-load-avg-cascade-lake",
            "tg-load-avg-icelake",
            "tg-load-avg-spr",
        ),
    ),
    comparison("claims", tables.claims, "claims.csv --base tip"),
    comparison("shapes", tables.shapes, "shapes.csv"),
    comparison("wandering", tables.wandering, "wandering.csv"),
    comparison("regression", inputs.regression),
    comparison("improvement", inputs.improvement),
    comparison("no-change", inputs.no_change),
    comparison("few-runs", inputs.few_runs, "base.tar new.tar --strict"),
    comparison("two-blocks", inputs.two_blocks),
    comparison("same-kernel", inputs.same_kernel),
    comparison("same-data", inputs.same_kernel, "base.tar base.tar"),
    comparison("not-comparable", inputs.not_comparable),
    comparison(
        "allowed",
        inputs.allowed,
        "base.tar new.tar --allow cpu.microcode --allow cpu.nonsense --margin 5%",
    ),
    comparison("other-workload", inputs.other_workload),
    comparison("emulated", inputs.emulated),
    comparison("sweep", inputs.sweep),
    several("three-sides", inputs.three_sides, "base.tar faster.tar slower.tar"),
    several("four-kernels", inputs.four_kernels, "tip.tar cluster.tar repair.tar v2.tar"),
    several(
        "five-layouts",
        inputs.five_layouts,
        "tip.tar patch-1.tar moved-declaration.tar align-first.tar custom-layout.tar",
    ),
    several("three-settings", inputs.three_settings, "slice-a.tar slice-b.tar slice-c.tar"),
    several(
        "two-by-two", inputs.two_by_two, "tip-off.tar tip-on.tar patched-off.tar patched-on.tar"
    ),
    comparison(
        "settings-apart",
        inputs.settings_apart,
        "tip-off.tar tip-on.tar patched-off.tar patched-on.tar",
    ),
    comparison("boots", inputs.boots),
    comparison("unpaired", inputs.unpaired),
    comparison("incomplete", inputs.incomplete),
    comparison("newer-format", inputs.newer_format),
    comparison("without-manifest", inputs.without_manifest, "base.tar new.tar.gz"),
    comparison("nothing-known", inputs.nothing_known),
    comparison("bad-lines", inputs.bad_lines),
    comparison("imported", inputs.imported, "mmtests:base mmtests:new"),
    comparison("imported-values", inputs.imported_values, "benchfmt:base.txt benchfmt:new.txt"),
    comparison("all-failed", inputs.all_failed),
    comparison("rules", inputs.rules),
    comparison("history", inputs.with_history, "base.tar new.tar --history past.tar"),
    comparison("until-decided", inputs.until_decided),
    comparison("retest", inputs.retest),
    comparison("recorded-benchmarks", inputs.recorded_benchmarks),
    comparison("printing-benchmarks", inputs.printing_benchmarks),
    comparison("pelt", evidence.pelt),
    comparison("placement", evidence.placement),
    comparison("wakeup-latency", evidence.wakeup_latency),
    comparison("where-tasks-wait", evidence.where_tasks_wait),
    comparison("hybrid", evidence.hybrid),
    comparison("schedstat", evidence.schedstat),
    comparison("schedstat-versions", evidence.schedstat_versions),
    comparison("without-schedstats", evidence.without_schedstats),
    comparison("load", evidence.load),
    comparison("realtime", evidence.realtime),
    comparison("realtime-unequal", evidence.realtime_unequal),
    comparison("system-counters", evidence.system_counters),
    comparison("sched-ext", evidence.sched_ext),
    comparison("scx-stats", evidence.scx_stats),
    comparison("scx-stats-alone", evidence.scx_stats_alone),
    several("account", evidence.account, "base.tar new.tar"),
    several("sampled-account", evidence.sampled_account, "base.tar new.tar"),
    several("waits", evidence.waits, "base.tar new.tar"),
    several("energy", evidence.energy, "base.tar new.tar"),
    comparison("counters", evidence.counters),
    comparison("only-instrumented", evidence.only_instrumented),
    comparison("profiles", evidence.profiles),
    comparison("story", evidence.story, "base.tar new.tar --boot-sd 1%"),
    comparison("one-boot-each", evidence.story),
    comparison("cache-lines", evidence.cache_lines),
    comparison("bystanders", evidence.bystanders),
    comparison("unreadable-captures", evidence.unreadable_captures),
    Case(
        name="other-formats",
        make=inputs.sweep,
        outputs={
            "benchfmt.txt": "compare base.tar new.tar --format benchfmt",
            "mmtests.txt": "compare base.tar new.tar --format mmtests",
            "junit.xml": "compare base.tar new.tar --format junit",
            "github.txt": "compare base.tar new.tar --format github",
        },
    ),
    Case(
        name="layout-command",
        make=inputs.published_layouts,
        outputs={
            "two.txt": "layout tip.map patch-1.map",
            "two.json": "layout tip.map patch-1.map --json -",
            "five.txt": "layout tip.map patch-1.map moved-declaration.map align-first.map "
            "custom-layout.map --percpu --limit 3",
            "one.txt": "layout tip.map --percpu",
            "one.json": "layout tip.map --percpu --json -",
            "hot.txt": "layout tip.map patch-1.map --hot sd_llc_id,sd_llc",
            "same.txt": "layout tip.map tip.map",
        },
    ),
    Case(
        name="profile-command",
        make=evidence.perf_files,
        outputs={
            "two.txt": "profile base.data new.data --symbols kallsyms",
            "two.json": "profile base.data new.data --symbols kallsyms --json -",
            "one.txt": "profile base.data --symbols kallsyms --sort node,symbol --limit 5",
            "one.json": "profile base.data --symbols kallsyms --cpu 0-1 --json -",
            "stacks.folded": "profile base.data new.data --symbols kallsyms --export folded",
            "stacks.json": "profile base.data --symbols kallsyms --export speedscope",
            "unnamed.txt": "profile base.data --comm hackbench",
        },
    ),
    Case(
        name="c2c-command",
        make=evidence.memory_files,
        outputs={
            "two.txt": "c2c base.data new.data --symbols kallsyms --layout System.map "
            "--units percpu.json --limit 4",
            "two.json": "c2c base.data new.data --symbols kallsyms --layout System.map "
            "--units percpu.json --json -",
            "one.txt": "c2c new.data --units percpu.json --sort records --limit 3",
        },
    ),
    Case(
        name="schedstat-command",
        make=evidence.schedstat_files,
        outputs={
            "two.txt": "schedstat base new --hz 250",
            "two.json": "schedstat base new --json -",
            "one.txt": "schedstat base/000/before,base/000/after --sort name",
        },
    ),
    Case(
        name="show-interrupted",
        make=inputs.interrupted_sweep,
        outputs={
            "runs.txt": "show --runs base.tar.xz",
            "show.txt": "show base.tar.xz",
            "show.json": "show --json base.tar.xz",
            "stdout.txt": "show --cat boots/0/runs/000/stdout base.tar.xz",
        },
    ),
    Case(
        name="show-two-boots",
        make=inputs.two_boots,
        outputs={
            "runs.txt": "show --verify --runs new.tar",
            "show.json": "show --verify --json new.tar",
        },
    ),
    Case(
        name="damaged",
        make=inputs.damaged,
        outputs={
            "compare.txt": "compare base.tar cut.tar",
            "edited.txt": "compare base.tar edited.tar",
            "cut.txt": "show --runs cut.tar",
            "cut.json": "show --json cut.tar",
            "verify.txt": "show --verify edited.tar",
            "verify.json": "show --verify --json edited.tar",
        },
    ),
    Case(
        name="refused",
        make=inputs.wrong_files,
        outputs={
            "missing.txt": "compare base.tar missing.tar",
            "one.txt": "compare base.tar",
            "no-archive.txt": "compare base.tar text.tar",
            "other-archive.txt": "compare base.tar other.tar",
            "newer-format.txt": "compare base.tar newer.tar",
            "mixed.txt": "compare base.tar table.csv",
            "empty.txt": "compare empty.csv",
            "no-number.txt": "compare table.csv",
            "margin.txt": "compare base.tar base.tar --margin 80",
            "format.txt": "compare base.tar base.tar --format yaml",
            "formats.txt": "compare base.tar base.tar --format csv --json -",
            "base.txt": "compare base.tar base.tar --base new",
            "known.txt": "compare base.tar base.tar --history base.tar",
            "option.txt": "compare --marg 3% base.tar base.tar",
            "command.txt": "compar base.tar base.tar",
            "layout.txt": "layout text.tar",
            "profile.txt": "profile text.tar",
            "c2c.txt": "c2c text.tar",
            "schedstat.txt": "schedstat text.tar",
            "show.txt": "show text.tar",
        },
    ),
    Case(
        name="help",
        make=inputs.nothing,
        outputs={
            "schedperf.txt": "--help",
            "version.txt": "--version",
            **{f"{name}.txt": f"{name} --help" for name in COMMANDS},
        },
    ),
)
