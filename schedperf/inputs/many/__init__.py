# SPDX-License-Identifier: GPL-2.0-or-later
"""Read many inputs: in processes of this machine or by Dask workers, from files or from URLs."""
