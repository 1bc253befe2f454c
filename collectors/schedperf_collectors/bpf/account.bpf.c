/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * How long the workload's tasks wait for a CPU and why, and how long they are blocked: programs at
 * BTF tracepoints.
 *
 * A slot needs no lock, because the events of its task follow one another. Switches, wakeups and load
 * balancing hold the lock of its run queue. A wakeup migrates the task after its last switch, and
 * before it is queued. Fork comes before the first wakeup; at exec and exit the task runs itself,
 * and is not preempted within the tracepoint. Sums are per CPU.
 *
 * The kernel's own sum (sched_info.run_delay) says how long a task has waited, and the events say
 * why. A wait is added to it when the task gets a CPU, so it is read when the task leaves that CPU.
 * Tracepoint programs miss a few switches per thousand on some machines; run_delay includes them.
 */
#include "bpf.h"

#ifndef USE_VMLINUX_H
struct sched_info {
    unsigned long long run_delay;
} RELOCATED;

struct task_struct {
    unsigned int __state;
    unsigned in_iowait : 1;
    int pid;
    int tgid;
    struct sched_info sched_info;
} RELOCATED;
#endif

/* Before "sched: Change task_struct::state" (v5.14). */
struct task_struct___before {
    long state;
} RELOCATED;

/* Since "sched/fair: Switch to task based throttle model" (v6.18). */
struct task_struct___throttled {
    bool throttled;
} RELOCATED;

struct thread_info___x86 {
    u32 status;
} RELOCATED;

struct pt_regs___x86 {
    unsigned long orig_ax;
} RELOCATED;

struct pt_regs___arm64 {
    int syscallno;
} RELOCATED;

static u64 (*const get_current_task_btf)(void) = (void *)158;
static void *(*const task_pt_regs)(const void *task) = (void *)175;

/* include/linux/sched.h, and numbers of sched_yield(2). */
#define TASK_RUNNING 0x0000
#define TASK_DEAD 0x0080
#define TS_COMPAT 0x0002
#define YIELD_X86 24
#define YIELD_I386 158
#define YIELD_ARM64 124

/* What a task does; those before RUNNING are timed, in the order of PARTS in Python. */
enum part {
    WOKEN,
    PREEMPTED,
    YIELDED,
    THROTTLED,
    IO,
    OTHER,
    PARTS,
    RUNNING = PARTS,
    NEW,
};
#define IS_WAITING(part) ((part) < IO)

/* The pid of the recorder, set before loading. */
const volatile u32 recorder SEC(".rodata");

/*
 * The programs count while the gate is open. The setup is the process that becomes the workload; it
 * exists before. 0: no setup, or already found.
 */
struct control {
    u32 is_open;
    u32 setup;
};
volatile struct control control SEC(".bss");

/*
 * A task of the workload. Slots are found by the low bits of the pid, which the kernel hands out in
 * turn; only tasks of the workload have one, from their fork to their last switch.
 */
#define SLOTS (1 << 17)
struct slot {
    u64 task;         /* its address; 0: the slot is free */
    u64 blocked_ns;   /* since when it is blocked */
    u64 run_delay_ns; /* the part of its run_delay that is already counted */
    u32 part;
    u32 waited; /* why it waited before it got its CPU */
    u32 pid;
    u32 padding[7]; /* neighbours are used by other CPUs */
};

struct {
    __uint(type, MAP_TYPE_ARRAY);
    __uint(max_entries, SLOTS);
    __type(key, u32);
    __type(value, struct slot);
} slots SEC(".maps");

struct sums {
    u64 ns[PARTS];
    u64 counts[PARTS];
    u64 tasks;
    u64 ended;
    u64 migrations;
    u64 without_slot; /* tasks whose slot another task had */
    u64 unmatched;    /* events whose predecessor was missed */
    u64 knows_waiting;
    u64 knows_yielded;
    u64 knows_throttled;
};

struct {
    __uint(type, MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, 1);
    __type(key, u32);
    __type(value, struct sums);
} sums SEC(".maps");

INLINE struct sums *sums_here(void)
{
    u32 first = 0;

    return map_lookup(&sums, &first);
}

INLINE struct slot *slot_at(u32 pid)
{
    u32 index = pid % SLOTS;

    return map_lookup(&slots, &index);
}

