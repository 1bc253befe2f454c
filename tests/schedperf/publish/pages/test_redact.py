# SPDX-License-Identifier: GPL-2.0-or-later
"""Published records contain no private strings."""

import time
from collections import Counter

import pytest

from schedperf.model.comparison import Comparison
from schedperf.model.errors import SchedperfError
from schedperf.model.json_text import to_json
from schedperf.publish.pages.allowed import read_allowed
from schedperf.publish.pages.host import private_values, redact_command_line, redact_host
from schedperf.publish.pages.private import PrivateStrings
from schedperf.publish.pages.redact import (
    people_of_public_commits,
    redact_comparison,
    redact_culprit,
)
from schedperf_collectors.redaction.private import name_users
from tests.schedperf.publish.pages.canaries import (
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


@pytest.mark.repeats
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
        ("root=UUID=c0ffee00-99aa-4bbb-8ccc-998877665544", "root=UUID=[private]"),
        ("root=UUID=c0ffee00-99aa-4bbb-8ccc-9988", "root=UUID=[private]"),
        ("root=UUID=c0ffee00-99aa-4b…", "root=UUID=…"),
        ("by bob@corp.exa…", "by …"),
        ("run -o /home/bo…", "run -o …"),
        ("[private]…", "[private]…"),
        ("0, 1, 2 …", "0, 1, 2 …"),
        ("ping 10.0.0.1-10.0.0.9 ::ffff:10.0.0.1", "ping [private] ::ffff:[private]"),
        ("fd00:1:2::/48 and 2001:db8::", "[private] and [private]"),
        ("addr:fd00::1, to:02:42:ac:11:22:33", "addr:[private], to:[private]"),
        ("std::add::fd a::bad::g", "std::add::fd a::bad::g"),
        ("0242.ac11.2233 wwn-0x5000c500a1b2c3d4", "[private] [private]"),
        ("bob%40corp.example.com", "[private]"),
        ("API_TOKEN=abc0123 run --password=hunter2", "[private] run --[private]"),
        ("ghp_0123456789abcdefghijABCDEFGHIJ", "[private]"),
        ("Bearer eyJhbGciOi.eyJzdWIiOiIx.abc", "[private]"),
        ("bearer of bad news", "bearer of bad news"),
        ("run --password hunter2 --token 5 --secret -v", "run [private] --token 5 --secret -v"),
        ("aws_secret_access_key=abc0", "[private]"),
        ("log_10.0.0.1_1 on ip-10-0-0-1", "log_[private]_1 on [private]"),
        ("run_c0ffee00-99aa-4bbb-8ccc-998877665544_1", "run_[private]_1"),
        ("sched:sched_switch at 12:34:56", "sched:sched_switch at 12:34:56"),
        ("C0FFEE0099AA4BBB8CCC998877665544", "[private]"),
        ("tokens=128 token=128 secret 9", "tokens=128 token=128 secret 9"),
        ("TOKENS=128 API_TOKEN='abcd1234' x", "TOKENS=128 [private] x"),
        ('SECRET="two words" x PASSWORD=12345678', "[private] x [private]"),
        ('{"password": "hunter2", "n": 3}', '{"[private], "n": 3}'),
        (r"{\"api_key\":\"hunter2\"}", r"{\"[private]}"),
        ("run --password 'hunter2' --token \"x y\"", "run [private] [private]"),
        ("token='abc", "[private]"),
        (f"20261121-1000-2000 {'0' * 32}", f"20261121-1000-2000 {'0' * 32}"),
        ("std::vector<int> a::b", "std::vector<int> [private]"),
        ("nfs10.23.45.67 v10.23.45.67", "nfs[private] v10.23.45.67"),
        ("run_10_23_45_67 1_2_3_4", "run_[private] 1_2_3_4"),
        ("52_54_00_ab_cd_ef", "[private]"),
        ("52%3A54%3A00%3Aab%3Acd%3Aef", "[private]"),
        ("net52:54:00:ab:cd:ef x52:54:00:ab:cd:efx", "net[private] x[private]x"),
        ("disk6ba7b810-9dad-11d1-80b4-00c04fd430c8", "disk[private]"),
        ("x6ba7b8109dad11d180b400c04fd430c8", "x[private]"),
        (r"uuid-6ba7b810\x2d9dad\x2d11d1\x2d80b4\x2d00c04fd430c8", "uuid-[private]"),
        ("6ba7b810-9dad 20261121-1000", "[private] 20261121-1000"),
        ("root=PARTUUID=1234abcd-02", "root=[private]"),
        ("2001-0db8-0000-0000-0000-0000-0000-1234.ipv6-literal.net", "[private]"),
        (f"sha256 {'c0ffee00' * 8}", f"sha256 {'c0ffee00' * 8}"),
        ("", ""),
    ],
)
def test_addresses_and_folders_are_removed(text: str, expected: str) -> None:
    assert PrivateStrings(()).remove(text) == expected


