/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Where tasks are put: programs at the scheduler's tracepoints.
 *
 * Each is there twice, for BTF tracepoints and for raw tracepoints. All run with preemption off,
 * most of them with a run queue locked, so nothing here allocates or waits, and every counter
 * belongs to one CPU.
 */
#include "placement.h"

/* include/linux/sched.h and kernel/sched/sched.h; the same from Linux 5.10 to 6.18. */
#define TASK_RUNNING 0x0000
#define TASK_WAKING 0x0200
#define TASK_NEW 0x0800
#define TASK_ON_RQ_MIGRATING 2
#define PF_KTHREAD 0x00200000

#define BITS_PER_WORD 64

/* What happened, and of migrations why; in the order of KINDS in Python. */
enum kind {
    FORK,
    EXEC,
    WAKEUP,
    MIGRATION_FORK,
    MIGRATION_EXEC,
    MIGRATION_WAKEUP,
    MIGRATION_LOAD_BALANCE,
    MIGRATION_NUMA,
    MIGRATION_AFFINITY,
    MIGRATION_OTHER,
    KINDS,
};

/*
 * What is remembered of a task. Slots are found by the low bits of the pid, which the kernel
 * hands out in turn: an array look-up is one load, where a hash costs a call, and a local
 * storage allocates. A task whose slot belongs to another task takes it over.
 */
#define SLOT_OF_WORKLOAD 1
struct slot {
    u32 pid;
    u32 flags;
    u64 runnable_ns;   /* since when it waits for a CPU; 0: it does not */
    u32 waker_cpu;     /* these three are CPU number + 1; 0: none */
    u32 numa_cpu;      /* where NUMA balancing wants it */
    u32 exec_from_cpu; /* which CPU it left in sched_exec() */
    u32 padding[9];    /* neighbours are used by other CPUs */
};

struct {
    __uint(type, MAP_TYPE_ARRAY);
    __uint(max_entries, 1);
    __type(key, u32);
    __type(value, struct slot);
} slots SEC(".maps");

/*
 * How often tasks went from one place to another: settings.rows counters for each CPU that counts,
 * one after another. The row of a move within a node is that of node and level, those between two
 * nodes follow, and each has a counter of each kind. The collector maps them into its memory.
 */
#define LEVELS (1 + SHARED_LEVELS)
struct {
    __uint(type, MAP_TYPE_ARRAY);
    __uint(map_flags, MAP_MMAPABLE);
    __uint(max_entries, 1);
    __type(key, u32);
    __type(value, u64);
} moves SEC(".maps");

/* Bin i counts 2^i <= ns < 2^(i+1); the first also 0 ns. Depths beyond the last bin are in it. */
#define LATENCY_BINS 40
#define DEPTH_BINS 34
struct cpu_counts {
    u64 latency_log2[LATENCY_BINS];
    u64 latency_sum_ns;
    u64 latency_max_ns;
    u64 depth[DEPTH_BINS];
    u64 without_groups; /* switches to the workload in a kernel without task groups */
    u64 lost_moves;     /* there was no memory for their rows */
    u64 lost_slots;     /* a waiting task lost its slot to another */
    u64 padding;        /* to whole cache lines */
};

struct {
    __uint(type, MAP_TYPE_ARRAY);
    __uint(max_entries, 1);
    __type(key, u32);
    __type(value, struct cpu_counts);
} cpus SEC(".maps");

INLINE struct cpu_counts *this_cpu(void)
{
    u32 cpu = smp_processor_id();

    return map_lookup(&cpus, &cpu);
}

INLINE struct slot *slot_at(u32 pid)
{
    u32 index = pid & settings.slot_mask;

    return map_lookup(&slots, &index);
}

INLINE struct slot *find_slot(u32 pid)
{
    struct slot *slot = slot_at(pid);

    return slot && slot->pid == pid ? slot : 0;
}

