# SPDX-License-Identifier: GPL-2.0-or-later
"""Render a page of the dashboard in its frame, and write the files that all pages share.

Styles and scripts are files, so that the policy of the pages forbids all others. The names of the
files contain the hash of their content.
"""

import hashlib
import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import NamedTuple

from markupsafe import Markup
from msgspec import Struct

from schedperf_reports.page.views import environment, read_template, shorten

FOLDER = "a"
_DIGITS = 12
_SCRIPTS = ("dashboard", "chart", "compare", "search")
# Stand for the title and the content of a page that is filled later; no template contains them.
_TITLE, _MAIN = "\ue000title", "\ue000main"
# The empty style sheet that Plotly fills.
_EMPTY = "'sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU='"
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "base-uri 'none'; form-action 'none'"
)
# Plotly sets styles of its elements; scripts and style sheets are ours all the same.
_POLICY_OF_CHARTS = (
    "default-src 'none'; script-src 'self'; style-src 'self'; "
    f"style-src-elem 'self' {_EMPTY}; style-src-attr 'unsafe-inline'; "
    "img-src 'self' data: blob:; base-uri 'none'; form-action 'none'"
)
# Styles that Plotly adds for maps, unless an element has this id.
_STYLE_OF_MAPS = re.compile(rb'getElementById\("([0-9a-f]{64})"\)')


class Asset(Struct, frozen=True, kw_only=True):
    """A file that pages share.

    :param path: relative to the site
    """

    path: str
    content: bytes


class Frame:
    """Renders pages in their frame.

    :param is_private: whether each page says that it is not to be published
    """

    def __init__(self, *, is_private: bool) -> None:
        self._is_private = is_private
        self._assets = read_assets()

    def shell(self, *, root: str) -> "Shell":
        """Return the frame of pages with charts, to be filled many times.

        :param root: relative path from the pages to the top of the site
        """
        main = Markup(_MAIN)  # noqa: S704 # a constant
        page = self.render("site/chart.html.j2", root=root, title=_TITLE, main=main)
        text = page.decode()
        before, _, rest = text.partition(_TITLE)
        between, _, after = rest.partition(_MAIN)
        return Shell(before, between, after)

    def render_part(self, template: str, **values: object) -> str:
        """Return a part of a page: a template without a frame."""
        return environment().get_template(template).render(**values)

    def render(self, template: str, *, root: str, title: str, **values: object) -> bytes:
        """Return a page.

        :param template: path of the template
        :param root: relative path from the page to the top of the site
        """
        has_charts = template == "site/chart.html.j2"
        page = (
            environment()
            .get_template(template)
            .render(
                root=root,
                title=title,
                is_private=self._is_private,
                policy=_POLICY_OF_CHARTS if has_charts else _POLICY,
                assets={name: asset.path for name, asset in self._assets.items()},
                style_of_maps=_style_of_maps() if has_charts else "",
                **values,
            )
        )
        return page.encode(errors="backslashreplace")


class Shell(NamedTuple):
    """A page without its title and its content."""

    before: str
    between: str
    after: str

    def fill(self, title: str, content: str) -> bytes:
        """Return a page.

        :param title: escaped
        :param content: HTML
        """
        whole = f"{self.before}{title}{self.between}{content}{self.after}"
        return whole.encode(errors="backslashreplace")


@cache
def read_assets() -> Mapping[str, Asset]:
    """Return the shared files by name: "style", "plotly", and those of the scripts."""
    scripts = {name: shorten(read_template(f"site/{name}.js")).encode() for name in _SCRIPTS}
    style = "".join(shorten(read_template(f"site/{name}.css")) for name in ("site", "lab"))
    return {
        "style": _named("site", "css", style.encode()),
        "plotly": _named("plotly", "js", _plotly()),
        **{name: _named(name, "js", content) for name, content in scripts.items()},
    }


def version_of_pages() -> str:
    """Return a hash of everything of schedperf that pages are drawn with."""
    state = hashlib.sha256()
    for folder in (files("schedperf_templates").joinpath("site"), files(__package__)):
        for entry in sorted(folder.iterdir(), key=lambda each: each.name):
            if entry.name.endswith((".j2", ".css", ".js", ".py")):
                state.update(entry.read_bytes())
    return state.hexdigest()


@cache
def _plotly() -> bytes:
    return files("plotly").joinpath("package_data/plotly.min.js").read_bytes()


@cache
def _style_of_maps() -> str:
    match = _STYLE_OF_MAPS.search(_plotly())
    return "" if match is None else match[1].decode()


def _named(name: str, suffix: str, content: bytes) -> Asset:
    digest = hashlib.sha256(content).hexdigest()[:_DIGITS]
    return Asset(path=f"{FOLDER}/{name}-{digest}.{suffix}", content=content)
