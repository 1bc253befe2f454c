/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Which locks of the kernel the workload's tasks wait for: programs at the BTF tracepoints
 * contention_begin and contention_end (Linux 5.19).
 *
 * A mutex begins twice if spinning did not succeed; the second begin belongs to the same wait. A
 * wait for a spinlock stays on its CPU, a wait for another lock belongs to its task. Whoever releases
 * such a lock wakes the waiting task: the stack at sched_waking is that of the owner. A task that is
 * woken may find the lock taken again; the last one that wakes it counts.
 */
#include "workload.h"

#ifndef USE_VMLINUX_H
struct spinlock {
    int unused;
} RELOCATED;
struct sighand_struct {
    struct spinlock siglock;
} RELOCATED;
#endif

static u32 (*const get_numa_node_id)(void) = (void *)42;
static long (*const map_delete)(void *map, const void *key) = (void *)3;

/* include/trace/events/lock.h */
#define SPIN 1
#define READING 2
#define WRITING 4
#define RT 8
#define PERCPU 16
#define MUTEX 32

/* What is known of a lock whose address says nothing. */
enum known {
    BY_CALLER,
    MMAP_LOCK,
    SIGLOCK,
    STATIC,
};

struct lock_key {
    u64 address; /* of a static lock; else 0 */
    u32 known;
    u32 flags;
    s32 stack;
    u32 node;
    s32 owner_stack;
    u32 is_released;
    char owner[COMM_BYTES];
};

struct wait {
    u64 lock;
    u64 began_ns;
    struct lock_key key;
};

struct {
    __uint(type, MAP_TYPE_HASH);
    __uint(max_entries, 16384);
    __type(key, u32);
    __type(value, struct wait);
} waits SEC(".maps");

struct {
    __uint(type, MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, 1);
    __type(key, u32);
    __type(value, struct wait);
} spins SEC(".maps");

struct {
    __uint(type, MAP_TYPE_HASH);
    __uint(max_entries, 8192);
    __type(key, struct lock_key);
    __type(value, struct durations);
} locks SEC(".maps");

struct {
    __uint(type, MAP_TYPE_ARRAY);
    __uint(max_entries, 1);
    __type(key, u32);
    __type(value, struct durations);
} zeros SEC(".maps");

/* In the order of FACTS in Python. */
struct facts {
    u64 nested;   /* waits for a spinlock in an interrupt of a wait for another */
    u64 full;     /* waits for which a map had no room */
    u64 no_stack; /* stacks that were not stored */
};

struct {
    __uint(type, MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, 1);
    __type(key, u32);
    __type(value, struct facts);
} facts SEC(".maps");

INLINE void describe(struct lock_key *key, u64 lock, struct task_struct *task)
{
    struct mm_struct *mm = task->mm;
    struct sighand_struct *sighand = task->sighand;

    key->known = BY_CALLER;
    if (mm && exists(mm->mmap_lock) && lock == (u64)&mm->mmap_lock)
        key->known = MMAP_LOCK;
    else if (sighand && lock == (u64)&sighand->siglock)
        key->known = SIGLOCK;
    else if (lock >= constants.low && lock < constants.high) {
        key->known = STATIC;
        key->address = lock;
    }
}

INLINE struct facts *facts_here(void)
{
    u32 first = 0;

    return map_lookup(&facts, &first);
}

INLINE bool is_spinning(u32 flags)
{
    return (flags & SPIN) && !(flags & MUTEX);
}

SEC("tp_btf/contention_begin") int contention_begin_btf(const u64 *ctx)
{
    u64 lock = ctx[0];
    u32 flags = ctx[1], first = 0, pid;
    struct task_struct *task;
    struct wait wait = {}, *spin;
    struct facts *fact;

    if (!control.is_open)
        return 0;
    task = get_current_task_btf();
    if (!is_own(task))
        return 0;
    fact = facts_here();
    if (!fact)
        return 0;
    pid = task->pid;
    if (is_spinning(flags)) {
        spin = map_lookup(&spins, &first);
        if (!spin || spin->lock) {
            fact->nested++;
            return 0;
        }
    } else if (map_lookup(&waits, &pid)) {
        return 0;
    }
    wait.lock = lock;
    describe(&wait.key, lock, task);
    wait.key.flags = flags;
    wait.key.node = get_numa_node_id();
    wait.key.owner_stack = -1;
    wait.key.stack = get_stackid((void *)ctx, &kernel_stacks, 0);
    if (wait.key.stack < 0) {
        fact->no_stack++;
        wait.key.stack = -1;
    }
    wait.began_ns = ktime_get_ns();
    if (is_spinning(flags)) {
        spin = map_lookup(&spins, &first);
        if (spin)
            *spin = wait;
    } else if (map_update(&waits, &pid, &wait, UPDATE_ANY)) {
        fact->full++;
    }
    return 0;
}

SEC("tp_btf/sched_waking") int sched_waking_btf(const u64 *ctx)
{
    u32 pid = ((struct task_struct *)ctx[0])->pid;
    struct facts *fact = facts_here();
    struct wait *wait;

    if (!control.is_open || !fact)
        return 0;
    wait = map_lookup(&waits, &pid);
    if (!wait)
        return 0;
    wait->key.is_released = 1;
    wait->key.owner_stack = get_stackid((void *)ctx, &kernel_stacks, 0);
    if (wait->key.owner_stack < 0) {
        fact->no_stack++;
        wait->key.owner_stack = -1;
    }
    read_comm(wait->key.owner, get_current_task_btf());
    return 0;
}

INLINE void end_wait(struct wait *wait)
{
    u64 now_ns = ktime_get_ns();
    struct durations *to = find_or_add(&locks, &zeros, &wait->key);
    struct facts *fact;

    if (to) {
        add_duration(to, now_ns > wait->began_ns ? now_ns - wait->began_ns : 0);
        return;
    }
    fact = facts_here();
    if (fact)
        fact->full++;
}

SEC("tp_btf/contention_end") int contention_end_btf(const u64 *ctx)
{
    u64 lock = ctx[0];
    u32 first = 0, pid;
    struct wait *wait;

    if (!control.is_open)
        return 0;
    wait = map_lookup(&spins, &first);
    if (wait && wait->lock == lock) {
        end_wait(wait);
        wait->lock = 0;
        return 0;
    }
    pid = get_current_pid_tgid();
    wait = map_lookup(&waits, &pid);
    if (!wait || wait->lock != lock)
        return 0;
    end_wait(wait);
    map_delete(&waits, &pid);
    return 0;
}
