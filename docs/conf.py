# SPDX-License-Identifier: GPL-2.0-or-later
"""Configure the documentation site: ``make docs`` writes it to ``out/docs``.

The source directory is the root of the repository, so that links between files work in the
repository and on the site.
"""

import sys
from pathlib import Path

from sphinx.application import Sphinx

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from schedperf_collectors import __version__  # noqa: E402
from scripts.reference_pages import write  # noqa: E402 # found by the path above

project = "schedperf"
author = "schedperf maintainers"
version = release = __version__
root_doc = "docs/index"
extensions = ["myst_parser", "sphinx_copybutton"]
include_patterns = [
    "README.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "docs/**.md",
    "examples/**.md",
    "bench/site/README.md",
    "bench/verdicts/README.md",
    "bench/watch/README.md",
]
exclude_patterns = [".*", "out"]
myst_heading_anchors = 3
copybutton_prompt_text = "$ "
html_theme = "furo"
html_title = f"schedperf {release}"
html_show_sourcelink = False
html_show_copyright = False
html_copy_source = False


def setup(app: Sphinx) -> None:
    """Write the pages of commands and schemas before Sphinx lists the sources."""
    app.connect("config-inited", lambda *_: write(ROOT / "docs/commands", ROOT / "docs/schemas"))
