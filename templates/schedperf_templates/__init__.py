# SPDX-License-Identifier: GPL-2.0-or-later
"""Jinja2 templates, style sheets and our own JavaScript, as package data."""
