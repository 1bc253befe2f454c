# SPDX-License-Identifier: GPL-2.0-or-later
"""speedscope files, by speedscope itself: its schema, and its own import in a browser."""

import base64
import json
import shutil
import subprocess
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from schedperf.evidence.profile.export import EXPORTS
from schedperf.evidence.profile.stacks import Stacks

pytestmark = pytest.mark.system

MakeStacks = Callable[..., Stacks]

# Of the npm registry.
PACKAGE = "speedscope@1.25.0"
LONGEST_FETCH_SECONDS = 60
HOSTILE = "</script>;\x1b[31m\n\"'\u202e"


@pytest.fixture(scope="module")
def speedscope(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Fetch the package; return its directory with the web application."""
    if shutil.which("npm") is None:
        pytest.skip("no npm here; apt-get install npm")
    folder = tmp_path_factory.mktemp("speedscope")
    try:
        done = subprocess.run(
            ["npm", "pack", "--silent", PACKAGE],
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=LONGEST_FETCH_SECONDS,
        )
    except subprocess.TimeoutExpired:
        pytest.skip("the npm registry does not answer")
    archive = next(folder.glob("*.tgz"), None)
    if archive is None:
        pytest.skip(f"the npm registry does not give {PACKAGE}: {done.stderr[-200:]}")
    shutil.unpack_archive(archive, folder, filter="data")
    return folder / "package/dist/release"


@pytest.fixture
def exported(make_stacks: MakeStacks) -> str:
    base = [{"main;read;lock": 5.0, "main;write": 7.0, f"main;{HOSTILE}": 2.0}]
    new = [{"main;read;lock": 9.0, "main;write": 7.0, "main;came": 3.0}]
    events = [make_stacks(base, new), make_stacks(base, new, event="cpu-clock")]
    return "".join(EXPORTS["speedscope"](events))


def test_the_file_fits_the_schema_of_speedscope(speedscope: Path, exported: str) -> None:
    schema = json.loads((speedscope / "file-format-schema.json").read_text())
    jsonschema_rs.validate(schema, json.loads(exported))
    broken = json.loads(exported)
    del broken["profiles"][0]["weights"]
    with pytest.raises(jsonschema_rs.ValidationError):
        jsonschema_rs.validate(schema, broken)


@pytest.mark.browser
def test_speedscope_opens_the_file(
    speedscope: Path, exported: str, browser: Any, tmp_path: Path
) -> None:
    # As its command line hands a file over.
    packed = base64.b64encode(exported.encode()).decode()
    script = tmp_path / "load.js"
    script.write_text(f"speedscope.loadFileFromBase64('stacks.json', '{packed}')")
    errors: list[str] = []
    with closing(browser.new_page()) as page:
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.goto(f"{(speedscope / 'index.html').as_uri()}#localProfilePath={script}")
        page.get_by_text("base: cycles (1/4)").wait_for()
        # The next profile, by the key that its help names.
        page.keyboard.press("n")
        page.get_by_text("new: cycles (2/4)").wait_for()
        assert page.title().startswith("new against base")
    assert errors == []
