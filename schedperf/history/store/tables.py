# SPDX-License-Identifier: GPL-2.0-or-later
"""Define the tables of the database; docs/history.md describes them for queries.

The tables are stable: columns are added, never renamed, and a change that older versions of
schedperf cannot read increases :data:`SCHEMA`.
"""

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Double,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
)

SCHEMA = 1
# Identifies our SQLite files: "SPHi".
APPLICATION_ID = 0x53504869

METADATA = MetaData()

STORE = Table(
    "store",
    METADATA,
    Column("schema", Integer, nullable=False, primary_key=True, autoincrement=False),
    Column("id", Text, nullable=False),
    Column("applied_bytes", BigInteger, nullable=False),
    Column("applied_mark", Text, nullable=False),
)

INPUT = Table(
    "input",
    METADATA,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("kind", Text, nullable=False),
    Column("digest", Text, nullable=False, unique=True),
    Column("sha256", Text, nullable=False),
    Column("bytes", BigInteger, nullable=False),
    Column("format", Text),
    Column("path", Text, nullable=False),
    Column("kept", Boolean, nullable=False),
    Column("superseded_by", Integer),
    Column("night", Text),
    Column("role", Text),
    Column("purpose", Text, nullable=False),
    Column("label", Text),
    Column("created", Text),
    Column("complete", Boolean),
    Column("recorder", Text),
    Column("parser", Text, nullable=False),
    Column("machine", Text),
    Column("machine_class", Text),
    Column("kernel", Text),
    Column("tree", Text),
    Column("ref", Text),
    Column("commit_hash", Text),
    Column("subject", Text),
    Column("committed", Text),
    Column("program", Text),
    Column("problem", Text),
    Index("input_night", "night"),
    Index("input_sha256", "sha256"),
)

FACT = Table(
    "fact",
    METADATA,
    Column("input_id", ForeignKey("input.id"), primary_key=True),
    Column("key", Text, primary_key=True),
    Column("value", Text, nullable=False),
)

BOOT = Table(
    "boot",
    METADATA,
    Column("input_id", ForeignKey("input.id"), primary_key=True),
    Column("boot", Integer, primary_key=True, autoincrement=False),
    Column("boot_id", Text),
    Column("kernel", Text),
    Column("build_id", Text),
    Column("environment", Text),
    Column("emulated", Boolean),
)

RUN = Table(
    "run",
    METADATA,
    Column("input_id", ForeignKey("input.id"), primary_key=True),
    Column("boot", Integer, primary_key=True, autoincrement=False),
    Column("run", Integer, primary_key=True, autoincrement=False),
    Column("identity", Text, nullable=False),
    Column("workload", Text, nullable=False),
    Column("point", Text, nullable=False),
    Column("run_order", BigInteger, nullable=False),
    Column("round", BigInteger),
    Column("started", Text),
    Column("status", Text, nullable=False),
    Column("reason", Text),
    Index("run_identity", "identity"),
)

RESULT = Table(
    "result",
    METADATA,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("machine_class", Text, nullable=False),
    Column("workload", Text, nullable=False),
    Column("point", Text, nullable=False),
    Column("metric", Text, nullable=False),
    Column("unit", Text, nullable=False),
    Column("better", Text, nullable=False),
    Column("family", Text, nullable=False),
    UniqueConstraint("machine_class", "workload", "point", "metric", "unit", name="result_names"),
)

# Clustered by result, so that the values of one are read from a few pages.
VALUE = Table(
    "value",
    METADATA,
    Column("result_id", ForeignKey("result.id"), primary_key=True),
    Column("input_id", ForeignKey("input.id"), primary_key=True),
    Column("boot", Integer, primary_key=True, autoincrement=False),
    Column("run", Integer, primary_key=True, autoincrement=False),
    Column("value", Double, nullable=False),
    Index("value_input", "input_id"),
    sqlite_with_rowid=False,
)

SERIES = Table(
    "series",
    METADATA,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("key", Text, nullable=False, unique=True),
    Column("result_id", ForeignKey("result.id"), nullable=False),
    Column("tree", Text, nullable=False),
)

