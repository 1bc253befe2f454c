/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Where the workload's tasks leave their CPU, and how long until they run again: programs at BTF
 * tracepoints.
 *
 * The stacks are those of the task that leaves, at sched_switch. For a blocked task, sched_waking
 * says which task wakes it; from then on it is runnable.
 */
#include "workload.h"

/* Before "sched: Change task_struct::state" (v5.14). */
struct task_struct___before {
    long state;
} RELOCATED;

struct pt_regs___x86 {
    unsigned long orig_ax;
} RELOCATED;

struct pt_regs___arm64 {
    int syscallno;
} RELOCATED;

static void *(*const task_pt_regs)(const void *task) = (void *)175;
static long (*const map_delete)(void *map, const void *key) = (void *)3;

/* include/linux/sched.h */
#define TASK_RUNNING 0x0000
#define TASK_DEAD 0x0080

/* What is counted: constants.counted. */
#define PREEMPTED 1
#define BLOCKED 2

/*
 * Where a task left its CPU. Who: the task that ran instead, or the one that woke it; the interrupted
 * task of an interrupt is "".
 */
struct off_key {
    s32 kernel_stack;
    s32 user_stack;
    s32 call; /* number of its system call; -1: none */
    u32 has_waker;
    char who[COMM_BYTES];
};

struct pause {
    u64 began_ns;
    u64 woken_ns;
    u64 slice_left_ns;
    struct off_key key;
};

/* Tasks that are off their CPU, by pid. */
struct {
    __uint(type, MAP_TYPE_HASH);
    __uint(max_entries, 32768);
    __type(key, u32);
    __type(value, struct pause);
} pauses SEC(".maps");

struct off_cpu {
    u64 runnable_ns; /* of the time of blocked tasks: since they were woken */
    u64 slice_left_ns;
    struct durations durations;
};

struct {
    __uint(type, MAP_TYPE_HASH);
    __uint(max_entries, 16384);
    __type(key, struct off_key);
    __type(value, struct off_cpu);
} places SEC(".maps");

struct {
    __uint(type, MAP_TYPE_ARRAY);
    __uint(max_entries, 1);
    __type(key, u32);
    __type(value, struct off_cpu);
} zeros SEC(".maps");

/* In the order of FACTS in Python. */
struct facts {
    u64 full;            /* pauses for which a map had no room */
    u64 no_kernel_stack; /* pauses whose stack was not stored */
    u64 no_user_stack;
    u64 shorter;         /* pauses below the shortest duration */
    u64 shorter_ns;
    u64 knows_slice;
};

struct {
    __uint(type, MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, 1);
    __type(key, u32);
    __type(value, struct facts);
} facts SEC(".maps");

INLINE struct facts *facts_here(void)
{
    u32 first = 0;

    return map_lookup(&facts, &first);
}

INLINE s32 call_of(struct task_struct *task)
{
    void *regs = task_pt_regs(task);
    struct pt_regs___x86 *x86 = regs;
    struct pt_regs___arm64 *arm64 = regs;

    if (exists(arm64->syscallno))
        return READ(false, arm64, syscallno);
    if (exists(x86->orig_ax))
        return READ(false, x86, orig_ax);
    return -1;
}

INLINE u32 state_of(struct task_struct *task)
{
    struct task_struct___before *before = (void *)task;

    if (exists(task->__state))
        return task->__state;
    return READ(false, before, state);
}

/* What is left of the slice of a task that has run since prev_sum_exec_runtime (Linux 6.6). */
INLINE u64 slice_left(struct facts *fact, struct task_struct *task)
{
    u64 ran_ns;

    if (!exists(task->se.slice))
        return 0;
    fact->knows_slice = 1;
    ran_ns = task->se.sum_exec_runtime - task->se.prev_sum_exec_runtime;
    return task->se.slice > ran_ns ? task->se.slice - ran_ns : 0;
}

