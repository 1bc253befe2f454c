# SPDX-License-Identifier: GPL-2.0-or-later
"""Publish results: culprit records, web pages and mails."""
