# SPDX-License-Identifier: GPL-2.0-or-later
"""Define drawings: subclasses of :class:`~schedperf_reports.blocks.Graphic`, and their axes.

A page renders each with the templates named like its class; other formats show its plain blocks.
"""