INLINE u64 run_delay_of(struct task_struct *task)
{
    return exists(task->sched_info.run_delay) ? task->sched_info.run_delay : 0;
}

INLINE bool knows_yielded(void)
{
    struct pt_regs___x86 *x86 = 0;
    struct pt_regs___arm64 *arm64 = 0;

    return exists(x86->orig_ax) || exists(arm64->syscallno);
}

/* Records which waits the kernel shows, for each task: the first one may be the only one. */
INLINE void note_facts(struct sums *sum, struct task_struct *task)
{
    struct task_struct___throttled *throttled = 0;

    sum->knows_waiting = exists(task->sched_info.run_delay);
    sum->knows_yielded = knows_yielded();
    sum->knows_throttled = exists(throttled->throttled);
}

INLINE struct slot *take_slot(struct task_struct *task, enum part part)
{
    struct sums *sum = sums_here();
    u32 pid = task->pid;
    struct slot *slot = slot_at(pid);

    if (!sum || !slot)
        return 0;
    note_facts(sum, task);
    sum->tasks++;
    if (slot->task) {
        sum->without_slot++;
        return 0;
    }
    slot->pid = pid;
    slot->part = part;
    slot->waited = WOKEN;
    slot->run_delay_ns = run_delay_of(task);
    slot->task = (u64)task;
    return slot;
}

/* The slot of a task of the workload; part: what the setup does when it is met. */
INLINE struct slot *find_slot(struct task_struct *task, enum part part)
{
    u32 pid = task->pid;
    struct slot *slot = slot_at(pid);

    if (slot && slot->task == (u64)task)
        return slot;
    if (!pid || pid != control.setup)
        return 0;
    control.setup = 0;
    return take_slot(task, part);
}

/* Whether the current task is in sched_yield(): the registers of an interrupt have no such number. */
INLINE bool in_yield(void)
{
    void *task = (void *)get_current_task_btf();
    void *regs = task_pt_regs(task);
    struct pt_regs___x86 *x86 = regs;
    struct pt_regs___arm64 *arm64 = regs;
    struct thread_info___x86 *info = task;
    u64 number;

    if (exists(arm64->syscallno))
        return READ(false, arm64, syscallno) == YIELD_ARM64;
    if (!exists(x86->orig_ax))
        return false;
    number = READ(false, x86, orig_ax);
    if (number != YIELD_X86 && number != YIELD_I386)
        return false;
    return number == (READ(false, info, status) & TS_COMPAT ? YIELD_I386 : YIELD_X86);
}

INLINE u32 state_of(struct task_struct *task)
{
    struct task_struct___before *before = (void *)task;

    if (exists(task->__state))
        return task->__state;
    return READ(false, before, state);
}

/* What a task does after it leaves its CPU. */
INLINE enum part part_after(struct task_struct *task, u32 state)
{
    struct task_struct___throttled *new = (void *)task;

    if (state != TASK_RUNNING)
        return READ_BITS(task, in_iowait) ? IO : OTHER;
    if (exists(new->throttled) && READ(false, new, throttled))
        return THROTTLED;
    return in_yield() ? YIELDED : PREEMPTED;
}

/* Counts how long the task waited before it got the CPU that it leaves now. */
INLINE void end_waiting(struct sums *sum, struct slot *slot, struct task_struct *task)
{
    u64 run_delay_ns = run_delay_of(task);
    u32 waited = slot->waited;

    if (IS_WAITING(waited))
        sum->ns[waited] += run_delay_ns - slot->run_delay_ns;
    slot->run_delay_ns = run_delay_ns;
}

INLINE void on_arrival(struct sums *sum, struct slot *slot)
{
    u32 part = slot->part;

    if (IS_WAITING(part)) {
        sum->counts[part]++;
        slot->waited = part;
    } else {
        sum->unmatched++;
    }
    slot->part = RUNNING;
}

/* Counts all waits of a task that runs, also if its last arrival was missed. */
INLINE void settle(struct sums *sum, struct slot *slot, struct task_struct *task)
{
    if (slot->part != RUNNING) {
        on_arrival(sum, slot);
        sum->unmatched++;
    }
    end_waiting(sum, slot, task);
}

INLINE void on_leave(struct sums *sum, struct slot *slot, struct task_struct *task, bool preempted)
{
    u32 state = preempted ? TASK_RUNNING : state_of(task);

    settle(sum, slot, task);
    if (state & TASK_DEAD) {
        slot->task = 0;
        return;
    }
    slot->part = part_after(task, state);
    if (!IS_WAITING(slot->part))
        slot->blocked_ns = ktime_get_ns();
}

