# SPDX-License-Identifier: GPL-2.0-or-later
"""What is published or kept goes through no directory that another user redirects."""

import os
from pathlib import Path

import pytest

from schedperf.inputs.bundle.durable import sync_folder, write_durably


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes links of other users")
def test_no_directory_is_a_link_of_another_user(tmp_path: Path) -> None:
    (tmp_path / "private").mkdir()
    link = tmp_path / "outbox"
    link.symlink_to("private")
    write_durably(link / "a.json", b"old")
    os.lchown(link, 65534, 65534)
    with pytest.raises(PermissionError, match="outbox is a link of another user"):
        write_durably(link / "a.json", b"new")
    with pytest.raises(PermissionError, match="outbox is a link of another user"):
        sync_folder(link)
    assert (tmp_path / "private" / "a.json").read_bytes() == b"old"
