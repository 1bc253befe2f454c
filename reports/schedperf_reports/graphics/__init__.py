# SPDX-License-Identifier: GPL-2.0-or-later
"""Drawings: each module has :class:`~schedperf_reports.blocks.Graphic`s.

A page draws each by the templates of its class's name; other formats show its plain blocks.
"""
