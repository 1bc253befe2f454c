/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The programs of the bpf_pelt collector: entry and exit of each function, the tracepoints, and
 * the markers of contexts. What they do is in pelt.h.
 *
 * No program here reads a type of the kernel, so the object also loads where there is no BTF;
 * kprobes then take the place of fentry and fexit. The loader says which function a program is
 * attached to, as several have changed their names: pelt/programs.py has the names of each.
 */
#include "bpf.h"

/* Set before loading; the verifier sees a constant. */
const volatile u32 sampling SEC(".rodata");
#define SAMPLING sampling

#include "pelt.h"

struct {
    __uint(type, MAP_TYPE_ARRAY);
    __uint(max_entries, GATES);
    __type(key, u32);
    __type(value, u64);
} gates SEC(".maps");

struct {
    __uint(type, MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, SLOTS);
    __type(key, u32);
    __type(value, struct calls);
} calls SEC(".maps");

struct {
    __uint(type, MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, 1);
    __type(key, u32);
    __type(value, struct marks);
} marks SEC(".maps");

INLINE u64 *gate_at(u32 gate)
{
    return map_lookup(&gates, &gate);
}

INLINE struct calls *calls_at(u32 slot)
{
    return map_lookup(&calls, &slot);
}

INLINE struct marks *marks_here(void)
{
    u32 zero = 0;

    return map_lookup(&marks, &zero);
}

#define PROGRAM(mechanism, name, body)                                                       \
    SEC(#mechanism) int name##_##mechanism(void *ctx __attribute__((unused)))                 \
    {                                                                                         \
        return body;                                                                          \
    }
#define PAIR(name, entry, end)                                                               \
    PROGRAM(fentry, name, entry)                                                              \
    PROGRAM(fexit, name, end)                                                                 \
    PROGRAM(kprobe, name, entry)                                                              \
    PROGRAM(kretprobe, name, end)
#define TIMED(name, slot, gate) PAIR(name, enter(slot, gate), leave(slot, gate))
#define MARKED(name, context) PAIR(name, mark(context), unmark(context))
#define COUNTED(name, slot)                                                                  \
    SEC("raw_tp/" #name) int name##_raw_tp(void *ctx __attribute__((unused)))                 \
    {                                                                                         \
        count(slot, OPEN_RUN);                                                                \
        return 0;                                                                             \
    }

TIMED(update_cfs_group, UPDATE_CFS_GROUP, OPEN_RUN)
TIMED(__update_load_avg_se, UPDATE_LOAD_AVG_SE, OPEN_RUN)
TIMED(__update_load_avg_cfs_rq, UPDATE_LOAD_AVG_CFS_RQ, OPEN_RUN)
TIMED(update_load_avg, UPDATE_LOAD_AVG, OPEN_RUN)
COUNTED(pelt_cfs_tp, PELT_CFS_TP)
COUNTED(pelt_se_tp, PELT_SE_TP)

/* Each by the newest of its names. */
MARKED(enqueue_task_fair, IN_ENQUEUE)
MARKED(dequeue_task_fair, IN_DEQUEUE)
MARKED(task_tick_fair, IN_TICK)
MARKED(sched_balance_newidle, IN_NEWIDLE)
PAIR(wake_up_new_task, begin_fork(), end_fork())
MARKED(task_fork_fair, IN_FORK)
MARKED(post_init_entity_util_avg, IN_FORK)
MARKED(migrate_task_rq_fair, IN_MIGRATION)
MARKED(sched_balance_softirq, IN_BALANCE)
MARKED(pick_next_task_fair, IN_SWITCH)
MARKED(put_prev_task_fair, IN_SWITCH)
MARKED(set_next_task_fair, IN_SWITCH)

/* System calls, by which the cost of a pair is measured. */
TIMED(getuid, GETUID, OPEN_TRIAL)
PAIR(geteuid, 0, 0)
