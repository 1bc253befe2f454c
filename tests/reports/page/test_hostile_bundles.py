# SPDX-License-Identifier: GPL-2.0-or-later
"""A bundle in which every text is an attack: nothing of it is alive in the page.

The bundles are those of an example, with each text that somebody could have chosen replaced: all
texts of its JSON members, names of functions, of tasks, of interrupts and of cgroups, and
what the workload printed. What a reader must find to read a member at all stays.
"""

import hashlib
import io
import json
import re
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.chromium import Tab

pytestmark = pytest.mark.browser

EXAMPLE = Path(__file__).parents[3] / "examples" / "cluster-percpu"

ATTACKS = {
    "script": "</script><script>window.pwned=1</script><img src=x onerror='window.pwned=1'>",
    "attribute": "\"' onmouseover='window.pwned=1' javascript:window.pwned=1 `${window.pwned=1}`",
    "template": "{{7*7}}{% for x in ().__class__.__mro__ %}{{x}}{% endfor %}",
    "bidi": "\u202egnirts\u2066\u200b\x1b[31m\x07",
    "long": "<b>" + "n" * 10_000,
}

# Words that a reader looks for, digests and numbers in texts: without them there is no member.
KEPT_KEYS = set(
    """
    format schema status kind path sha256 collector point point_key boot_id session side
    better regex build_id mechanism method clock started enabled observable levels_from
    source nodes cpus units cause event idle answer table vendor created
    start function
    """.split()  # noqa: SIM905 # words are easier to read than a list of them
)
NUMBER = re.compile(r"[-+]?(?:0x)?[0-9a-fA-F.]+(?:-[0-9]+)?")

METRIC = {"unit": "s", "better": "lower", "regex": r"took (\d+\.\d+)"}

# Without these the attack would have reached nobody.
SECTIONS = (
    "counters",
    "flames",
    "layout",
    "pelt",
    "placement",
    "profile",
    "schedstat",
    "system_counters",
)

# What a page has no use for, and no text may make.
FOREIGN = "main :is(script:not([type^='application/']), img, iframe, object, embed, link, form)"
# What the name of a task would become.
TASK = "[...document.querySelectorAll('i')].some((one) => one.textContent === 'x')"
ALIVE = "typeof window.pwned !== 'undefined'"
LINKS = "[...document.querySelectorAll('a[href]')].map((one) => one.getAttribute('href'))"
HANDLERS = (
    "[...document.querySelectorAll('*')].flatMap((one) => one.getAttributeNames())"
    ".filter((name) => name.startsWith('on'))"
)


def attack_json(value: Any, text: str, key: str = "") -> Any:
    if isinstance(value, str):
        # Names of scheduling domains and of what could not be seen have limits of their own.
        attack = text[:1000] if key in ("level", "what", "reason") else text
        return value if key in KEPT_KEYS or NUMBER.fullmatch(value) else attack
    if isinstance(value, list):
        return [attack_json(item, text, key) for item in value]
    # Functions of the kernel are names, and are refused where they are none.
    if isinstance(value, dict) and key not in ("markers", "empty_probe"):
        return {name: attack_json(item, text, name) for name, item in value.items()}
    return value


def attack_json_member(content: bytes, text: str) -> bytes:
    return json.dumps(attack_json(json.loads(content), text)).encode()


def attack_record(content: bytes, text: str) -> bytes:
    """Attack run.json or manifest.json, and let it ask for one more metric."""
    attacked = attack_json(json.loads(content), text)
    attacked["metric"] = [METRIC | {"name": text[:900]}]
    return json.dumps(attacked).encode()


def attack_symbols(content: bytes, text: str) -> bytes:
    """Put the attack in front of every other name of System.map or kallsyms."""
    lines, word = content.split(b"\n"), word_of(text)
    for place in range(0, len(lines), 2):
        head, space, name = lines[place].rpartition(b" ")
        lines[place] = head + space + word + name
    return b"\n".join(lines)


def attack_functions(content: bytes, text: str) -> bytes:
    head, _, functions = content.partition(b"\n")
    word = word_of(text)
    named = re.sub(rb"(?m)^(\S+ \S+ )", lambda found: found[1] + word, functions)
    return attack_json_member(head, text) + b"\n" + named


