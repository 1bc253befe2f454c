/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * How long tasks wait from their wakeup until they run: programs at three tracepoints.
 *
 * Each is there twice, for BTF tracepoints and for raw tracepoints. All run with preemption off,
 * and every counter belongs to one CPU.
 */
#include "bpf.h"

#ifndef USE_VMLINUX_H
struct task_struct {
    int pid;
    char comm[16];
} RELOCATED;
#endif

#define COMM_BYTES 16

/* Set before loading: the number of slots less one. */
const volatile u32 slot_mask SEC(".rodata");

/* The programs count from the moment when all are attached until the first is taken away. */
volatile u32 is_open SEC(".bss");

/*
 * When a task was woken. Slots are found by the low bits of the pid, which the kernel hands out in
 * turn. A task whose slot belongs to another task takes it over.
 */
struct slot {
    u32 pid;
    u32 unused;
    u64 woken_ns; /* 0: it is not woken, or it has run since */
    u64 padding[6]; /* neighbours are used by other CPUs */
};

struct {
    __uint(type, MAP_TYPE_ARRAY);
    __uint(max_entries, 1);
    __type(key, u32);
    __type(value, struct slot);
} slots SEC(".maps");

/* A command on a CPU; without a name: all commands for which there was no room. */
struct waits_key {
    char comm[COMM_BYTES];
    u32 cpu;
};

/*
 * Bins of 4 ns up to 64 ns, then 16 bins of equal width in each power of two; the last one is open.
 */
#define UNIT_SHIFT 2
#define STEP_SHIFT 4
#define STEPS (1 << STEP_SHIFT)
#define BINS 512
struct waits {
    u64 bins[BINS];
    u64 sum_ns;
    u64 max_ns;
};

struct {
    __uint(type, MAP_TYPE_HASH);
    __uint(max_entries, 1);
    __type(key, struct waits_key);
    __type(value, struct waits);
} waits SEC(".maps");

/* What a new entry is copied from: it has no room on the stack. */
struct {
    __uint(type, MAP_TYPE_ARRAY);
    __uint(max_entries, 1);
    __type(key, u32);
    __type(value, struct waits);
} zeros SEC(".maps");

/* Wakeups of tasks that lost their slot to another task before they ran. */
struct {
    __uint(type, MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, 1);
    __type(key, u32);
    __type(value, u64);
} lost_slots SEC(".maps");

INLINE struct slot *slot_at(u32 pid)
{
    u32 index = pid & slot_mask;

    return map_lookup(&slots, &index);
}

INLINE int on_wakeup(const bool typed, const u64 *ctx)
{
    struct task_struct *task = (void *)ctx[0];
    struct slot *slot;
    u32 pid, first = 0;
    u64 *lost;

    if (!is_open)
        return 0;
    pid = READ(typed, task, pid);
    slot = slot_at(pid);
    if (!slot)
        return 0;
    if (slot->pid != pid && slot->woken_ns) {
        lost = map_lookup(&lost_slots, &first);
        if (lost)
            ++*lost;
    }
    slot->pid = pid;
    slot->woken_ns = ktime_get_ns();
    return 0;
}

INLINE u32 bin_of(u64 ns)
{
    u64 units = ns >> UNIT_SHIFT;
    u32 power, bin;

    if (units < STEPS)
        return units;
    power = log2_of(units) - STEP_SHIFT;
    bin = ((power + 1) << STEP_SHIFT) + (units >> power & (STEPS - 1));
    return bin < BINS ? bin : BINS - 1;
}

/* Without what follows a slash: "kworker/0:1-events" is "kworker". */
INLINE void read_command(char *comm, struct task_struct *task)
{
    bool is_over = false;

    read_kernel(comm, COMM_BYTES, __builtin_preserve_access_index(&task->comm));
#pragma unroll
    for (u32 index = 0; index < COMM_BYTES; index++) {
        is_over |= !comm[index] || comm[index] == '/';
        if (is_over)
            comm[index] = 0;
    }
}

INLINE struct waits *find_waits(struct task_struct *task)
{
    struct waits_key key = {};
    struct waits *found;
    u32 first = 0;
    void *zero;

    read_command(key.comm, task);
    key.cpu = smp_processor_id();
    found = map_lookup(&waits, &key);
    if (found)
        return found;
    zero = map_lookup(&zeros, &first);
    if (zero && !map_update(&waits, &key, zero, UPDATE_NOEXIST))
        return map_lookup(&waits, &key);
    __builtin_memset(key.comm, 0, COMM_BYTES);
    return map_lookup(&waits, &key);
}

/*
 * A task that leaves the CPU is not waiting because of a wakeup, even if it was woken while it ran:
 * it was running. A task that is preempted waits, too, but was not woken.
 */
INLINE int on_switch(const bool typed, const u64 *ctx)
{
    struct task_struct *prev = (void *)ctx[1], *next = (void *)ctx[2];
    struct waits *counted;
    struct slot *slot;
    u64 now_ns, ns, bin;
    u32 pid;

    if (!is_open)
        return 0;
    pid = READ(typed, prev, pid);
    slot = slot_at(pid);
    if (slot && slot->pid == pid)
        slot->woken_ns = 0;
    pid = READ(typed, next, pid);
    slot = slot_at(pid);
    /* Every idle task has the pid 0. */
    if (!pid || !slot || slot->pid != pid || !slot->woken_ns)
        return 0;
    now_ns = ktime_get_ns();
    /* Clocks of two CPUs may differ by some ns. */
    ns = now_ns > slot->woken_ns ? now_ns - slot->woken_ns : 0;
    slot->woken_ns = 0;
    counted = find_waits(next);
    if (!counted)
        return 0;
    bin = bin_of(ns);
    /* The compiler knows that it is a bin and would leave out what the verifier demands. */
    asm volatile("" : "+r"(bin));
    if (bin < BINS)
        counted->bins[bin]++;
    counted->sum_ns += ns;
    if (ns > counted->max_ns)
        counted->max_ns = ns;
    return 0;
}

#define TRACEPOINT(name, handler)                          \
    SEC("tp_btf/" #name) int name##_btf(const u64 *ctx)    \
    {                                                      \
        return handler(true, ctx);                         \
    }                                                      \
    SEC("raw_tp/" #name) int name##_raw(const u64 *ctx)    \
    {                                                      \
        return handler(false, ctx);                        \
    }

TRACEPOINT(sched_wakeup, on_wakeup)
TRACEPOINT(sched_wakeup_new, on_wakeup)
TRACEPOINT(sched_switch, on_switch)