INLINE struct slot *take_slot(u32 pid)
{
    struct slot *slot = slot_at(pid);
    struct cpu_counts *counts;

    if (!slot || slot->pid == pid)
        return slot;
    if (slot->runnable_ns) {
        counts = this_cpu();
        if (counts)
            counts->lost_slots++;
    }
    __builtin_memset(slot, 0, sizeof(*slot));
    slot->pid = pid;
    return slot;
}

/* 0 is the same CPU, then come the levels within a node. */
INLINE u32 level_of(const struct place *one, const struct place *other)
{
    if (one == other)
        return 0;
#pragma unroll
    for (u32 level = 0; level < SHARED_LEVELS - 1; level++)
        if (one->shares[level] == other->shares[level])
            return level + 1;
    return SHARED_LEVELS;
}

INLINE void count_move(enum kind kind, u32 from_cpu, u32 to_cpu)
{
    const struct place *from = place_of(from_cpu), *to = place_of(to_cpu);
    struct cpu_counts *counts;
    u32 row, index;
    u64 *count;

    if (!from || !to)
        return;
    if (from->node == to->node)
        row = from->node * LEVELS + level_of(from, to);
    else
        row = settings.nodes * (LEVELS + from->node) + to->node;
    row = row * KINDS + kind;
    index = smp_processor_id() * settings.rows + row;
    count = row < settings.rows ? map_lookup(&moves, &index) : 0;
    if (count) {
        ++*count;
        return;
    }
    counts = this_cpu();
    if (counts)
        counts->lost_moves++;
}

/* Called by try_to_wake_up() on the CPU of the waker. */
INLINE int on_sched_waking(const bool typed, const u64 *ctx)
{
    struct task_struct *task = (void *)ctx[0];
    struct slot *slot;

    if (!is_open)
        return 0;
    slot = take_slot(READ(typed, task, pid));
    if (slot)
        slot->waker_cpu = smp_processor_id() + 1;
    return 0;
}

/* The task is on a run queue; this may be another CPU than that of the waker. */
INLINE int on_sched_wakeup(const bool typed, const u64 *ctx)
{
    struct task_struct *task = (void *)ctx[0];
    struct slot *slot;
    u32 from;

    if (!is_open)
        return 0;
    slot = take_slot(READ(typed, task, pid));
    if (!slot)
        return 0;
    from = slot->waker_cpu ? slot->waker_cpu - 1 : smp_processor_id();
    slot->waker_cpu = 0;
    slot->runnable_ns = ktime_get_ns();
    count_move(WAKEUP, from, task_cpu(typed, task));
    return 0;
}

/* Called by wake_up_new_task() in the context of the parent. */
INLINE int on_sched_wakeup_new(const bool typed, const u64 *ctx)
{
    struct task_struct *task = (void *)ctx[0];
    struct slot *parent, *slot;

    if (!is_open)
        return 0;
    slot = take_slot(READ(typed, task, pid));
    if (!slot)
        return 0;
    parent = find_slot(get_current_pid_tgid());
    /* The slot may be that of a task that had this pid before. */
    slot->flags = parent ? parent->flags : 0;
    slot->waker_cpu = slot->numa_cpu = slot->exec_from_cpu = 0;
    slot->runnable_ns = ktime_get_ns();
    count_move(FORK, smp_processor_id(), task_cpu(typed, task));
    return 0;
}

/*
 * An exec may have moved the task in sched_exec(). A thread that executes takes the pid of its
 * leader, so its slot is that of its old pid.
 *
 * What the recorder itself starts and what then executes is the workload: collectors are forks of
 * the recorder that never execute.
 */
INLINE int on_sched_process_exec(const bool typed, const u64 *ctx)
{
    struct task_struct *task = (void *)ctx[0], *parent;
    struct slot *before = find_slot(ctx[1]), *slot;
    u32 to = smp_processor_id(), from = to, flags = 0;

    if (!is_open)
        return 0;
    if (before) {
        flags = before->flags;
        if (before->exec_from_cpu)
            from = before->exec_from_cpu - 1;
        before->exec_from_cpu = 0;
    }
    parent = READ(typed, task, real_parent);
    if (settings.recorder && (u32)READ(typed, parent, tgid) == settings.recorder)
        flags |= SLOT_OF_WORKLOAD;
    slot = take_slot(READ(typed, task, pid));
    if (slot)
        slot->flags = flags;
    count_move(EXEC, from, to);
    return 0;
}

