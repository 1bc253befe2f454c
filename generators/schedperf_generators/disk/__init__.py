# SPDX-License-Identifier: GPL-2.0-or-later
"""Disks with a boot loader, two of Debian's kernels and sshd, and the machines that boot them."""