INLINE void on_leave(const u64 *ctx, struct task_struct *prev, struct task_struct *next, u64 now_ns)
{
    bool preempted = ctx[0];
    u32 state = preempted ? TASK_RUNNING : state_of(prev), pid = prev->pid;
    struct facts *fact = facts_here();
    struct pause pause = {};
    u32 kind = state == TASK_RUNNING ? PREEMPTED : BLOCKED;

    if (!fact || !(constants.counted & kind) || (state & TASK_DEAD) || !is_own(prev))
        return;
    pause.key.kernel_stack = get_stackid((void *)ctx, &kernel_stacks, 0);
    pause.key.user_stack = user_stack((void *)ctx, prev);
    if (pause.key.kernel_stack < 0) {
        fact->no_kernel_stack++;
        pause.key.kernel_stack = -1;
    }
    if (pause.key.user_stack < 0) {
        fact->no_user_stack++;
        pause.key.user_stack = -1;
    }
    pause.key.call = call_of(prev);
    if (kind == PREEMPTED) {
        read_comm(pause.key.who, next);
        pause.slice_left_ns = slice_left(fact, prev);
    }
    pause.began_ns = now_ns;
    if (map_update(&pauses, &pid, &pause, UPDATE_ANY))
        fact->full++;
}

INLINE void on_arrival(struct task_struct *next, u64 now_ns)
{
    u32 pid = next->pid;
    struct pause *pause;
    struct off_cpu *place;
    struct facts *fact;
    u64 ns;

    /* Every idle task has the pid 0. */
    if (!pid)
        return;
    pause = map_lookup(&pauses, &pid);
    fact = facts_here();
    if (!pause || !fact)
        return;
    /* Clocks of two CPUs may differ by some ns. */
    ns = now_ns > pause->began_ns ? now_ns - pause->began_ns : 0;
    if (ns < constants.least_ns) {
        fact->shorter++;
        fact->shorter_ns += ns;
    } else {
        place = find_or_add(&places, &zeros, &pause->key);
        if (place) {
            add_duration(&place->durations, ns);
            if (pause->woken_ns && now_ns > pause->woken_ns)
                __sync_fetch_and_add(&place->runnable_ns, now_ns - pause->woken_ns);
            __sync_fetch_and_add(&place->slice_left_ns, pause->slice_left_ns);
        } else {
            fact->full++;
        }
    }
    map_delete(&pauses, &pid);
}

SEC("tp_btf/sched_switch") int sched_switch_btf(const u64 *ctx)
{
    struct task_struct *prev = (void *)ctx[1], *next = (void *)ctx[2];
    u64 now_ns;

    if (!control.is_open)
        return 0;
    /* Before the stacks are walked: that time belongs to neither task's run. */
    now_ns = ktime_get_ns();
    on_leave(ctx, prev, next, now_ns);
    on_arrival(next, now_ns);
    return 0;
}

SEC("tp_btf/sched_waking") int sched_waking_btf(const u64 *ctx)
{
    struct task_struct *task = (void *)ctx[0];
    u32 pid = task->pid;
    struct pause *pause;

    if (!control.is_open)
        return 0;
    pause = map_lookup(&pauses, &pid);
    if (!pause || pause->woken_ns)
        return 0;
    pause->woken_ns = ktime_get_ns();
    pause->key.has_waker = 1;
    read_comm(pause->key.who, get_current_task_btf());
    return 0;
}

#ifndef USE_VMLINUX_H
struct linux_binprm {
    const char *interp;
} RELOCATED;
#endif

#define PATH_BYTES 128

struct program_path {
    char name[PATH_BYTES];
};

/* Programs that the workload's processes execute, some of which end before anyone lists their files. */
struct {
    __uint(type, MAP_TYPE_HASH);
    __uint(max_entries, 1024);
    __type(key, struct program_path);
    __type(value, u32);
} executed SEC(".maps");

SEC("tp_btf/sched_process_exec") int sched_process_exec_btf(const u64 *ctx)
{
    struct task_struct *task = (void *)ctx[0];
    struct linux_binprm *program = (void *)ctx[2];
    struct program_path path = {};
    u32 one = 1;
    long size;

    if (!control.is_open || !is_own(task))
        return 0;
    size = read_kernel_str(path.name, PATH_BYTES, program->interp);
    /* A longer name is cut. */
    if (size > 1 && size < PATH_BYTES)
        map_update(&executed, &path, &one, UPDATE_ANY);
    return 0;
}

/* A task that ends does not run again. */
SEC("tp_btf/sched_process_exit") int sched_process_exit_btf(const u64 *ctx)
{
    u32 pid = ((struct task_struct *)ctx[0])->pid;

    map_delete(&pauses, &pid);
    return 0;
}
