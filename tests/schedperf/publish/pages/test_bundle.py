# SPDX-License-Identifier: GPL-2.0-or-later
"""Published bundles have the results of the originals, and no private string."""

import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from schedperf.compare.bundles import compare_bundles
from schedperf.inputs.bundle.open import open_bundle
from schedperf.model.comparison import Comparison
from schedperf.model.errors import SchedperfError
from schedperf.publish.culprit.record import Culprit
from schedperf.publish.pages.bundle import find_bundle, redact_bundle
from schedperf.publish.pages.private import PrivateStrings
from schedperf.publish.pages.publish import publish
from tests.schedperf.publish.pages.canaries import HOST_NAME, has_canary
from tests.schedperf.publish.pages.conftest import PRIVATE_HOST
from tests.schedperf.publish.pages.test_publish import FIRST, contents, write

MakeBundle = Callable[..., Path]


def values(comparison: Comparison) -> list[Any]:
    return [
        (row.question, [value.value for value in (*row.values_base, *row.values_new)], row.ratio)
        for row in comparison.rows
    ]


def test_published_bundles_compare_like_the_originals(found: Comparison, tmp_path: Path) -> None:
    site = tmp_path / "site"
    publish(write(tmp_path / "found", found), site, now=FIRST, bundles=True)
    folder = site / "c" / found.id[:16]
    bundles = [open_bundle(folder / name) for name in ("base.tar", "new.tar")]
    assert values(compare_bundles(bundles)) == values(found)
    assert not any(bundle.broken_members() or bundle.caveats for bundle in bundles)
    for name, content in contents(site).items():
        assert not has_canary(content.decode()), name
    before = contents(site)
    publish(write(tmp_path / "found", found), site, now=FIRST, bundles=True)
    assert contents(site) == before


def test_pages_link_to_published_bundles(
    found: Comparison, retested: Comparison, culprit: Culprit, tmp_path: Path
) -> None:
    site = tmp_path / "site"
    publish(write(tmp_path / "found", found), site, now=FIRST, bundles=True)
    publish(write(tmp_path, found, retested, culprit), site, now=FIRST)
    address = f"c/{found.id[:16]}/"
    index = (site / "index.html").read_text()
    page = (site / f"r/{culprit.key}/index.html").read_text()
    for name in ("base.tar", "new.tar"):
        assert f'href="{address}{name}"' in index
        assert f'href="../../{address}{name}"' in page
    assert index.count(".tar") == page.count(".tar") == 4
    assert f"c/{retested.id[:16]}/index.html" in page


def test_profiles_and_files_of_the_machine_are_left_out(
    make_bundle: MakeBundle, tmp_path: Path
) -> None:
    path = make_bundle(
        tmp_path / "base.tar",
        host=PRIVATE_HOST,
        runs=[{}, {"kind": "instrumented", "files": {"perf_profile/perf.data": b"x"}}],
        files={"boots/0/layout/System.map": "ffff T canary"},
    )
    redacted = tmp_path / "redacted.tar"
    redacted.write_bytes(redact_bundle(open_bundle(path), PrivateStrings(())))
    names = open_bundle(redacted).names()
    assert [name for name in names if "/runs/" in name] == [
        "boots/0/runs/000/run.json",
        "boots/0/runs/000/stderr",
        "boots/0/runs/000/stdout",
    ]
    assert not any("layout" in name for name in names)
    assert not has_canary(redacted.read_bytes().decode())


SECRETS = (
    "canary17.corp.example", "eve@canary.example", "10.1.2.3", "02:42:ac:11:22:33", "fd00::9",
    "c0ffee00-99aa-4bbb-8ccc-998877665544", "wwn-0x5000c500a1b2c3d4", "TOKEN=canary0123",
    "/home/canary/x", "USER=canary", "SUDO_USER=canary", "API_TOKEN='canary12'",
    '{"password": "canary2"}', "--password 'canary'", "PASSWORD=12345678",
)  # fmt: skip


