# SPDX-License-Identifier: GPL-2.0-or-later
"""Define the versions of schedperf, of the bundles it reads and of the JSON it writes."""

from schedperf.evidence.c2c.record import C2cDocument
from schedperf.evidence.profile.record import ProfileDocument
from schedperf.model.comparison import SCHEMA
from schedperf.model.schema import schema_name
from schedperf_collectors import __version__
from schedperf_collectors.contract import BUNDLE_VERSION


def describe_versions() -> str:
    """Return one line: ``schedperf 0.1.0 (bundle/1.0, compare/2, profile/1, c2c/1)``."""
    bundle = ".".join(map(str, BUNDLE_VERSION))
    schemas = (SCHEMA, schema_name(ProfileDocument), schema_name(C2cDocument))
    names = ", ".join(schema.removeprefix("schedperf/") for schema in schemas)
    return f"schedperf {__version__} (bundle/{bundle}, {names})"