def attack_interrupts(content: bytes, text: str) -> bytes:
    name = word_of(text)[:40] + b":"
    return re.sub(rb"(?m)^ *\w+:(?=.*[A-Za-z])", lambda _: name, content)


def word_of(text: str) -> bytes:
    """Return an attack that is one word, as long as names are."""
    return re.sub(r"\s", "", text)[:200].encode()


ATTACKED_FILES: dict[str, Callable[[bytes, str], bytes]] = {
    r"(run|manifest)\.json": attack_record,
    r".*\.json": attack_json_member,
    r"System\.map|kallsyms": attack_symbols,
    r".*\.sym": attack_functions,
    r"interrupts|softirqs": attack_interrupts,
    r"stdout": lambda content, text: content + f"took 1.5 s {text}\n".encode(),
    r"cgroups": lambda content, text: content.replace(b"=== /", b"=== /" + word_of(text)),
    # As long as the name of the task that it replaces, so that all lengths stay true.
    r"perf\.data": lambda content, _: content.replace(b"hackbench\0", b"<i>x</i>}\0"),
}


def attack_member(name: str, content: bytes, text: str) -> bytes:
    """Return a member with its texts replaced; a file of numbers as it is."""
    last = name.rpartition("/")[2]
    for pattern, attack in ATTACKED_FILES.items():
        if re.fullmatch(pattern, last):
            return attack(content, text)
    return content


def attack_bundle(source: Path, target: Path, text: str) -> Path:
    """Write a bundle with attacked members and right checksums."""
    members: dict[str, bytes] = {}
    with tarfile.open(source) as tar:
        for info in tar:
            file = tar.extractfile(info)
            assert file is not None
            members[info.name] = attack_member(info.name, file.read(), text)
    manifest = json.loads(members["manifest.json"])
    for capture in manifest["captures"]:
        if capture["status"] == "ok":
            content = members[capture["path"]]
            capture["sha256"] = hashlib.sha256(content).hexdigest()
            capture["bytes"] = len(content)
    members["manifest.json"] = json.dumps(manifest).encode()
    with tarfile.open(target, "w") as tar:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return target


@pytest.fixture(params=ATTACKS)
def attacked(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Give the page and the record of two attacked bundles."""
    text = ATTACKS[request.param]
    sides = [
        str(attack_bundle(EXAMPLE / f"{side}.tar.xz", tmp_path / f"{side}.tar", text))
        for side in ("base", "new")
    ]
    command = [sys.executable, "-m", "schedperf", "compare", *sides]
    output = ["--html", str(tmp_path / "report.html"), "--json", str(tmp_path / "record.json")]
    done = subprocess.run([*command, *output], capture_output=True, text=True)
    assert done.returncode in (0, 1), done.stderr
    assert not re.search("[\x1b\x07\u202e\u2066\u200b]", done.stdout + done.stderr)
    return tmp_path


def test_nothing_that_strangers_wrote_is_alive_in_the_page(
    open_tab: Callable[..., Tab], attacked: Path
) -> None:
    record = json.loads((attacked / "record.json").read_text())
    absent = {name: record["sections"][name]["reason"] for name in SECTIONS}
    assert {name: reason for name, reason in absent.items() if reason is not None} == {}
    tab = open_tab(offline=True)
    page = tab.page
    dialogs: list[str] = []
    page.on("dialog", lambda dialog: dialogs.append(dialog.message))
    page.goto((attacked / "report.html").as_uri())
    page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    # Names of functions are drawn when their data has come.
    page.locator("figure.flames[data-drawn]").first.wait_for(timeout=60_000)
    page.mouse.move(700, 450)
    assert not page.evaluate(ALIVE)
    assert page.locator(FOREIGN).count() == 0
    assert not page.evaluate(TASK)
    assert page.evaluate(HANDLERS) == []
    assert all(link.startswith(("#", "data:")) for link in page.evaluate(LINKS))
    assert "49" not in page.title()
    assert [*tab.console, *tab.errors, *dialogs] == []
    assert all(one.startswith(("file:", "data:", "blob:")) for one in tab.requests)
    assert page.evaluate("document.documentElement.scrollWidth") <= 1400
