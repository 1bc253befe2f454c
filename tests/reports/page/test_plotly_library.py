# SPDX-License-Identifier: GPL-2.0-or-later
"""The charts' library as a file that pages share: written once, named by what it is."""

import hashlib
import os
from pathlib import Path

import pytest

from schedperf.model.errors import InputError
from schedperf_reports.page.plotly_library import share_plotly


def test_the_shared_library_is_written_once_and_named_by_what_it_is(tmp_path: Path) -> None:
    page = tmp_path / "nights" / "1" / "report 1.html"
    assets = tmp_path / "nights" / "as sets"
    address = share_plotly(assets, page)
    (file,) = assets.iterdir()
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    assert file.name == f"plotly-{digest[:16]}.js"
    assert address == f"../as%20sets/{file.name}"
    os.utime(file, (1, 1))
    assert share_plotly(assets, page) == address
    assert file.stat().st_mtime == 1
    file.write_text("a part of it")
    share_plotly(assets, page)
    assert hashlib.sha256(file.read_bytes()).hexdigest() == digest


def test_a_directory_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("")
    with pytest.raises(InputError, match=r"taken: cannot write .*: .*; choose another"):
        share_plotly(tmp_path / "taken", tmp_path / "report.html")
