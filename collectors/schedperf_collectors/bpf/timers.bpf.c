/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * When the period timers of groups with a limit of CPU bandwidth expire: each refills the quota
 * of one struct cfs_bandwidth (sched_cfs_period_timer() in kernel/sched/fair.c).
 *
 * The phase is that of the time for which the timer was set, not of the later moment at which it
 * was handled: timers of several groups may be set for the same time.
 */
#include "placement.h"

#define PHASE_BINS 64
/* A group is named by its folder and those around it, as far as there is room. */
#define FOLDERS 8
#define NAME_BYTES 64

#ifndef USE_VMLINUX_H
struct timerqueue_node {
    s64 expires;
} RELOCATED;

struct hrtimer {
    struct timerqueue_node node;
    void *function;
} RELOCATED;

struct cfs_bandwidth {
    s64 period;
    struct hrtimer period_timer;
} RELOCATED;

struct kernfs_node {
    const char *name;
    u64 id;
} RELOCATED;

struct cgroup {
    struct kernfs_node *kn;
} RELOCATED;
#endif

/* "kernfs: Use RCU to access kernfs_node::parent." (v6.15) renamed it. */
struct kernfs_node___rcu {
    struct kernfs_node *__parent;
} RELOCATED;

struct kernfs_node___before {
    struct kernfs_node *parent;
} RELOCATED;

/* Versions of our own: the collector's other program reads other members of these types. */
struct cgroup_subsys_state___of_group {
    struct cgroup *cgroup;
} RELOCATED;

struct task_group___of_bandwidth {
    struct cgroup_subsys_state___of_group css;
    struct cfs_bandwidth cfs_bandwidth;
} RELOCATED;

/* A group, by the id of its kernfs directory; a change of the period starts another histogram. */
struct timer_key {
    u64 cgroup;
    u64 period_ns;
};

struct timer_value {
    u64 expiries;
    u64 first_ns;
    u64 overruns;
    u64 phases[PHASE_BINS];
    char folders[FOLDERS][NAME_BYTES]; /* the innermost first; the hierarchy's root has no name */
};

/* A timer runs on one CPU at a time, so nothing here needs to be atomic. */
struct {
    __uint(type, MAP_TYPE_HASH);
    __uint(max_entries, 4096);
    __type(key, struct timer_key);
    __type(value, struct timer_value);
} timer_counts SEC(".maps");

/* A new entry is too large for the stack of a program. */
struct {
    __uint(type, MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, 1);
    __type(key, u32);
    __type(value, struct timer_value);
} timer_scratch SEC(".maps");

/* Expiries of groups for which there was no room. */
struct {
    __uint(type, MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, 1);
    __type(key, u32);
    __type(value, u64);
} timer_lost SEC(".maps");

/* Its address, from the kernel's symbols. */
extern const void sched_cfs_period_timer __attribute__((section(".ksyms")));

INLINE struct kernfs_node *parent_of(struct kernfs_node *folder)
{
    struct kernfs_node___rcu *rcu = (void *)folder;
    struct kernfs_node___before *before = (void *)folder;

    return exists(rcu->__parent) ? READ(false, rcu, __parent) : READ(false, before, parent);
}

INLINE struct timer_value *start_group(struct timer_key *key, struct kernfs_node *folder)
{
    u32 zero = 0;
    struct timer_value *value = map_lookup(&timer_scratch, &zero);
    u64 *lost = map_lookup(&timer_lost, &zero);

    if (!value || !lost)
        return 0;
    for (u32 level = 0; level < FOLDERS; level++) {
        value->folders[level][0] = 0;
        read_kernel_str(value->folders[level], NAME_BYTES, READ(false, folder, name));
        folder = parent_of(folder);
    }
    if (map_update(&timer_counts, key, value, UPDATE_NOEXIST))
        *lost += 1;
    return map_lookup(&timer_counts, key);
}

INLINE void count(struct timer_value *value, u64 period, u64 expires, s64 now)
{
    u64 bin = expires % period * PHASE_BINS / period;

    if (!value->expiries)
        value->first_ns = expires;
    value->expiries += 1;
    /* Whole periods that passed before the timer was handled. */
    if (now > 0 && (u64)now > expires)
        value->overruns += ((u64)now - expires) / period;
    if (bin < PHASE_BINS)
        value->phases[bin] += 1;
}

INLINE int on_expiry(struct hrtimer *timer, const s64 *now_at)
{
    struct cfs_bandwidth *bandwidth =
        (void *)timer - __builtin_preserve_field_info(
                            ((struct cfs_bandwidth *)0)->period_timer, FIELD_BYTE_OFFSET);
    struct task_group___of_bandwidth *group =
        (void *)bandwidth -
        __builtin_preserve_field_info(((struct task_group___of_bandwidth *)0)->cfs_bandwidth,
                                      FIELD_BYTE_OFFSET);
    struct kernfs_node *folder;
    struct cgroup *cgroup;
    struct timer_value *value;
    struct timer_key key = {};
    s64 now = 0;

    if (!is_open || (u64)READ(false, timer, function) != (u64)&sched_cfs_period_timer)
        return 0;
    cgroup = READ(false, group, css.cgroup);
    folder = READ(false, cgroup, kn);
    key.cgroup = READ(false, folder, id);
    key.period_ns = READ(false, bandwidth, period);
    value = map_lookup(&timer_counts, &key);
    if (!value)
        value = start_group(&key, folder);
    if (!value || !key.period_ns)
        return 0;
    read_kernel(&now, sizeof(now), now_at);
    count(value, key.period_ns, READ(false, timer, node.expires), now);
    return 0;
}

SEC("tp_btf/hrtimer_expire_entry")
int expiry_tp_btf(u64 *ctx)
{
    return on_expiry((void *)ctx[0], (void *)ctx[1]);
}

SEC("raw_tp/hrtimer_expire_entry")
int expiry_raw_tp(u64 *ctx)
{
    return on_expiry((void *)ctx[0], (void *)ctx[1]);
}
