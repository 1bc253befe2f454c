"""The HTML report: one file that opens from disk, with the network off."""

from schedperf.model import Comparison
from schedperf_reports._page import Described, render_page
from schedperf_reports.formats import Options, output_format
from schedperf_reports.sections import shown_sections


@output_format("html")
def html(comparison: Comparison, options: Options) -> str:  # noqa: ARG001 # a page has no columns
    """One self-contained page with charts, for a browser."""
    return render_page(
        comparison,
        [
            Described(
                name=section.name,
                title=section.title,
                blocks=tuple(section.describe(comparison)),
            )
            for section in shown_sections(comparison)
        ],
    )
