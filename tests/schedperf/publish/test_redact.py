# SPDX-License-Identifier: GPL-2.0-or-later
"""Published records contain no private strings."""

from collections import Counter

import pytest

from schedperf.model.comparison import Comparison
from schedperf.model.errors import SchedperfError
from schedperf.model.json_text import to_json
from schedperf.publish.allowed import read_allowed
from schedperf.publish.host import redact_command_line, redact_host
from schedperf.publish.private import PrivateStrings
from schedperf.publish.redact import (
    people_of_public_commits,
    redact_comparison,
    redact_culprit,
)
from tests.schedperf.publish.canaries import (
    HOST_NAME,
    Seeder,
    free_texts,
    has_canary,
    replace_fields,
)

# Redacted by their own rules.
OWN_RULES = {
    ("Caveat", "numbers"),
    ("Comparability", "equal"),
    ("Difference", "path"),
    ("SideSummary", "host"),
}


def check_records(seeds: range) -> None:
    for seed in seeds:
        seeder = Seeder(seed)
        redacted = redact_comparison(seeder.comparison())
        assert not has_canary(to_json(redacted.record)), seed
        assert redacted.left_out
        assert not any(has_canary(what) for what in redacted.left_out)
        culprit = redact_culprit(seeder.culprit(), redacted.private)
        assert not has_canary(to_json(culprit.record)), seed


def test_no_private_string_is_published() -> None:
    check_records(range(100))


@pytest.mark.slow
def test_no_private_string_of_a_thousand_records_is_published() -> None:
    check_records(range(1000))


def test_each_text_of_the_records_is_listed_or_known_to_be_private() -> None:
    allowed = read_allowed()
    lists = (allowed.texts, allowed.commands, allowed.commit_texts, allowed.public_texts)
    listed = [(kind, name) for each in lists for kind, names in each.items() for name in names]
    assert len(listed) == len(set(listed))
    private = [tuple(text.split(".")) for text in allowed.private_texts]
    # A new text: decide whether it may be published; add it to the allowed.toml of its package.
    assert {*free_texts()} - OWN_RULES == {*listed, *private}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("hackbench -g 16", "hackbench -g 16"),
        ("3 GiB/s at 1/s, n/a", "3 GiB/s at 1/s, n/a"),
        ("kernel/sched/fair.c:123", "kernel/sched/fair.c:123"),
        ("echo 0 >/proc/sys/kernel/x", "echo 0 >/proc/sys/kernel/x"),
        ("memcpy@@GLIBC_2.14 read@plt", "memcpy@@GLIBC_2.14 read@plt"),
        ("std::vector<int>::push_back", "std::vector<int>::push_back"),
        ("2026-11-21T16:43:56.6Z", "2026-11-21T16:43:56.6Z"),
        ("6.18.44.1-fc-v595", "6.18.44.1-fc-v595"),
        ("see https://lore.kernel.org/r/1", "see https://lore.kernel.org/r/1"),
        ("see https://lab.example.com/r/1", "see [private]"),
        ("/opt/bench/run -o ~/out", "run -o out"),
        ("gcc -I/home/bob/include", "gcc -Iinclude"),
        ("a 10.0.0.1 b", "a [private] b"),
        ("cd /home/bob/", "cd [private]"),
        ("ls /srv/10.0.0.1", "ls [private]"),
        ("fio --filename=/dev/disk/by-id/ata-X_S1", "fio --filename=[private]"),
        ("fio --filename=/dev/nvme0n1", "fio --filename=/dev/nvme0n1"),
        ("cat /sys/class/net/enx0242ac112233/mtu", "cat /sys/class/net/[private]/mtu"),
        ("MAC 02-42-ac-11-22-33", "MAC [private]"),
        ("", ""),
    ],
)
def test_addresses_and_folders_are_removed(text: str, expected: str) -> None:
    assert PrivateStrings(()).remove(text) == expected


def test_names_are_whole_words_in_any_case() -> None:
    private = PrivateStrings(["lab-17", "pe", "perf"])
    assert private.names == ("lab-17",)
    assert private.remove("LAB-17 perf lab-170 xlab-17 lab-17_x") == (
        "[private] perf lab-170 xlab-17 [private]_x"
    )
    assert private.find("on lab-17.") == "lab-17"
    assert private.find("perf") is None


