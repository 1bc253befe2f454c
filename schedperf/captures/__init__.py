"""Readers of captured formats, one a module: perf.data, BTF, System.map and kallsyms.

Everything here reads bytes of strangers: every length is checked before it is
used, and trouble is an :class:`~schedperf.model.errors.InputError` that says where.
"""
