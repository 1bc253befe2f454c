"""JSON Schema of what is compared place by place: CPUs, pairs of nodes, bins of a histogram."""

from schedperf.model.schema import COUNT, TEXT, Schema, array, record

_NUMBERS: Schema = array({"type": ["number", "null"]})
_WHERE = {"side": TEXT, "workload": TEXT, "point": TEXT}

# What a :class:`schedperf.stats.counted.grids.Grid` fills, as its ``record`` gives it.
_GRID = {
    "replication": {"enum": ["runs", "boots", "rounds"], "description": "what n counts"},
    "n_base": COUNT,
    "n_new": COUNT,
    "base": {**_NUMBERS, "description": "of each place; mean over runs"},
    "new": _NUMBERS,
    "ci_low": {**_NUMBERS, "description": "95 % interval of new - base, in their unit"},
    "ci_high": _NUMBERS,
    "changed": {
        **array({"type": ["boolean", "null"]}),
        "description": "is the difference beyond chance, corrected for all places of the entry? "
        "null: cannot be said",
    },
}
CPUS: Schema = {
    **array(
        record(
            **_WHERE,
            measure=TEXT,
            unit={**TEXT, "description": "empty: a share of the CPU's time"},
            meaning=TEXT,
            cpus={**array(COUNT), "description": "numbers of the CPUs, the places"},
            **_GRID,
        )
    ),
    "description": "what each CPU counted",
}


def bins(description: str, **what: Schema) -> Schema:
    """Describe histograms of two sides, as :func:`schedperf.stats.counted.histograms.compare_bins`
    gives them."""
    described = record(
        **_WHERE,
        **what,
        low={**array({"type": "number"}), "description": "edge of each bin, the places"},
        high={**_NUMBERS, "description": "null: the bin is open"},
        events_base={**COUNT, "description": "of all runs"},
        events_new=COUNT,
        **_GRID,
    )
    return {**array(described), "description": description}


def pairs(description: str, **what: Schema) -> Schema:
    """Describe counts of two sides by pair of nodes."""
    described = record(
        **_WHERE,
        **what,
        pairs={**array(array(COUNT)), "description": "from and to, the places"},
        **_GRID,
    )
    return {**array(described), "description": description}
