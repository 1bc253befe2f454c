# SPDX-License-Identifier: GPL-2.0-or-later
"""Explain the result: apply the finding rules to the evidence, and rank the findings."""
