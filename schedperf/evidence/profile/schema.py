"""JSON Schema of what the profile section says."""

from schedperf.model.schema import (
    COUNT,
    FLAG,
    FLAG_OR_NULL,
    NUMBER_OR_NULL,
    TEXT,
    TEXT_OR_NULL,
    TEXTS,
    Schema,
    array,
    both,
    fields_of,
    or_null,
    record,
)

_NUMBER: Schema = {"type": "number"}
_SHARE: Schema = {"type": "number", "minimum": 0, "description": "per cent"}


CHANGE = record(
    base={**_NUMBER, "description": "mean of the runs"},
    new={**_NUMBER, "description": "mean of the runs"},
    change={**_NUMBER, "description": "new - base, in their unit"},
    ci_low={**NUMBER_OR_NULL, "description": "lower end of the 95 % interval of change"},
    ci_high={**NUMBER_OR_NULL, "description": "upper end; null without 2 runs a side"},
)
TESTED = record(
    **fields_of(CHANGE),
    p={**NUMBER_OR_NULL, "description": "null where nothing was tested"},
    q={
        **NUMBER_OR_NULL,
        "description": "p after Benjamini and Hochberg's correction over what was tested of the "
        "point: what is hot, no idle time, no kernel code where the event is blind",
    },
)
_SHARE_CHANGE = {**TESTED, "description": "per cent of all CPUs, idle time included"}
_COST_CHANGE = {
    **or_null(TESTED),
    "description": "in cost_unit; null where the operations of a run are not known",
}
_NODES: Schema = {
    "type": "object",
    "additionalProperties": _SHARE,
    "description": "by NUMA node: share of what its CPUs did while not idle",
}
_RANGE: Schema = {
    "type": ["array", "null"],
    "items": _SHARE,
    "minItems": 2,
    "maxItems": 2,
    "description": "least and largest share of a node; null where the nodes are not known",
}
_CPUS: Schema = {
    **or_null(record(least=_SHARE, largest=_SHARE, cpus={**COUNT, "minimum": 1})),
    "description": "least and largest share of a CPU, each of what it did while not idle",
}

_ROW = record(
    row={**TEXT, "description": "id of the row, for evidence: profile#ROW"},
    symbol={**TEXT, "description": "parts and copies folded, under the newest name"},
    dso={**TEXT, "description": "[kernel], a module in brackets, or a file"},
    **{"class": {**TEXT_OR_NULL, "description": "function class; null is idle time"}},
    scheduler={**FLAG, "description": "a function of kernel/sched"},
    idle={**FLAG, "description": "the idle task waits for work in it"},
    share=_SHARE_CHANGE,
    changed={**FLAG, "description": "the share changed beyond chance, by 0.1 pp at least"},
    cost=_COST_CHANGE,
    base_nodes=_NODES,
    new_nodes=_NODES,
    base_range=_RANGE,
    new_range=_RANGE,
    one_node={
        "type": ["integer", "null"],
        "description": "the node that alone shows the change; null: several, none, or not known",
    },
    base_cpus=_CPUS,
    new_cpus=_CPUS,
)
_CLASS = record(
    row={**TEXT, "description": "id of the row, for evidence: profile#ROW"},
    **{"class": TEXT},
    share=_SHARE_CHANGE,
    changed={**FLAG, "description": "the share changed beyond chance, by 0.1 pp at least"},
    cost=_COST_CHANGE,
    base_range=_RANGE,
    new_range=_RANGE,
    functions={
        **array(record(symbol=TEXT, change={**_NUMBER, "description": "percentage points"})),
        "description": "those whose share moved most in the class's direction",
    },
)
_EXPLAINED = record(
    symbols={**TEXTS, "description": "largest change first"},
    change={**_NUMBER, "description": "of their cost together, in cost_unit"},
    part={**NUMBER_OR_NULL, "description": "of the change of all busy time per operation; 1: all"},
    ci_low={**NUMBER_OR_NULL, "description": "lower end of the 95 % interval, by Fieller"},
    ci_high=NUMBER_OR_NULL,
    reason={**TEXT_OR_NULL, "description": "why there is no part"},
    busy_equal={
        **FLAG_OR_NULL,
        "description": "did the busy part of the time stay, so that the part is of the wall time "
        "too? null: not known",
    },
    busy_reason=TEXT,
)
_OTHERS = record(
    share={**_SHARE, "description": "per cent of the event's count without idle, mean of the runs"},
    commands=array(record(command=TEXT, share=_SHARE)),
)
_POINT = record(
    workload=TEXT,
    point=TEXT,
    runs=both({**COUNT, "minimum": 1}),
    independent={"enum": ["runs", "boots"], "description": "what the intervals count"},
    took_turns={**FLAG, "description": "false: a drift of the machine may look like a change"},
    cautions={**TEXTS, "description": "what to know before a number is read"},
    samples=both({**COUNT, "description": "of all runs together"}),
    lost=both({**COUNT, "description": "records that the kernel could not deliver"}),
    throttled=both({**COUNT, "description": "pauses of an event that fired too often"}),
    losses=both({**TEXT_OR_NULL, "description": "the two in words; null where nothing is lost"}),
    others=both(
        {
            **or_null(_OTHERS),
            "description": "what is of commands that are not the workload, nor started by it, nor "
            "threads of the kernel; the largest by name; null: the workload cannot be told",
        }
    ),
    busy={**CHANGE, "description": "per cent of all CPUs that was not idle"},
    operations={
        **or_null(record(unit=TEXT, exact=FLAG, base=_NUMBER, new=_NUMBER)),
        "description": "of the benchmark, mean of the runs",
    },
    cost_unit={**TEXT_OR_NULL, "description": "ns per message; null without operations"},
    cost_reason={**TEXT_OR_NULL, "description": "why there is no cost per operation"},
    busy_cost=or_null(CHANGE),
    rows=array(_ROW),
    classes=array(_CLASS),
    explained={
        **or_null(_EXPLAINED),
        "description": "null where no cost changed beyond chance in the direction of the whole",
    },
    symbols={**COUNT, "description": "how many symbols were sampled on either side"},
)
_EVENT = record(
    event=TEXT,
    unit={**TEXT, "description": "what the periods of its samples count"},
    clock=both({**TEXT_OR_NULL, "description": "what makes a sample due"}),
    nmi=both({**FLAG_OR_NULL, "description": "interrupts where interrupts are off"}),
    precise=both({**COUNT, "maximum": 3, "description": "precise level of the event"}),
    emulated=both({**FLAG_OR_NULL, "description": "the counters of an emulator; null: unknown"}),
    blind=both(
        {
            **FLAG_OR_NULL,
            "description": "code that runs with interrupts off cannot be sampled; null: not known",
        }
    ),
    blind_reason=both(TEXT),
    remedy={**TEXT_OR_NULL, "description": "what to record instead; null where the event sees"},
    caveats=TEXTS,
    points=array(_POINT),
)
SCHEMA = record(
    comparisons=array(record(side=TEXT, events=array(_EVENT), notes=TEXTS)),
    missing=array(
        record(side=TEXT, reason={**TEXT, "description": "why, with the side's name in front"})
    ),
)
