# SPDX-License-Identifier: GPL-2.0-or-later
"""Build disks with a boot loader, two Debian kernels and sshd, and run machines that boot them."""
