# SPDX-License-Identifier: GPL-2.0-or-later
"""``schedperf publish``: write static pages of results, without private strings."""

import re
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from schedperf.publish.pages.publish import Published

EPILOG = """\b
Examples:
  schedperf compare base.tar new.tar --json compare.json
  schedperf publish compare.json site
  schedperf history add base.tar new.tar
  schedperf publish --store history site
"""


def _check_url(_ctx: click.Context, _option: click.Parameter, text: str | None) -> str | None:
    if text is not None and not re.fullmatch(r"https?://[!-~]{1,500}", text):
        raise click.BadParameter(f"invalid URL {text[:80]!r} (expected https://…)")
    return text


@click.command(epilog=EPILOG)
@click.argument(
    "paths",
    metavar="[CULPRIT|COMPARISON]...",
    nargs=-1,
    type=click.Path(path_type=Path),
)
@click.argument("out", metavar="OUT", type=click.Path(path_type=Path))
@click.option(
    "--store",
    metavar="DIR|URL",
    help="Write the pages of a lab from the store of `schedperf history`: today, series, machines, "
    "nights, decisions.",
)
@click.option(
    "--private",
    "is_private",
    is_flag=True,
    help="Leave nothing out, for the lab's own eyes: OUT is then a private site for ever.",
)
@click.option(
    "--without-tree",
    "without_trees",
    metavar="TREE",
    multiple=True,
    help="With --store: publish nothing about this tree.",
)
@click.option(
    "--public",
    "public",
    metavar="NAME",
    multiple=True,
    help="Publish this name although a private field contains it, e.g. a host name that is a "
    "common word.",
)
@click.option(
    "--bundles",
    is_flag=True,
    help="Publish the bundles of comparisons, too: results and host.json, redacted; no profiles.",
)
@click.option(
    "--update",
    is_flag=True,
    help="Publish a culprit that has changed since as r/KEY/2/, r/KEY/3/ and so on.",
)
@click.option(
    "--base-url",
    metavar="URL",
    callback=_check_url,
    help="State where the site is published, for the links of atom.xml, e.g. "
    "https://lab.example/schedperf.",
)
def command(
    paths: tuple[Path, ...],
    *,
    out: Path,
    store: str | None,
    is_private: bool,
    without_trees: tuple[str, ...],
    public: tuple[str, ...],
    bundles: bool,
    update: bool,
    base_url: str | None,
) -> None:
    """Write static pages of results, without private strings.

    CULPRIT and COMPARISON are JSON files, of `culprit new` and `compare --json`. The comparisons
    of a culprit are found beside it. OUT is the directory of the site: index.html, atom.xml, c/ID/
    per comparison and r/KEY/ per culprit. What is published never changes: publishing the same
    again has no effect. With --store, the pages of a lab are written, too; they change every
    night. Names of machines and accounts, addresses, folders, private kernel parameters and
    printed lines are left out.
    """
    # Imported here so that --help of all commands stays fast.
    from datetime import UTC, datetime  # noqa: PLC0415

    from schedperf.publish.pages.publish import publish  # noqa: PLC0415

    if not paths and store is None:
        raise click.UsageError("nothing to publish; name records, or a store by --store")
    now = datetime.now(UTC)
    if paths:
        done = publish(
            paths,
            out,
            now=now,
            public=public,
            update=update,
            bundles=bundles,
            base_url=base_url,
            is_private=is_private,
        )
        _print(done, out)
    if store is not None:
        from schedperf.publish.dashboard.build import publish_lab  # noqa: PLC0415

        built = publish_lab(
            store,
            out,
            today=now.date(),
            public=public,
            is_private=is_private,
            without_trees=without_trees,
            base_url=base_url,
        )
        click.echo(f"{out / 'index.html'}: {built.written} files written")
        if built.left_out:
            click.echo(f"replaced private strings in {built.left_out} texts", err=True)


def _print(published: "Published", out: Path) -> None:
    for address, is_new in published.new.items():
        click.echo(f"{out / address / 'index.html'}{'' if is_new else ' (already published)'}")
    if published.left_out:
        click.echo("left out or replaced in what is published:", err=True)
    for what, count in published.left_out.items():
        click.echo(f"{count:7}  {what}", err=True)
