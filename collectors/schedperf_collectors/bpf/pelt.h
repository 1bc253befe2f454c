/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Counts and times calls of the PELT functions, for both loaders: pelt.bpf.c is compiled ahead and
 * loaded by libbpf, pelt.bcc.c is compiled by bcc on the machine under test. Each of them defines
 * INLINE, SAMPLING, the maps and the three functions that are only declared here.
 *
 * Everything is per CPU and nothing is atomic: what is counted runs under the lock of a run queue
 * with interrupts off, so that only a nested call of the same CPU can come between entry and exit.
 * Keys are never tasks, as the idle tasks of all CPUs share tid 0.
 */
#define DEEPEST_CALL 4
#define DEEPEST_MARK 8
#define LOG2_BINS 32
#define LINEAR_BINS 64
#define LINEAR_STEP_NS 50

/* Elements of the maps, in the order of SLOTS, CONTEXTS and the gates of pelt/programs.py. */
enum slot {
    UPDATE_CFS_GROUP,
    UPDATE_LOAD_AVG_SE,
    UPDATE_LOAD_AVG_CFS_RQ,
    UPDATE_LOAD_AVG,
    PELT_CFS_TP,
    PELT_SE_TP,
    GETUID,
    SLOTS,
};
enum context {
    IN_OTHER,
    IN_ENQUEUE,
    IN_DEQUEUE,
    IN_TICK,
    IN_NEWIDLE,
    IN_FORK,
    IN_MIGRATION,
    IN_BALANCE,
    IN_SWITCH,
    CONTEXTS,
};
enum gate { OPEN_RUN, OPEN_TRIAL, GATES };

struct calls {
    u64 depth;
    u64 start_ns[DEEPEST_CALL]; /* 0: this call is not timed */
    u64 by_context[CONTEXTS];
    u64 timed;
    u64 sum_ns;
    u64 log2_ns[LOG2_BINS];
    u64 linear_ns[LINEAR_BINS];
    u64 unpaired;
    u64 nested;
};

/* The marked functions that this CPU is in, the innermost last. */
struct marks {
    u64 depth;
    u64 owner[DEEPEST_MARK];   /* context of the function */
    u64 context[DEEPEST_MARK]; /* what its calls count as */
    u64 lost;
    u64 forking; /* the task that is in wake_up_new_task(), as get_current_pid_tgid() has it */
};

INLINE u64 *gate_at(u32 gate);
INLINE struct calls *calls_at(u32 slot);
INLINE struct marks *marks_here(void);

/*
 * Entry and exit of a function cannot be attached at one instant. Nothing is counted before user
 * space has attached all and opened the gate, nor after it closed it.
 */
INLINE int is_open(u32 gate)
{
    u64 *open = gate_at(gate);

    return open && *open;
}

/* The innermost marked function that this CPU is in; IN_OTHER: none. */
INLINE u64 context_now(void)
{
    struct marks *mark = marks_here();
    u64 top;

    if (!mark || !mark->depth)
        return IN_OTHER;
    top = mark->depth - 1;
    if (top >= DEEPEST_MARK)
        top = DEEPEST_MARK - 1;
    return mark->context[top];
}

INLINE struct calls *count(u32 slot, u32 gate)
{
    struct calls *call;
    u64 context;

    if (!is_open(gate))
        return 0;
    call = calls_at(slot);
    if (!call)
        return 0;
    context = context_now();
    if (context < CONTEXTS)
        call->by_context[context]++;
    return call;
}

/*
 * Calls come in fixed patterns, one per level of the hierarchy, so every Nth call could be of the
 * same level each time; random ones are timed instead. In the trial, every call is timed, because
 * the trial measures what that costs.
 */
INLINE int is_timed(u32 gate)
{
    return gate == OPEN_TRIAL || SAMPLING == 1 || get_prandom_u32() % SAMPLING == 0;
}

INLINE int enter(u32 slot, u32 gate)
{
    struct calls *call = count(slot, gate);
    u64 depth;

    if (!call)
        return 0;
    depth = call->depth++;
    if (depth >= DEEPEST_CALL) {
        call->nested++;
        return 0;
    }
    call->start_ns[depth] = is_timed(gate) ? ktime_get_ns() : 0;
    return 0;
}

INLINE void add_duration(struct calls *call, u64 ns)
{
    u64 log2 = log2_of(ns);
    u64 linear = ns / LINEAR_STEP_NS;

    if (log2 >= LOG2_BINS)
        log2 = LOG2_BINS - 1;
    if (linear >= LINEAR_BINS)
        linear = LINEAR_BINS - 1;
    call->timed++;
    call->sum_ns += ns;
    call->log2_ns[log2]++;
    call->linear_ns[linear]++;
}

INLINE int leave(u32 slot, u32 gate)
{
    struct calls *call;
    u64 depth;

    if (!is_open(gate))
        return 0;
    call = calls_at(slot);
    if (!call)
        return 0;
    if (!call->depth) {
        call->unpaired++;
        return 0;
    }
    depth = --call->depth;
    if (depth < DEEPEST_CALL && call->start_ns[depth])
        add_duration(call, ktime_get_ns() - call->start_ns[depth]);
    return 0;
}

INLINE struct marks *open_marks(void)
{
    return is_open(OPEN_RUN) ? marks_here() : 0;
}

INLINE int mark(u64 owner)
{
    struct marks *mark = open_marks();
    u64 depth;

    if (!mark)
        return 0;
    depth = mark->depth++;
    if (depth >= DEEPEST_MARK) {
        mark->lost++;
        return 0;
    }
    mark->owner[depth] = owner;
    mark->context[depth] = owner;
    /* A new task is enqueued as any other, but by wake_up_new_task(). */
    if (owner == IN_ENQUEUE && mark->forking && mark->forking == get_current_pid_tgid())
        mark->context[depth] = IN_FORK;
    return 0;
}

/*
 * Goes back to what was before the innermost mark of this owner, which also removes the marks of
 * functions inside it whose exit was lost.
 */
INLINE int unmark(u64 owner)
{
    struct marks *mark = open_marks();

    if (!mark)
        return 0;
    if (mark->depth > DEEPEST_MARK) {
        mark->depth--;
        return 0;
    }
#pragma unroll
    for (int depth = DEEPEST_MARK - 1; depth >= 0; depth--) {
        if ((u64)depth < mark->depth && mark->owner[depth] == owner) {
            mark->depth = depth;
            return 0;
        }
    }
    mark->lost++;
    return 0;
}

/*
 * wake_up_new_task() can be preempted and moved before it takes its locks, so it is noted with its
 * task, and never on the stack of this CPU.
 */
INLINE int begin_fork(void)
{
    struct marks *mark = open_marks();

    if (mark)
        mark->forking = get_current_pid_tgid();
    return 0;
}

INLINE int end_fork(void)
{
    struct marks *mark = open_marks();

    if (mark)
        mark->forking = 0;
    return 0;
}
