/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the load balancer decided: kernel/sched/fair.c, seen at the exits of four functions. Their
 * names changed in "sched/balancing: Rename find_idlest_group() ..." (v6.10):
 *
 *   destination  find_idlest_group(sd, p, this_cpu)  sched_balance_find_dst_group
 *   source       find_busiest_group(env)             sched_balance_find_src_group
 *   attempt      load_balance(this_cpu, this_rq, sd, idle, continue_balancing)  sched_balance_rq
 *   migratable   can_migrate_task(p, env)
 *
 * An exit that has the arguments (fexit) needs no program at the entry, which halves the cost; only
 * attempts have one. A kretprobe has no arguments, so a kprobe keeps them until the function
 * returns. All four run with preemption off or in a softirq, and none of them calls itself, so one
 * slot per CPU is enough. An exit whose entry was missed (the function ran already when counting
 * began) counts nothing.
 */
#include "placement.h"

#include "kprobe_context.h"

/* LBF_* are macros and therefore not in BTF; the bits have been these since v3.11. */
#define LBF_ALL_PINNED 0x01
#define LBF_SOME_PINNED 0x08
/* 8192 CPUs, the largest NR_CPUS of x86, in words of a cpumask. */
#define CPU_MASK_WORDS 128
#define LEVEL_BYTES 16
/* To no node: find_idlest_group() said that the task stays in the local group. */
#define KEPT_LOCAL 0xfffe

enum decision { DESTINATION, SOURCE, ATTEMPT, MIGRATABLE, DECISIONS };
enum idleness { BUSY, IDLE, NEWIDLE };

#ifndef USE_VMLINUX_H
enum cpu_idle_type { CPU_IDLE = 1, CPU_NEWLY_IDLE };

struct sched_group_capacity {
    int imbalance;
} RELOCATED;

struct sched_group {
    struct sched_group_capacity *sgc;
    unsigned long cpumask[0];
} RELOCATED;

struct sched_domain {
    struct sched_domain *parent;
    struct sched_group *groups;
    int level;
    char *name;
} RELOCATED;

struct lb_env {
    struct sched_domain *sd;
    enum cpu_idle_type idle;
    unsigned int flags;
} RELOCATED;
#endif

/*
 * level: the address of sd->name, which is one for all domains of a level; sd->level where the
 * kernel keeps no names.
 * yes: DESTINATION: of a fork; SOURCE: a group was found; MIGRATABLE: the task may be moved.
 */
struct balance_key {
    u64 level;
    u16 from_node;
    u16 to_node;
    u8 decision;
    u8 idle;
    u8 yes;
    u8 unused;
};

/* name: of the level, written by the CPU that made the entry. */
struct balance_value {
    u64 count;
    u64 pulled;
    u64 some_pinned;
    u64 all_pinned;
    u64 imbalance;
    char name[LEVEL_BYTES];
};

/* What a kprobe saw at an entry. */
struct entry {
    u64 arguments[4];
    u64 is_valid;
};

/* An attempt that is under way; sd is 0 where none is. */
struct attempt {
    struct sched_domain *sd;
    u8 imbalance;
    u8 some_pinned;
    u8 all_pinned;
};

struct balance_slot {
    struct attempt attempt;
    struct entry entries[DECISIONS];
};

struct {
    __uint(type, MAP_TYPE_PERCPU_HASH);
    __uint(max_entries, 1);
    __type(key, struct balance_key);
    __type(value, struct balance_value);
} balance_counts SEC(".maps");

struct {
    __uint(type, MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, 1);
    __type(key, u32);
    __type(value, struct balance_slot);
} balance_slots SEC(".maps");

/* Decisions that found the table of counts full. */
struct {
    __uint(type, MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, 1);
    __type(key, u32);
    __type(value, u64);
} balance_lost SEC(".maps");

INLINE struct balance_slot *this_slot(void)
{
    u32 zero = 0;

    return is_open ? map_lookup(&balance_slots, &zero) : 0;
}

/* Kernels number them differently (v6.10 made "not idle" 0); only the names are stable. */
INLINE u8 idleness_of(u32 idle)
{
    if (idle == enumerator_value(enum cpu_idle_type, CPU_NEWLY_IDLE))
        return NEWIDLE;
    return idle == enumerator_value(enum cpu_idle_type, CPU_IDLE) ? IDLE : BUSY;
}

INLINE u64 level_of_domain(const bool typed, struct sched_domain *sd)
{
    return exists(sd->name) ? (u64)READ(typed, sd, name) : (u64)READ(typed, sd, level);
}