def test_the_domain_of_a_private_host_is_removed() -> None:
    private = PrivateStrings(["lab17"])
    assert private.remove("lab17.corp.example, lab17. Of lab17") == (
        "[private], [private]. Of [private]"
    )


def test_folders_below_a_private_name_are_removed() -> None:
    private = PrivateStrings(["bob"])
    for path in ("/home/bob/project/run", "~bob/project/run", "/srv/fd00::1/project/run"):
        assert private.remove(f"cd {path} on bob") == "cd run on [private]"


def test_of_the_command_line_only_listed_parameters_are_published() -> None:
    text = "root=/dev/sda1 nohz_full=1-3 quiet isolcpus=2 ip=10.0.0.1 -- psi=1 token"
    left_out: Counter[str] = Counter()
    assert redact_command_line(text, left_out) == "nohz_full=1-3 isolcpus=2"
    assert left_out == {"kernel parameters": 5}


def test_of_the_host_only_listed_fields_are_published() -> None:
    host = {
        "cpu": {"model": "EPYC", "serial": "12345"},
        "system": {"hostname": "h", "distro": "Debian"},
        "lab": {"rack": "B2"},
        "bad": 3,
        "missing": {"cpufreq.driver": "no cpufreq", "lab.row": "unknown"},
    }
    left_out: Counter[str] = Counter()
    assert redact_host(host, lambda value: value, left_out) == {
        "cpu": {"model": "EPYC"},
        "system": {"distro": "Debian"},
        "missing": {"cpufreq.driver": "no cpufreq"},
    }
    assert left_out["host.json system.hostname"] == 1
    assert left_out["host.json cpu, other fields"] == 1
    assert left_out["host.json, other groups"] == 2


def test_redacting_twice_changes_nothing() -> None:
    once = redact_comparison(Seeder(7).comparison()).record
    assert isinstance(once, Comparison)
    assert redact_comparison(once).record == once


def test_people_of_public_commits_are_named_and_others_are_not() -> None:
    culprit = Seeder(3).culprit()
    bad = replace_fields(culprit.bad, author="Bob Doe <bob@example.com>")
    private = PrivateStrings(())
    public = replace_fields(culprit, bad=bad, merged=True)
    assert redact_culprit(public, private).record.bad.author == "Bob Doe <bob@example.com>"
    unknown = replace_fields(culprit, bad=bad, merged=False)
    assert redact_culprit(unknown, private).record.bad.author == "Bob Doe <[private]>"


def test_nothing_of_a_private_tree_is_published() -> None:
    culprit = Seeder(3).culprit()
    tree = replace_fields(culprit.tree, private=True, name="customer")
    with pytest.raises(SchedperfError, match="is private"):
        redact_culprit(replace_fields(culprit, tree=tree), PrivateStrings([HOST_NAME]))


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("./bench/run", "run"),
        ("-Ibench/include/run.h", "run.h"),
        ("cat bench/6.1-lab/x", "cat x"),
        ("cat /lib/modules/6.1-lab/build", "cat /lib/modules/6.1-lab/build"),
    ],
)
def test_of_paths_in_commands_only_the_last_part_is_published(word: str, expected: str) -> None:
    assert PrivateStrings(()).remove_folders(word) == expected


def test_an_account_of_a_person_of_a_public_commit_is_not_private() -> None:
    culprit = Seeder(3).culprit()
    bad = replace_fields(culprit.bad, subject="x", author="Bob Doe <bob@example.com>")
    public = replace_fields(culprit, bad=bad, merged=True, benchmark="/home/bob/bench")
    comparison = replace_fields(
        Seeder(3).comparison(), command=("record", "/home/bob/run", "/home/eve/run")
    )
    names = redact_comparison(comparison).private.names
    assert {"bob", "eve"} <= {*names}
    redacted = redact_comparison(comparison, people=people_of_public_commits([public]))
    assert "eve" in redacted.private.names
    assert "bob" not in redacted.private.names
    published = redact_culprit(public, redacted.private).record
    assert published.bad.author == "Bob Doe <bob@example.com>"
    hidden = replace_fields(public, merged=False)
    assert people_of_public_commits([hidden]) == []
    assert redact_culprit(hidden, redacted.private).record.bad.author == "[private] Doe <[private]>"
