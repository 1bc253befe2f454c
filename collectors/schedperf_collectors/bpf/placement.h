/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the programs of the bpf_placement collector share: the members of kernel types that are
 * read, and where each CPU is.
 */
#ifndef PLACEMENT_H
#define PLACEMENT_H

#include "bpf.h"

#ifndef USE_VMLINUX_H
struct thread_info {
    u32 cpu;
} RELOCATED;

struct sched_entity {
    int depth;
    u64 sum_exec_runtime;
} RELOCATED;

struct cpumask {
    unsigned long bits[1];
} RELOCATED;

struct task_struct {
    struct thread_info thread_info;
    unsigned int __state;
    unsigned int flags;
    int on_rq;
    struct sched_entity se;
    const struct cpumask *cpus_ptr;
    unsigned in_execve : 1;
    int pid;
    int tgid;
    struct task_struct *real_parent;
    char comm[16];
} RELOCATED;
#endif

/* Before "sched: Change task_struct::state" (v5.14), and before "sched: Move
 * task_struct::cpu" into thread_info for every architecture (v5.16). */
struct task_struct___before {
    long state;
    u32 cpu;
} RELOCATED;

/*
 * Where a CPU is: the index of its node, and of each level within a node an id that is equal for
 * CPUs which share it, the smallest level first. The last level is the node, so two CPUs of one
 * node share at least that. A CPU that was not there when this was written is of a node by itself,
 * the last one.
 */
#define SHARED_LEVELS 7
struct place {
    u16 node;
    u16 shares[SHARED_LEVELS];
};

struct {
    __uint(type, MAP_TYPE_ARRAY);
    __uint(max_entries, 1);
    __type(key, u32);
    __type(value, struct place);
} places SEC(".maps");

/* Set before loading; the verifier sees constants. */
struct settings {
    u32 recorder;  /* tgid of the process that starts the workload; 0: not known */
    u32 slot_mask; /* number of task slots less one */
    u32 nodes;     /* and one for CPUs that come up later */
    u32 rows;      /* counters of moves that each CPU has */
};
const volatile struct settings settings SEC(".rodata");

/* All programs count from the moment when all are attached until the first is taken away. */
volatile u32 is_open SEC(".bss");

INLINE struct place *place_of(u32 cpu)
{
    return map_lookup(&places, &cpu);
}

/* The index of a CPU's node, settings.nodes - 1 where it is not known. */
INLINE u32 node_of(u32 cpu)
{
    struct place *place = place_of(cpu);

    return place ? place->node : settings.nodes - 1;
}

/* thread_info.cpu of newer kernels, task_struct.cpu of older ones. */
INLINE u32 task_cpu(const bool typed, struct task_struct *task)
{
    struct task_struct___before *before = (void *)task;

    if (exists(task->thread_info.cpu))
        return READ(typed, task, thread_info.cpu);
    return READ(false, before, cpu);
}

#endif