/* migrate_task_to() and migrate_swap() are about to ask the stopper thread for the move. */
INLINE int on_sched_move_numa(const bool typed, const u64 *ctx)
{
    struct task_struct *task = (void *)ctx[0];
    struct slot *slot;

    if (!is_open)
        return 0;
    slot = take_slot(READ(typed, task, pid));
    if (slot)
        slot->numa_cpu = (u32)ctx[2] + 1;
    return 0;
}

INLINE int on_sched_swap_numa(const bool typed, const u64 *ctx)
{
    struct task_struct *one = (void *)ctx[0], *other = (void *)ctx[2];
    struct slot *slot;

    if (!is_open || !one || !other)
        return 0;
    slot = take_slot(READ(typed, one, pid));
    if (slot)
        slot->numa_cpu = (u32)ctx[3] + 1;
    slot = take_slot(READ(typed, other, pid));
    if (slot)
        slot->numa_cpu = (u32)ctx[1] + 1;
    return 0;
}

/* The threads "migration/N" are the only kernel threads whose names begin so. */
INLINE bool in_stopper(void)
{
    struct task_struct *current = (void *)get_current_task();
    u64 begin = 0;

    if (!(READ(false, current, flags) & PF_KTHREAD))
        return false;
    read_kernel(&begin, sizeof(begin), __builtin_preserve_access_index(&current->comm));
    return !__builtin_memcmp(&begin, "migratio", sizeof(begin));
}

INLINE bool is_allowed(const bool typed, struct task_struct *task, u32 cpu)
{
    const struct cpumask *mask = READ(typed, task, cpus_ptr);
    u64 word = 0;

    read_kernel(&word, sizeof(word), (const u64 *)mask + cpu / BITS_PER_WORD);
    return word >> cpu % BITS_PER_WORD & 1;
}

INLINE u32 state_of(const bool typed, struct task_struct *task)
{
    struct task_struct___before *before = (void *)task;

    if (exists(task->__state))
        return READ(typed, task, __state);
    return READ(false, before, state);
}

/*
 * Why set_task_cpu() is called, derived from the task alone, so that the reasons are the same on
 * every kernel.
 *
 * - A task on a CPU of its mask is not moved because of the mask. A task whose mask lacks its CPU
 *   had the mask changed by __set_cpus_allowed_ptr(), and is moved for that reason, at once or
 *   when it wakes up.
 * - try_to_wake_up() marks the task TASK_WAKING before it chooses a CPU; a kernel whose
 *   wake_up_new_task() reports its choice does so while the task is TASK_NEW.
 * - A task that is moved from run queue to run queue is marked TASK_ON_RQ_MIGRATING. migration/N
 *   makes the moves that a task requests for itself: NUMA balancing announces its target in
 *   sched_move_numa or sched_swap_numa, sched_exec() runs while in_execve is set. Other moves by
 *   migration/N are active balancing (or a CPU that goes offline, which the bundle records).
 * - Any other is detach_task(), or push and pull of the realtime and deadline classes: the
 *   balancers.
 */
INLINE enum kind migration_of(const bool typed, struct task_struct *task, u32 from, u32 to)
{
    u32 state = state_of(typed, task);
    struct slot *slot;

    if (state & TASK_NEW)
        return MIGRATION_FORK;
    if (!is_allowed(typed, task, from))
        return MIGRATION_AFFINITY;
    if (state & TASK_WAKING)
        return MIGRATION_WAKEUP;
    if (READ(typed, task, on_rq) != TASK_ON_RQ_MIGRATING)
        return MIGRATION_OTHER;
    if (!in_stopper())
        return MIGRATION_LOAD_BALANCE;
    slot = take_slot(READ(typed, task, pid));
    if (slot && slot->numa_cpu == to + 1) {
        slot->numa_cpu = 0;
        return MIGRATION_NUMA;
    }
    if (!READ_BITS(task, in_execve))
        return MIGRATION_LOAD_BALANCE;
    if (slot)
        slot->exec_from_cpu = from + 1;
    return MIGRATION_EXEC;
}

