/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Which tasks belong to the workload, and the stacks of the current task.
 *
 * The recorder starts the workload and adopts its orphans, so a task belongs to the workload if a
 * child of the recorder is among its ancestors: the setup, which becomes the command, or one that
 * began after the counting. The collectors are children of the recorder, too, but began before.
 */
#ifndef WORKLOAD_H
#define WORKLOAD_H

#include "bpf.h"

#ifndef USE_VMLINUX_H
struct file;
struct rw_semaphore {
    int unused;
} RELOCATED;
struct mm_struct {
    struct rw_semaphore mmap_lock;
    struct file *exe_file;
} RELOCATED;
struct sighand_struct;

struct sched_entity {
    u64 slice;
    u64 sum_exec_runtime;
    u64 prev_sum_exec_runtime;
} RELOCATED;

struct task_struct {
    unsigned int __state;
    int pid;
    int tgid;
    char comm[16];
    u64 start_time;
    struct task_struct *real_parent;
    struct task_struct *group_leader;
    struct mm_struct *mm;
    struct sighand_struct *sighand;
    struct sched_entity se;
} RELOCATED;
#endif

#define COMM_BYTES 16
/* Ancestors that are looked at: make, its shells and the compiler's driver take 10. */
#define MOST_ANCESTORS 24

static struct task_struct *(*const get_current_task_btf)(void) = (void *)158;
static long (*const get_stackid)(void *ctx, void *map, u64 flags) = (void *)27;

/* enum bpf_map_type, and flags of bpf_get_stackid() and of the map. */
#define MAP_TYPE_STACK_TRACE 7
#define USER_STACK (1 << 8)
#define STACK_BUILD_ID (1 << 5)

/*
 * Set before loading: the pid of the recorder, what to count, the shortest duration of an off-CPU
 * time that is counted by stack, and the addresses of the kernel's image, whose locks have symbols.
 */
struct constants {
    u32 recorder;
    u32 counted;
    u64 least_ns;
    u64 low;
    u64 high;
};
const volatile struct constants constants SEC(".rodata");

/*
 * The programs count while the gate is open, and children of the recorder that began since then
 * belong to the workload. The setup began before.
 */
struct control {
    u32 is_open;
    u32 setup;
    u64 began_ns;
};
volatile struct control control SEC(".bss");

INLINE bool is_own(struct task_struct *task)
{
    struct task_struct *leader = task->group_leader, *parent;

#pragma unroll
    for (u32 step = 0; step < MOST_ANCESTORS; step++) {
        parent = leader->real_parent;
        if ((u32)parent->tgid == constants.recorder) {
            if ((u32)leader->pid == control.setup)
                return true;
            return leader->start_time >= control.began_ns;
        }
        if (parent->pid <= 1)
            return false;
        leader = parent->group_leader;
    }
    return false;
}

INLINE void read_comm(char *comm, struct task_struct *task)
{
    read_kernel(comm, COMM_BYTES, __builtin_preserve_access_index(&task->comm));
}

#define KERNEL_FRAMES 40
#define USER_FRAMES 32

/* A stack by its number; a negative number is the error of a stack that could not be stored. */
struct {
    __uint(type, MAP_TYPE_STACK_TRACE);
    __uint(max_entries, 8192);
    __uint(key_size, sizeof(u32));
    __uint(value_size, KERNEL_FRAMES * sizeof(u64));
} kernel_stacks SEC(".maps");

/*
 * User stacks by their addresses. A build id is read from the file of each frame, which costs several
 * us, so that happens once for each stack of addresses in each program that processes execute.
 */
struct {
    __uint(type, MAP_TYPE_STACK_TRACE);
    __uint(max_entries, 8192);
    __uint(key_size, sizeof(u32));
    __uint(value_size, USER_FRAMES * sizeof(u64));
} user_addresses SEC(".maps");

struct addresses_key {
    u64 executed; /* the open file of the program, which forks share */
    s32 stack;
    u32 unused;
};

struct {
    __uint(type, MAP_TYPE_HASH);
    __uint(max_entries, 16384);
    __type(key, struct addresses_key);
    __type(value, s32);
} user_stacks_known SEC(".maps");

struct build_id_frame {
    s32 status;
    u8 build_id[20];
    u64 offset;
};

struct {
    __uint(type, MAP_TYPE_STACK_TRACE);
    __uint(max_entries, 8192);
    __uint(key_size, sizeof(u32));
    __uint(value_size, USER_FRAMES * sizeof(struct build_id_frame));
    __uint(map_flags, STACK_BUILD_ID);
} user_stacks SEC(".maps");

/* A process with the user stack of a number: the addresses of generated code are those of a process. */
struct {
    __uint(type, MAP_TYPE_ARRAY);
    __uint(max_entries, 8192);
    __type(key, u32);
    __type(value, u32);
} user_stack_processes SEC(".maps");

/* The current task's user stack; a negative number is an error. */
INLINE s32 user_stack(void *ctx, struct task_struct *task)
{
    struct addresses_key key = {};
    struct mm_struct *mm = task->mm;
    s32 *known, stack;
    u32 process;

    key.stack = get_stackid(ctx, &user_addresses, USER_STACK);
    if (key.stack < 0 || !mm)
        return get_stackid(ctx, &user_stacks, USER_STACK);
    key.executed = (u64)READ(true, mm, exe_file);
    known = map_lookup(&user_stacks_known, &key);
    if (known)
        return *known;
    stack = get_stackid(ctx, &user_stacks, USER_STACK);
    if (stack >= 0) {
        process = task->tgid;
        map_update(&user_stack_processes, &stack, &process, UPDATE_ANY);
        map_update(&user_stacks_known, &key, &stack, UPDATE_ANY);
    }
    return stack;
}

/*
 * Bins of 64 ns up to 512 ns, then 8 bins of equal width in each power of two; the last one is open.
 */
#define UNIT_SHIFT 6
#define STEP_SHIFT 3
#define STEPS (1 << STEP_SHIFT)
#define BINS 256

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

/* The entry of a map, which is added with zeros if it is not there; NULL if the map is full. */
INLINE void *find_or_add(void *map, void *zeros, const void *key)
{
    void *found = map_lookup(map, key), *zero;
    u32 first = 0;

    if (found)
        return found;
    zero = map_lookup(zeros, &first);
    if (zero)
        map_update(map, key, zero, UPDATE_NOEXIST);
    return map_lookup(map, key);
}

struct durations {
    u64 count;
    u64 ns;
    u64 max_ns;
    u32 bins[BINS];
};

/* Several CPUs count in one entry. */
INLINE void add_duration(struct durations *to, u64 ns)
{
    u64 bin = bin_of(ns);

    __sync_fetch_and_add(&to->count, 1);
    __sync_fetch_and_add(&to->ns, ns);
    /* The compiler knows that it is a bin and would leave out what the verifier demands. */
    asm volatile("" : "+r"(bin));
    if (bin < BINS)
        __sync_fetch_and_add(&to->bins[bin], 1);
    if (ns > to->max_ns)
        to->max_ns = ns;
}

#endif
