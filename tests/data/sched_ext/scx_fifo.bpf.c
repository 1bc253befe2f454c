// SPDX-License-Identifier: GPL-2.0-or-later
/* A sched_ext scheduler with one queue, from which each CPU takes the oldest task.
 *
 * It forgets tasks whose names begin with "stall", so that the kernel's watchdog ejects it.
 */

#define SEC(name) __attribute__((section(name), used))
#define RELOCATED __attribute__((preserve_access_index))

typedef unsigned int u32;
typedef unsigned long long u64;

/* enum scx_dsq_id_flags: SCX_DSQ_FLAG_BUILTIN | 1, and the default slice of 20 ms. */
#define SCX_DSQ_GLOBAL (1ULL << 63 | 1)
#define SCX_SLICE_DFL 20000000ULL

struct task_struct {
	char comm[16];
} RELOCATED;

/* libbpf finds the kernel's fields by these names. */
struct sched_ext_ops {
	int (*select_cpu)(struct task_struct *p, int prev_cpu, u64 wake_flags);
	void (*enqueue)(struct task_struct *p, u64 enq_flags);
	u32 timeout_ms;
	char name[128];
};

extern void scx_bpf_dsq_insert(struct task_struct *p, u64 dsq_id, u64 slice, u64 enq_flags)
	SEC(".ksyms");

SEC("struct_ops/fifo_select_cpu")
int fifo_select_cpu(u64 *ctx)
{
	return (int)ctx[1];
}

SEC("struct_ops/fifo_enqueue")
int fifo_enqueue(u64 *ctx)
{
	struct task_struct *p = (struct task_struct *)ctx[0];

	if (p->comm[0] == 's' && p->comm[1] == 't' && p->comm[2] == 'a' && p->comm[3] == 'l' &&
	    p->comm[4] == 'l')
		return 0;
	scx_bpf_dsq_insert(p, SCX_DSQ_GLOBAL, SCX_SLICE_DFL, ctx[1]);
	return 0;
}

SEC(".struct_ops")
struct sched_ext_ops fifo = {
	.select_cpu = (void *)fifo_select_cpu,
	.enqueue = (void *)fifo_enqueue,
	.timeout_ms = 2000,
	.name = "fifo",
};

char gpl[] SEC("license") = "GPL";
