"""Cache lines of kernels: who shares one, what moved, and whether it matters.

``load_kernel`` reads whatever is there of a kernel; ``compare_units`` compares who shares a
line; the table of hot variables says which of the changes matter.
"""