def test_planted_secrets_are_not_published(make_bundle: MakeBundle, tmp_path: Path) -> None:
    host = {
        "system": {"hostname": "canary17.corp.example", "serial": "canary-serial"},
        "kernel": {"cmdline": f"nohz=off token=canary-kernel {' '.join(SECRETS)}"},
        "canary": {"canary": list(SECRETS)},
        "environment": {"API_KEY": "canary-key"},
    }
    runs: list[dict[str, Any]] = [
        {
            "label": f"canary17 {secret}",
            "setup": f"echo {secret}",
            "command": ["env", secret, "hackbench"],
            "service": {"command": secret, "program": secret, "version": secret, secret: secret},
            "rusage": {secret: 1},
            "files": {"perf_profile/perf.data": secret.encode(), f"{index}-canary": b"canary"},
        }
        for index, secret in enumerate(SECRETS)
    ]
    path = make_bundle(
        tmp_path / "base.tar",
        host=host,
        runs=runs,
        files={"boots/0/canary-10.1.2.3": "canary", "boots/0/kallsyms": "ffff T canary17"},
    )
    content = redact_bundle(open_bundle(path), PrivateStrings(())).decode()
    found = [each for each in (*SECRETS, "canary", "lab17") if each.lower() in content.lower()]
    assert not found


def test_links_and_attributes_of_members_are_left_out(
    make_bundle: MakeBundle, tmp_path: Path
) -> None:
    path = make_bundle(tmp_path / "base.tar", runs=2)
    named = tmp_path / "named.tar"
    with tarfile.open(path) as old, tarfile.open(named, "w", format=tarfile.PAX_FORMAT) as new:
        for member in old:
            member.pax_headers = {"SCHILY.xattr.user.canary": "canary", "comment": "canary"}
            member.uname = member.gname = "canary"
            new.addfile(member, old.extractfile(member))
    assert b"canary" in named.read_bytes()
    assert b"canary" not in redact_bundle(open_bundle(named), PrivateStrings(()))


@pytest.mark.parametrize(
    ("run", "message"),
    [
        ({"stdout": f"Time: 1.0 on {HOST_NAME}\n"}, r"stdout contains a private string"),
        ({"stdout": "Time: 1.0\nlog: /home/bob/log\n"}, r"stdout contains a private string"),
        (
            {"point": {"groups": "1", "file": "/home/bob/x"}},
            "parameters of boots/0/runs/000 contain",
        ),
    ],
)
def test_a_bundle_with_a_private_output_is_refused(
    run: dict[str, Any], message: str, make_bundle: MakeBundle, tmp_path: Path
) -> None:
    bundle = open_bundle(make_bundle(tmp_path / "base.tar", host=PRIVATE_HOST, runs=[run]))
    with pytest.raises(SchedperfError, match=message):
        redact_bundle(bundle, PrivateStrings(()))


def test_a_host_name_that_is_public_may_be_in_the_output(
    make_bundle: MakeBundle, tmp_path: Path
) -> None:
    runs = [{"stdout": "Time: 1.0\n"}]
    host = {**PRIVATE_HOST, "system": {"hostname": "time"}}
    bundle = open_bundle(make_bundle(tmp_path / "base.tar", host=host, runs=runs))
    assert b"Time: 1.0" in redact_bundle(bundle, PrivateStrings((), public=["TIME"]))


def test_only_the_bundle_of_the_comparison_beside_its_file_is_read(
    found: Comparison, make_bundle: MakeBundle, tmp_path: Path
) -> None:
    side = found.sides[0]
    json = tmp_path / "compare.json"
    # It is where the comparison says; no path of a file is opened.
    assert Path(side.path).is_file()
    with pytest.raises(SchedperfError, match=r"bundle base\.tar .*not found .*beside the JSON"):
        find_bundle(side, json)
    beside = Path(side.path).rename(tmp_path / "base.tar")
    assert find_bundle(side, json).path == beside
    make_bundle(beside, runs=3)
    with pytest.raises(SchedperfError, match="not the bundle of side base"):
        find_bundle(side, json)
