/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Where each CPU's run queue is. The tracepoint sched_update_nr_running_tp (Linux 5.9, "sched: Add
 * a tracepoint to track rq->nr_running") hands over a struct rq whenever a task is queued.
 */
#include "bpf.h"

#ifndef USE_VMLINUX_H
struct rq {
    int cpu;
} RELOCATED;
#endif

/* Addresses by CPU; as many as there are CPUs. */
struct {
    __uint(type, MAP_TYPE_ARRAY);
    __uint(max_entries, 1);
    __type(key, u32);
    __type(value, u64);
} run_queues SEC(".maps");

SEC("raw_tp/sched_update_nr_running_tp") int remember(const u64 *ctx)
{
    struct rq *rq = (void *)ctx[0];
    u32 cpu = READ(false, rq, cpu);
    u64 address = ctx[0];

    map_update(&run_queues, &cpu, &address, UPDATE_ANY);
    return 0;
}