def test_names_are_whole_words_in_any_case() -> None:
    private = PrivateStrings(["lab-x", "pe", "perf"])
    assert private.names == ("lab-x",)
    assert private.remove("LAB-X perf lab-xy mylab-x lab-x_y") == (
        "[private] perf lab-xy mylab-x [private]_y"
    )
    assert private.find("on lab-x.") == "lab-x"
    assert private.find("perf") is None


@pytest.mark.parametrize("word", ["jdoe42s", "myjdoe42", "MYJDOE42BOX", "jdoe42"])
def test_a_name_with_a_digit_is_also_found_in_a_word(word: str) -> None:
    private = PrivateStrings(["jdoe42", "ab1"])
    assert "jdoe42" not in private.remove(f"run {word} ab12").lower()
    assert private.remove("ab12 ab1") == "ab12 [private]"
    assert private.find(word) is not None


def test_the_domain_of_a_host_is_private_without_the_host_too() -> None:
    names = set(private_values({"system": {"hostname": "kestrel.corp.example.com"}}))
    assert names == {"kestrel.corp.example.com", "kestrel", "corp.example.com"}
    assert set(private_values({"system": {"hostname": "kestrel.local"}})) == {
        "kestrel.local",
        "kestrel",
    }


@pytest.mark.parametrize("size", range(1, len("console=ttyS7,115200")))
def test_no_part_of_a_name_that_was_cut_is_left(size: int) -> None:
    private = PrivateStrings(["lab17", "console=ttyS7,115200", "Rack 7, unit B"])
    for name in private.names:
        assert private.remove(f"on {name[:size]}… of 3") == "on … of 3"


def test_a_name_is_also_found_as_the_name_of_a_command() -> None:
    private = PrivateStrings(["lab17.corp.example"])
    assert private.remove("lab17.corp.exam 7") == "[private] 7"


def test_the_domain_of_a_private_host_is_removed() -> None:
    private = PrivateStrings(["lab17"])
    assert private.remove("lab17.corp.example, lab17. Of lab17") == (
        "[private], [private]. Of [private]"
    )


def test_an_account_at_a_private_host_is_removed() -> None:
    private = PrivateStrings(["lab17"])
    assert private.remove("scp bob@lab17:x eve@lab17.corp.example:") == (
        "scp [private]:x [private]:"
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


def test_accounts_are_also_named_by_variables() -> None:
    text = r"""USER=bob LOGNAME='eve' USER=\"dan\" SUDO_USER=carl /home/ada/x"""
    assert name_users(text) == {"bob", "eve", "dan", "carl", "ada"}
    command = ("env", "USER=alice", "SUDO_USER=carl", "hackbench")
    published = redact_comparison(replace_fields(Seeder(3).comparison(), command=command)).record
    assert published.command == ("env", "USER=[private]", "SUDO_USER=[private]", "hackbench")


@pytest.mark.parametrize(
    "text",
    ["a", "a-", "a.", "1.", "ab:", "a@", "_", "--token ", "/", "./", "…", "a…", "token='\""],
)
def test_long_texts_are_redacted_in_linear_time(text: str) -> None:
    private = PrivateStrings(["lab17"])
    began_s = time.process_time()
    # The start of an address, which goes on to the end, and is none.
    private.remove(f"0::{text * ((1 << 17) // len(text))}g")
    # Quadratic: minutes. Linear: 1 s on a slow machine.
    assert time.process_time() - began_s < 20


@pytest.mark.parametrize("word", ["a@", "[private]", "a/", "0:", "://"])
def test_the_folders_of_a_long_word_are_removed_in_time(word: str) -> None:
    began_s = time.process_time()
    PrivateStrings(["lab-17.example.com"]).remove_folders(word * (1 << 16))
    # One that tries from each place takes minutes.
    assert time.process_time() - began_s < 10.0