INLINE struct balance_value *add_counts(struct balance_key *key)
{
    struct balance_value *counts, none = {};
    u32 zero = 0;
    u64 *lost;

    if (exists(((struct sched_domain *)0)->name))
        read_kernel_str(none.name, sizeof(none.name), (const void *)key->level);
    map_update(&balance_counts, key, &none, UPDATE_NOEXIST);
    counts = map_lookup(&balance_counts, key);
    lost = counts ? 0 : map_lookup(&balance_lost, &zero);
    if (lost)
        *lost += 1;
    return counts;
}

INLINE struct balance_value *counts_of(struct balance_key *key)
{
    struct balance_value *counts = map_lookup(&balance_counts, key);

    return counts ? counts : add_counts(key);
}

/* Whether a group is marked as imbalanced, because the affinity of its tasks kept them there. */
INLINE u8 is_imbalanced(struct sched_group *group)
{
    struct sched_group_capacity *capacity = READ(false, group, sgc);

    return READ(false, capacity, imbalance) != 0;
}

/* The mark that an attempt may set: its own group's, as the domain above sees it. */
INLINE u8 parent_is_imbalanced(struct sched_domain *sd)
{
    struct sched_domain *parent = READ(false, sd, parent);
    struct sched_group *own = READ(false, parent, groups);

    return parent && is_imbalanced(own);
}

/* By halves: clang 14 cannot compile __builtin_ctzll() for BPF. */
INLINE u32 lowest_bit(u64 word)
{
    u32 bit = 0;

    for (u32 half = 32; half; half /= 2) {
        if (word << (64 - half))
            continue;
        word >>= half;
        bit += half;
    }
    return bit;
}

INLINE u32 node_of_group(struct sched_group *group)
{
    const void *mask = __builtin_preserve_access_index(&group->cpumask[0]);
    u64 word = 0;

    for (u32 index = 0; index < CPU_MASK_WORDS; index++) {
        read_kernel(&word, sizeof(word), mask + index * sizeof(word));
        if (word)
            return node_of(index * 64 + lowest_bit(word));
    }
    return settings.nodes - 1;
}

INLINE int on_destination(struct sched_domain *sd, struct task_struct *p, u32 cpu,
                          struct sched_group *group)
{
    struct balance_key key = {.decision = DESTINATION};
    struct balance_value *counts;

    key.level = level_of_domain(false, sd);
    key.from_node = node_of(cpu);
    key.to_node = group ? node_of_group(group) : KEPT_LOCAL;
    /*
     * wake_up_new_task() has set the state to running before, so the state does not show a fork.
     * A task that has not run yet is new, unless it asks for itself: then it is in execve().
     */
    key.yes = !READ(false, p, se.sum_exec_runtime) && (u64)p != get_current_task();
    counts = counts_of(&key);
    if (counts) {
        counts->count += 1;
        /* The first group of a domain is the one that holds the CPU whose domain it is. */
        counts->imbalance += is_imbalanced(READ(false, sd, groups));
    }
    return 0;
}

INLINE int on_source(const bool typed, struct lb_env *env, struct sched_group *group)
{
    struct balance_key key = {.decision = SOURCE};
    struct balance_value *counts;

    key.level = level_of_domain(typed, READ(typed, env, sd));
    key.idle = idleness_of(READ(typed, env, idle));
    key.yes = group != 0;
    counts = counts_of(&key);
    if (counts)
        counts->count += 1;
    return 0;
}

INLINE int begin_attempt(struct sched_domain *sd)
{
    struct balance_slot *slot = this_slot();

    if (slot)
        slot->attempt = (struct attempt){.sd = sd, .imbalance = parent_is_imbalanced(sd)};
    return 0;
}

INLINE int on_attempt(u32 cpu, struct sched_domain *sd, u32 idle, u32 pulled)
{
    struct balance_key key = {.decision = ATTEMPT};
    struct balance_slot *slot = this_slot();
    struct balance_value *counts;

    if (!slot || slot->attempt.sd != sd)
        return 0;
    key.level = level_of_domain(false, sd);
    key.from_node = node_of(cpu);
    key.idle = idleness_of(idle);
    counts = counts_of(&key);
    if (counts) {
        counts->count += 1;
        counts->pulled += pulled;
        counts->some_pinned += slot->attempt.some_pinned;
        counts->all_pinned += slot->attempt.all_pinned;
        counts->imbalance += slot->attempt.imbalance | parent_is_imbalanced(sd);
    }
    slot->attempt.sd = 0;
    return 0;
}

/*
 * Note the flags after the check of one task; return whether this task made the attempt set
 * LBF_SOME_PINNED, which stays set. Active balancing checks a task, too, but outside an attempt:
 * once, from the stopper, for another CPU's domain.
 */
