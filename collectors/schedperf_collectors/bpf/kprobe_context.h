/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What a kprobe finds in the registers: arguments and results of functions on x86-64 and arm64.
 * One object serves both; the loader drops the branch of the other architecture.
 */
#ifndef KPROBE_CONTEXT_H
#define KPROBE_CONTEXT_H

#include "placement.h"

struct pt_regs___x86 {
    unsigned long di, si, dx, cx, ax;
} RELOCATED;

struct pt_regs___arm64 {
    unsigned long regs[31];
} RELOCATED;

/* One of the first four arguments of the probed function, from 0. */
INLINE u64 argument(void *ctx, const u32 number)
{
    struct pt_regs___x86 *x86 = ctx;
    struct pt_regs___arm64 *arm64 = ctx;

    if (!exists(x86->di))
        return READ(false, arm64, regs[number]);
    if (number == 0)
        return READ(false, x86, di);
    if (number == 1)
        return READ(false, x86, si);
    return number == 2 ? READ(false, x86, dx) : READ(false, x86, cx);
}

/* What the probed function returned. */
INLINE u64 returned(void *ctx)
{
    struct pt_regs___x86 *x86 = ctx;

    return exists(x86->di) ? READ(false, x86, ax) : argument(ctx, 0);
}

#endif
