"""JSON Schema of what the section about bouncing cache lines says."""

from schedperf.model.schema import (
    COUNT,
    FLAG,
    NUMBER_OR_NULL,
    TEXT,
    TEXT_OR_NULL,
    TEXTS,
    Schema,
    array,
    both,
    or_null,
    record,
)

_COUNT_OR_NULL: Schema = {"type": ["integer", "null"], "minimum": 0}
_RATE: Schema = {**NUMBER_OR_NULL, "minimum": 0}
_OBSERVABLE: Schema = {
    "enum": ["hitm", "ibs", "peer"],
    "description": "what the machine sees of a line that another CPU had: three different things",
}

CHANGE = record(
    samples={
        **both(_COUNT_OR_NULL),
        "description": "of all runs together; null on a side that does not say how many",
    },
    base={**_RATE, "description": "accesses, sampled or not, for each `per` operations"},
    base_low={**_RATE, "description": "lower end of the 95 % interval"},
    base_high=_RATE,
    new=_RATE,
    new_low=_RATE,
    new_high=_RATE,
    ratio={**_RATE, "description": "new / base; null where base has none"},
    ratio_low={**_RATE, "description": "lower end of the 95 % interval of ratio"},
    ratio_high={**_RATE, "description": "upper end; null where nothing bounds it"},
    difference=NUMBER_OR_NULL,
    difference_low=NUMBER_OR_NULL,
    difference_high=NUMBER_OR_NULL,
    p={**NUMBER_OR_NULL, "description": "null where nothing was tested"},
    q={**NUMBER_OR_NULL, "description": "p after Benjamini and Hochberg's correction, all lines"},
    least_ratio={
        **NUMBER_OR_NULL,
        "description": "smallest ratio above 1 that as many runs find with a power of 80 %",
    },
    changed={**FLAG, "description": "it changed beyond chance: q below 0.05"},
)
ACCESS = record(
    offset={**COUNT, "description": "of the first byte in the line"},
    size={
        **_COUNT_OR_NULL,
        "description": "bytes from there to the end of the named field; null: no field of at most "
        "8 bytes is known. How far an access reached no sample says",
    },
    name=TEXT_OR_NULL,
    grade={
        "enum": ["A", "B", None],
        "description": "A: the code that touches it is known to; B: the address alone says so",
    },
    reads={**_COUNT_OR_NULL, "description": "null: the source has none by offset"},
    writes=COUNT,
    local={**COUNT, "description": "contended samples of the same node"},
    remote={**COUNT, "description": "contended samples of another node"},
    readers={**TEXT_OR_NULL, "description": "CPUs that read: 0-3,8; null: not said"},
    writers={**TEXT_OR_NULL, "description": "CPUs that wrote"},
    nodes={
        "anyOf": [
            array(
                record(
                    node={"type": "integer"}, reads=COUNT, writes=COUNT, local=COUNT, remote=COUNT
                )
            ),
            {"type": "null"},
        ],
        "description": "by the node of the CPU that read or wrote; -1: it has none; null: not said",
    },
    symbols={
        **array(record(symbol=TEXT, samples=COUNT, writes=COUNT)),
        "description": "functions, most samples first; `writes` of the samples are stores",
    },
    commands={
        "anyOf": [array(record(command=TEXT, samples=COUNT)), {"type": "null"}],
        "description": "names of the tasks that were running, most samples first; null: not said",
    },
)
SEEN = record(
    key=TEXT,
    copies={
        **_COUNT_OR_NULL,
        "description": "CPUs whose copy of a per-CPU line was touched; null: not known",
    },
    stores={**COUNT, "description": "samples of stores"},
    records={**COUNT, "description": "perf's total records, with what it counts twice"},
    loads={
        **_COUNT_OR_NULL,
        "description": "perf's total loads, with what it counts twice; null: not known",
    },
    double_counted={
        **_COUNT_OR_NULL,
        "description": "how many of the records perf counts twice; null: not known",
    },
    sharing={
        "enum": ["true", "false", "mixed", None],
        "description": "true: CPUs touch the same bytes; null: one CPU alone",
    },
    false_share={**NUMBER_OR_NULL, "description": "part of the contended samples, 0 to 1"},
    accesses=array(ACCESS),
)
_SEEN_OR_NULL: Schema = {**or_null(SEEN), "description": "null: not seen on that side"}
_LINE = record(
    row={**TEXT, "description": "id of the row, for evidence: c2c#ROW"},
    name={**TEXT_OR_NULL, "description": "the most sampled that lies on it"},
    names={**TEXTS, "description": "all that was touched, most contended samples first"},
    unmatched={**TEXT_OR_NULL, "description": "why it is compared with nothing"},
    remote=CHANGE,
    local=CHANGE,
    base=_SEEN_OR_NULL,
    new=_SEEN_OR_NULL,
)
POINT = record(
    workload=TEXT,
    point=TEXT,
    runs=both({**COUNT, "minimum": 1}),
    observable=both(_OBSERVABLE),
    events=both(TEXTS),
    period=both({**_COUNT_OR_NULL, "description": "loads from one sampled one to the next"}),
    store_period=both(_COUNT_OR_NULL),
    ldlat=both({**_COUNT_OR_NULL, "description": "least latency of a sampled load, cycles"}),
    line_bytes=both(COUNT),
    samples=both({**_COUNT_OR_NULL, "description": "of all runs together; null: not said"}),
    reason={**TEXT_OR_NULL, "description": "why no rates are compared"},
    unit={**TEXT_OR_NULL, "description": "what an operation is; null: not known"},
    per={**COUNT, "description": "rates are for so many operations"},
    model={"enum": ["Poisson", "negative binomial", None]},
    phi={**NUMBER_OR_NULL, "description": "squared variation of a rate from run to run"},
    replication={"enum": ["runs", "boots", "rounds"], "description": "what is independent"},
    least_ratio={
        **NUMBER_OR_NULL,
        "description": "smallest ratio that could have been seen, on the line with most samples",
    },
    totals=record(remote=CHANGE, local=CHANGE, stores=CHANGE),
    lines=array(_LINE),
    seen={**COUNT, "description": "how many lines there are in all"},
    seen_unmatched=both({**COUNT, "description": "how many of them are compared with nothing"}),
    notes={**TEXTS, "description": "what could not be seen, one sentence each"},
)
SCHEMA = record(
    comparisons=array(record(side=TEXT, points=array(POINT), notes=TEXTS)),
    missing=array(
        record(side=TEXT, reason={**TEXT, "description": "why, with the side's name in front"})
    ),
)