SEC("tp_btf/sched_switch") int sched_switch_btf(const u64 *ctx)
{
    bool preempted = ctx[0];
    struct task_struct *prev = (void *)ctx[1], *next = (void *)ctx[2];
    struct slot *leaving, *coming;
    struct sums *sum;

    if (!control.is_open)
        return 0;
    leaving = find_slot(prev, RUNNING);
    coming = find_slot(next, WOKEN);
    if (!leaving && !coming)
        return 0;
    sum = sums_here();
    if (!sum)
        return 0;
    if (leaving)
        on_leave(sum, leaving, prev, preempted);
    if (coming)
        on_arrival(sum, coming);
    return 0;
}

INLINE void end_blocked(struct slot *slot)
{
    struct sums *sum = sums_here();
    u64 now_ns = ktime_get_ns();
    u32 part = slot->part;

    if (!sum || part >= PARTS)
        return;
    sum->counts[part]++;
    /* Clocks of two CPUs may differ by some ns. */
    if (now_ns > slot->blocked_ns)
        sum->ns[part] += now_ns - slot->blocked_ns;
}

INLINE int on_wakeup(const u64 *ctx)
{
    struct task_struct *task = (void *)ctx[0];
    struct slot *slot;

    if (!control.is_open)
        return 0;
    slot = find_slot(task, NEW);
    /* A task may be woken while it runs or waits. */
    if (!slot || IS_WAITING(slot->part) || slot->part == RUNNING)
        return 0;
    end_blocked(slot);
    slot->part = WOKEN;
    return 0;
}

SEC("tp_btf/sched_wakeup") int sched_wakeup_btf(const u64 *ctx)
{
    return on_wakeup(ctx);
}

SEC("tp_btf/sched_wakeup_new") int sched_wakeup_new_btf(const u64 *ctx)
{
    return on_wakeup(ctx);
}

SEC("tp_btf/sched_process_fork") int sched_process_fork_btf(const u64 *ctx)
{
    struct task_struct *parent = (void *)ctx[0], *child = (void *)ctx[1];

    if (!control.is_open)
        return 0;
    if ((u32)parent->tgid != recorder && !find_slot(parent, RUNNING))
        return 0;
    /* A thread of the recorder is not part of the workload. */
    if ((u32)child->tgid == recorder)
        return 0;
    take_slot(child, NEW);
    return 0;
}

/*
 * A thread that executes takes the pid of its leader, which has ended, but whose last switch may
 * have been with the pid that the thread had before.
 */
SEC("tp_btf/sched_process_exec") int sched_process_exec_btf(const u64 *ctx)
{
    struct task_struct *task = (void *)ctx[0];
    u32 old_pid = ctx[1], pid = task->pid;
    struct slot *from = slot_at(old_pid), *to = slot_at(pid);
    struct sums *sum = sums_here();

    if (!control.is_open || pid == old_pid)
        return 0;
    if (!from || !to || !sum || from->task != (u64)task)
        return 0;
    if (to->task && to->pid != pid) {
        sum->without_slot++;
    } else {
        to->pid = pid;
        to->part = from->part;
        to->waited = from->waited;
        to->blocked_ns = from->blocked_ns;
        to->run_delay_ns = from->run_delay_ns;
        to->task = from->task;
    }
    from->task = 0;
    return 0;
}

/* It still runs, until its last switch, which may follow the end of the counting. */
SEC("tp_btf/sched_process_exit") int sched_process_exit_btf(const u64 *ctx)
{
    struct task_struct *task = (void *)ctx[0];
    struct sums *sum = sums_here();
    struct slot *slot;

    if (!control.is_open || !sum)
        return 0;
    slot = find_slot(task, RUNNING);
    if (slot) {
        sum->ended++;
        settle(sum, slot, task);
    }
    return 0;
}

SEC("tp_btf/sched_migrate_task") int sched_migrate_task_btf(const u64 *ctx)
{
    struct task_struct *task = (void *)ctx[0];
    struct sums *sum;

    if (!control.is_open || !find_slot(task, NEW))
        return 0;
    sum = sums_here();
    if (sum)
        sum->migrations++;
    return 0;
}