NIGHT = Table(
    "night",
    METADATA,
    Column("series_id", ForeignKey("series.id"), primary_key=True),
    Column("position", BigInteger, primary_key=True, autoincrement=False),
    Column("revision", Text, primary_key=True),
    Column("night", Text, nullable=False),
    Column("scale", Text, nullable=False),
    Column("new", Double),
    Column("new_sd", Double),
    Column("new_boots", Integer),
    Column("new_runs", Integer),
    Column("reference", Double),
    Column("reference_sd", Double),
    Column("reference_boots", Integer),
    Column("reference_runs", Integer),
    Column("reference_revision", Text),
    Column("environment", Text),
    Column("reference_environment", Text),
    Column("parser", Text),
    Column("program", Text),
    Column("emulated", Boolean),
    Column("input_id", Integer),
    sqlite_with_rowid=False,
)

# A comparison of a reference kernel with its successor.
CHAIN = Table(
    "chain",
    METADATA,
    Column("result_id", ForeignKey("result.id"), primary_key=True),
    Column("position", BigInteger, primary_key=True, autoincrement=False),
    Column("previous_revision", Text, primary_key=True),
    Column("next_revision", Text, primary_key=True),
    Column("night", Text, nullable=False),
    Column("scale", Text, nullable=False),
    Column("previous", Double, nullable=False),
    Column("previous_sd", Double),
    Column("previous_boots", Integer, nullable=False),
    Column("next", Double, nullable=False),
    Column("next_sd", Double),
    Column("next_boots", Integer, nullable=False),
    sqlite_with_rowid=False,
)

NIGHT_RUN = Table(
    "night_run",
    METADATA,
    Column("machine", Text, primary_key=True),
    Column("job", Text, primary_key=True),
    Column("night", Text, primary_key=True),
    Column("outcome", Text, nullable=False),
    Column("failed", Boolean, nullable=False),
    Column("verdict", Text),
    Column("retest", Text),
)

SERVICE = Table(
    "service",
    METADATA,
    Column("machine", Text, primary_key=True),
    Column("night", Text, primary_key=True),
    Column("reason", Text, nullable=False),
)

STEP = Table(
    "step",
    METADATA,
    Column("id", Text, primary_key=True),
    Column("series_id", ForeignKey("series.id"), nullable=False),
    Column("position", BigInteger, nullable=False),
    Column("night", Text, nullable=False),
    Column("direction", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("change", Double),
    Column("ci_low", Double),
    Column("ci_high", Double),
    Index("step_series", "series_id"),
)

STEP_CHANGE = Table(
    "step_change",
    METADATA,
    Column("step_id", ForeignKey("step.id"), primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("at", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("change", Double),
    Column("ci_low", Double),
    Column("ci_high", Double),
    Column("reason", Text, nullable=False),
    Column("numbers", Text, nullable=False),
    Column("decided_by", Text, nullable=False),
)

REQUEST = Table(
    "request",
    METADATA,
    Column("id", Text, primary_key=True),
    Column("number", Integer, nullable=False),
    Column("kind", Text, nullable=False),
    Column("machine", Text, nullable=False),
    Column("reference", Text),
    Column("new", Text),
    Column("job", Text, nullable=False),
    Column("step_id", Text),
    Column("boots", Integer, nullable=False),
    Column("boots_done", BigInteger, nullable=False),
    Column("why", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("reason", Text),
)

# What the watch has found up to a night, so that it need not read that night again.
WATCHED = Table(
    "watched",
    METADATA,
    Column("series_id", Integer, primary_key=True, autoincrement=False),
    Column("position", BigInteger, nullable=False),
    Column("version", Text, nullable=False),
    Column("found", LargeBinary, nullable=False),
)

# The only table that is not made again: nothing else knows who works.
LEASE = Table(
    "lease",
    METADATA,
    Column("request_id", Text, primary_key=True),
    Column("owner", Text, nullable=False),
    Column("until", Double, nullable=False),
)

# Tables that are equal, row by row, however often they are made; STORE holds what is applied.
REBUILT = tuple(each for each in METADATA.sorted_tables if each not in {STORE, WATCHED, LEASE})
