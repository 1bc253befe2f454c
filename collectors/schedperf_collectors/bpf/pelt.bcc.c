// Counts and times calls of the PELT functions; _pelt_programs.py appends one program for each probe
// and defines FUNCTIONS, CONTEXTS, IN_ENQUEUE, IN_FORK, SAMPLING, OPEN_RUN, OPEN_TRIAL, LINEAR_BINS and
// LINEAR_STEP_NS.
//
// Everything is per CPU and nothing is atomic: what is counted runs under the lock of a run queue with
// interrupts off, so that only a nested call of the same CPU can come between entry and exit. Keys are
// never tasks, as the idle tasks of all CPUs share tid 0.

#define DEEPEST_CALL 4
#define DEEPEST_MARK 8
#define LOG2_BINS 32

struct calls {
	u64 depth;
	u64 start_ns[DEEPEST_CALL]; // 0: this call is not timed
	u64 by_context[CONTEXTS];
	u64 timed;
	u64 sum_ns;
	u64 log2_ns[LOG2_BINS];
	u64 linear_ns[LINEAR_BINS];
	u64 unpaired;
	u64 nested;
};

// The marked functions that this CPU is in, the innermost last.
struct marks {
	u64 depth;
	u64 owner[DEEPEST_MARK]; // context of the function
	u64 context[DEEPEST_MARK]; // what its calls count as
	u64 lost;
	u64 forking; // the task that is in wake_up_new_task(), as bpf_get_current_pid_tgid() has it
};

// Entry and exit of a function cannot be attached at one instant. Nothing is counted before user
// space has attached all and opened the gate, nor after it closed it.
BPF_ARRAY(gates, u64, 2);
BPF_PERCPU_ARRAY(calls, struct calls, FUNCTIONS);
BPF_PERCPU_ARRAY(marks, struct marks, 1);

static __always_inline int is_open(int gate)
{
	u64 *open = gates.lookup(&gate);

	return open && *open;
}

// The innermost marked function that this CPU is in; 0: none.
static __always_inline u64 context_now(void)
{
	int zero = 0;
	struct marks *mark = marks.lookup(&zero);

	if (!mark || !mark->depth)
		return 0;
	u64 top = mark->depth - 1;
	if (top >= DEEPEST_MARK)
		top = DEEPEST_MARK - 1;
	return mark->context[top];
}

static __always_inline struct calls *count(int function, int gate)
{
	if (!is_open(gate))
		return 0;
	struct calls *call = calls.lookup(&function);
	if (!call)
		return 0;
	u64 context = context_now();
	if (context < CONTEXTS)
		call->by_context[context]++;
	return call;
}

// Calls come in fixed patterns, one a level of the hierarchy: every Nth of them would be the same level
// again and again. Of the trial each is timed, as it is there to see what that costs.
static __always_inline int is_timed(int gate)
{
	return gate == OPEN_TRIAL || SAMPLING == 1 || bpf_get_prandom_u32() % SAMPLING == 0;
}

static __always_inline int enter(int function, int gate)
{
	struct calls *call = count(function, gate);

	if (!call)
		return 0;
	u64 depth = call->depth++;
	if (depth >= DEEPEST_CALL) {
		call->nested++;
		return 0;
	}
	call->start_ns[depth] = is_timed(gate) ? bpf_ktime_get_ns() : 0;
	return 0;
}

static __always_inline void add_duration(struct calls *call, u64 ns)
{
	// bpf_log2l() is one more than the number of the highest bit, and 1 for 0.
	u64 log2 = bpf_log2l(ns) - 1;
	u64 linear = ns / LINEAR_STEP_NS;

	if (log2 >= LOG2_BINS)
		log2 = LOG2_BINS - 1;
	if (linear >= LINEAR_BINS)
		linear = LINEAR_BINS - 1;
	call->timed++;
	call->sum_ns += ns;
	call->log2_ns[log2]++;
	call->linear_ns[linear]++;
}

static __always_inline int leave(int function, int gate)
{
	if (!is_open(gate))
		return 0;
	struct calls *call = calls.lookup(&function);
	if (!call)
		return 0;
	if (!call->depth) {
		call->unpaired++;
		return 0;
	}
	u64 depth = --call->depth;
	if (depth < DEEPEST_CALL && call->start_ns[depth])
		add_duration(call, bpf_ktime_get_ns() - call->start_ns[depth]);
	return 0;
}

static __always_inline struct marks *open_marks(void)
{
	int zero = 0;

	return is_open(OPEN_RUN) ? marks.lookup(&zero) : 0;
}

static __always_inline int mark(u64 owner)
{
	struct marks *mark = open_marks();

	if (!mark)
		return 0;
	u64 depth = mark->depth++;
	if (depth >= DEEPEST_MARK) {
		mark->lost++;
		return 0;
	}
	mark->owner[depth] = owner;
	mark->context[depth] = owner;
	// A new task is enqueued as any other, but by wake_up_new_task().
	if (owner == IN_ENQUEUE && mark->forking && mark->forking == bpf_get_current_pid_tgid())
		mark->context[depth] = IN_FORK;
	return 0;
}

// Goes back to what was before the innermost mark of this owner, so that a lost exit of
// another function inside it mends itself.
static __always_inline int unmark(u64 owner)
{
	struct marks *mark = open_marks();

	if (!mark)
		return 0;
	if (mark->depth > DEEPEST_MARK) {
		mark->depth--;
		return 0;
	}
#pragma unroll
	for (int depth = DEEPEST_MARK - 1; depth >= 0; depth--) {
		if (depth < mark->depth && mark->owner[depth] == owner) {
			mark->depth = depth;
			return 0;
		}
	}
	mark->lost++;
	return 0;
}

// wake_up_new_task() can be preempted and moved before it takes its locks, so it is noted
// with its task, and never on the stack of this CPU.
static __always_inline int begin_fork(void)
{
	struct marks *mark = open_marks();

	if (mark)
		mark->forking = bpf_get_current_pid_tgid();
	return 0;
}

static __always_inline int end_fork(void)
{
	struct marks *mark = open_marks();

	if (mark)
		mark->forking = 0;
	return 0;
}
