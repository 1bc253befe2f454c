/* SPDX-License-Identifier: GPL-2.0-or-later */
// What pelt.h needs of bcc, for machines where libbpf cannot load pelt.bpf.c. bcc does not search
// our directory: pelt/loader.py puts the text of pelt.h in its place below, defines SAMPLING and
// appends one program for each probe.
#define INLINE static __always_inline
#define ktime_get_ns bpf_ktime_get_ns
#define get_prandom_u32 bpf_get_prandom_u32
#define get_current_pid_tgid bpf_get_current_pid_tgid
// bpf_log2l() counts bits from 1, and returns 1 for 0.
#define log2_of(value) (bpf_log2l(value) - 1)

#include "pelt.h"

BPF_ARRAY(gates, u64, GATES);
BPF_PERCPU_ARRAY(calls, struct calls, SLOTS);
BPF_PERCPU_ARRAY(marks, struct marks, 1);

INLINE u64 *gate_at(u32 gate)
{
	int key = gate;

	return gates.lookup(&key);
}

INLINE struct calls *calls_at(u32 slot)
{
	int key = slot;

	return calls.lookup(&key);
}

INLINE struct marks *marks_here(void)
{
	int zero = 0;

	return marks.lookup(&zero);
}