INLINE int on_sched_migrate_task(const bool typed, const u64 *ctx)
{
    struct task_struct *task = (void *)ctx[0];
    u32 from, to = ctx[1];

    if (!is_open)
        return 0;
    from = task_cpu(typed, task);
    count_move(migration_of(typed, task, from, to), from, to);
    return 0;
}

INLINE void count_latency(struct cpu_counts *counts, u64 ns)
{
    u32 bin = log2_of(ns);

    counts->latency_log2[bin < LATENCY_BINS ? bin : LATENCY_BINS - 1]++;
    counts->latency_sum_ns += ns;
    if (ns > counts->latency_max_ns)
        counts->latency_max_ns = ns;
}

INLINE void count_depth(const bool typed, struct cpu_counts *counts,
                        struct task_struct *task)
{
    u32 depth;

    /* The depth of a task's entity is that of its task group, the root group's being 0. */
    if (!exists(task->se.depth)) {
        counts->without_groups++;
        return;
    }
    depth = READ(typed, task, se.depth);
    counts->depth[depth < DEPTH_BINS ? depth : DEPTH_BINS - 1]++;
}

/* A task got the CPU. */
INLINE void on_arrival(const bool typed, struct slot *slot, struct task_struct *task, u64 now_ns)
{
    struct cpu_counts *counts = this_cpu();

    if (!counts)
        return;
    if (slot->runnable_ns) {
        if (!now_ns)
            now_ns = ktime_get_ns();
        /* Clocks of two CPUs may differ by some ns. */
        count_latency(counts, now_ns > slot->runnable_ns ? now_ns - slot->runnable_ns : 0);
        slot->runnable_ns = 0;
    }
    if (slot->flags & SLOT_OF_WORKLOAD)
        count_depth(typed, counts, task);
}

/*
 * The clock is what costs most here, so it is read once, and only if a task waits. That of
 * the run queue would be at hand, but it stands still from a wakeup to the switch that the wakeup
 * asks for (rq_clock_skip_update()).
 */
INLINE int on_sched_switch(const bool typed, const u64 *ctx)
{
    bool preempted = ctx[0];
    struct task_struct *prev = (void *)ctx[1], *next = (void *)ctx[2];
    u32 prev_pid, next_pid;
    struct slot *slot;
    u64 now_ns = 0;

    if (!is_open)
        return 0;
    prev_pid = READ(typed, prev, pid);
    /* Every idle task has the pid 0. */
    if (prev_pid && (preempted || state_of(typed, prev) == TASK_RUNNING)) {
        slot = take_slot(prev_pid);
        now_ns = ktime_get_ns();
        if (slot)
            slot->runnable_ns = now_ns;
    }
    next_pid = READ(typed, next, pid);
    slot = next_pid ? find_slot(next_pid) : 0;
    if (slot)
        on_arrival(typed, slot, next, now_ns);
    return 0;
}

#define TRACEPOINT(name)                                   \
    SEC("tp_btf/" #name) int name##_btf(const u64 *ctx)    \
    {                                                      \
        return on_##name(true, ctx);                       \
    }                                                      \
    SEC("raw_tp/" #name) int name##_raw(const u64 *ctx)    \
    {                                                      \
        return on_##name(false, ctx);                      \
    }

TRACEPOINT(sched_waking)
TRACEPOINT(sched_wakeup)
TRACEPOINT(sched_wakeup_new)
TRACEPOINT(sched_process_exec)
TRACEPOINT(sched_move_numa)
TRACEPOINT(sched_swap_numa)
TRACEPOINT(sched_migrate_task)
TRACEPOINT(sched_switch)