INLINE bool note_pinned(struct attempt *attempt, struct sched_domain *sd, u32 flags)
{
    bool some_pinned = flags & LBF_SOME_PINNED, before;

    if (attempt->sd != sd)
        return some_pinned;
    before = attempt->some_pinned;
    attempt->some_pinned = some_pinned;
    /* The first task that is not pinned clears it, so the last look counts. */
    attempt->all_pinned = !!(flags & LBF_ALL_PINNED);
    return some_pinned && !before;
}

INLINE int on_migratable(const bool typed, struct lb_env *env, bool answer)
{
    struct balance_key key = {.decision = MIGRATABLE};
    struct balance_slot *slot = this_slot();
    struct balance_value *counts;
    struct sched_domain *sd;
    bool was_set;

    if (!slot)
        return 0;
    sd = READ(typed, env, sd);
    key.level = level_of_domain(typed, sd);
    key.idle = idleness_of(READ(typed, env, idle));
    key.yes = answer;
    was_set = note_pinned(&slot->attempt, sd, READ(typed, env, flags));
    counts = counts_of(&key);
    if (counts) {
        counts->count += 1;
        counts->some_pinned += was_set;
    }
    return 0;
}

/* Keep the arguments of a probed function until it returns. */
INLINE int keep(enum decision decision, void *ctx)
{
    struct balance_slot *slot = this_slot();
    struct entry *entry;

    if (!slot)
        return 0;
    entry = &slot->entries[decision];
    entry->arguments[0] = argument(ctx, 0);
    entry->arguments[1] = argument(ctx, 1);
    entry->arguments[2] = argument(ctx, 2);
    entry->arguments[3] = argument(ctx, 3);
    entry->is_valid = true;
    return 0;
}

/* The kept arguments, which are used once; 0 for an exit without an entry. */
INLINE u64 *kept(enum decision decision)
{
    struct balance_slot *slot = this_slot();
    struct entry *entry;

    if (!slot || !slot->entries[decision].is_valid)
        return 0;
    entry = &slot->entries[decision];
    entry->is_valid = false;
    return entry->arguments;
}

/*
 * Each function by either mechanism. The context of fexit is the arguments and then what is
 * returned: find_idlest_group() has three, find_busiest_group() one, load_balance() five and
 * can_migrate_task() two, which the collector checks before it loads.
 */
SEC("fexit/find_idlest_group") int destination_fexit(u64 *ctx)
{
    return is_open ? on_destination((void *)ctx[0], (void *)ctx[1], ctx[2], (void *)ctx[3]) : 0;
}
SEC("kprobe/find_idlest_group") int destination_kprobe(void *ctx)
{
    return keep(DESTINATION, ctx);
}
SEC("kretprobe/find_idlest_group") int destination_kretprobe(void *ctx)
{
    u64 *was = kept(DESTINATION);

    return was ? on_destination((void *)was[0], (void *)was[1], was[2], (void *)returned(ctx)) : 0;
}

SEC("fexit/find_busiest_group") int source_fexit(u64 *ctx)
{
    return is_open ? on_source(true, (void *)ctx[0], (void *)ctx[1]) : 0;
}
SEC("kprobe/find_busiest_group") int source_kprobe(void *ctx)
{
    return keep(SOURCE, ctx);
}
SEC("kretprobe/find_busiest_group") int source_kretprobe(void *ctx)
{
    u64 *was = kept(SOURCE);

    return was ? on_source(false, (void *)was[0], (void *)returned(ctx)) : 0;
}

SEC("fentry/load_balance") int attempt_fentry(u64 *ctx)
{
    return begin_attempt((void *)ctx[2]);
}
SEC("fexit/load_balance") int attempt_fexit(u64 *ctx)
{
    return on_attempt(ctx[0], (void *)ctx[2], ctx[3], ctx[5]);
}
SEC("kprobe/load_balance") int attempt_kprobe(void *ctx)
{
    begin_attempt((void *)argument(ctx, 2));
    return keep(ATTEMPT, ctx);
}
SEC("kretprobe/load_balance") int attempt_kretprobe(void *ctx)
{
    u64 *was = kept(ATTEMPT);

    return was ? on_attempt(was[0], (void *)was[2], was[3], returned(ctx)) : 0;
}

SEC("fexit/can_migrate_task") int migratable_fexit(u64 *ctx)
{
    return on_migratable(true, (void *)ctx[1], ctx[2] & 0xffffffff);
}
SEC("kprobe/can_migrate_task") int migratable_kprobe(void *ctx)
{
    return keep(MIGRATABLE, ctx);
}
SEC("kretprobe/can_migrate_task") int migratable_kretprobe(void *ctx)
{
    u64 *was = kept(MIGRATABLE);

    return was ? on_migratable(false, (void *)was[1], returned(ctx) & 0xffffffff) : 0;
}
