/* SPDX-License-Identifier: GPL-2.0-or-later */
// SPDX-License-Identifier: GPL-2.0-or-later
// Workloads of bench.causes with one planted cause each.
//
//   workload locks THREADS ROUNDS    threads that hold a mutex half of the time; with SHARED=1 all
//                                    hold the same one, else each thread its own
//   workload faults MIB ROUNDS       maps and writes memory; with NO_THP=1 in small pages
//   workload write FILE KIB ROUNDS   writes past the page cache
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define PADDED 64
#define WORK 2000

static struct { pthread_mutex_t mutex; char pad[PADDED]; } locks[PADDED];
static long rounds;
static int is_shared;

static void work(void)
{
	for (volatile int i = 0; i < WORK; i++)
		;
}

static void *hold(void *number)
{
	pthread_mutex_t *mutex = &locks[is_shared ? 0 : (long)number].mutex;

	for (long i = 0; i < rounds; i++) {
		pthread_mutex_lock(mutex);
		work();
		pthread_mutex_unlock(mutex);
		work();
	}
	return NULL;
}

static int run_locks(long threads)
{
	pthread_t started[PADDED];

	if (threads > PADDED)
		return 2;
	for (long i = 0; i < threads; i++)
		pthread_mutex_init(&locks[i].mutex, NULL);
	for (long i = 0; i < threads; i++)
		pthread_create(&started[i], NULL, hold, (void *)i);
	for (long i = 0; i < threads; i++)
		pthread_join(started[i], NULL);
	return 0;
}

static int run_faults(size_t bytes)
{
	if (getenv("NO_THP") && prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0))
		return 1;
	for (long i = 0; i < rounds; i++) {
		char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
				    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (memory == MAP_FAILED)
			return 1;
		madvise(memory, bytes, MADV_HUGEPAGE);
		for (size_t at = 0; at < bytes; at += 4096)
			memory[at] = 1;
		munmap(memory, bytes);
	}
	return 0;
}

static int run_write(const char *path, size_t bytes)
{
	int file = open(path, O_WRONLY | O_CREAT | O_DIRECT, 0600);
	void *memory;

	if (file < 0 || posix_memalign(&memory, 4096, bytes))
		return 1;
	memset(memory, 1, bytes);
	for (long i = 0; i < rounds; i++) {
		work();
		if (pwrite(file, memory, bytes, 0) != (ssize_t)bytes)
			return 1;
	}
	return 0;
}

static double seconds(struct timeval time)
{
	return time.tv_sec + time.tv_usec / 1e6;
}

// As time(1) does, without a process that waits.
static void print_times(struct timespec begin)
{
	struct timespec end;
	struct rusage used;

	clock_gettime(CLOCK_MONOTONIC, &end);
	getrusage(RUSAGE_SELF, &used);
	printf("real %.3f\n", end.tv_sec - begin.tv_sec + (end.tv_nsec - begin.tv_nsec) / 1e9);
	printf("user %.3f\nsys %.3f\n", seconds(used.ru_utime), seconds(used.ru_stime));
}

int main(int count, char **words)
{
	struct timespec begin;
	int status = 2;

	clock_gettime(CLOCK_MONOTONIC, &begin);
	is_shared = getenv("SHARED") != NULL;
	rounds = count > 3 ? atol(words[count - 1]) : 0;
	if (count == 4 && !strcmp(words[1], "locks"))
		status = run_locks(atol(words[2]));
	else if (count == 4 && !strcmp(words[1], "faults"))
		status = run_faults(atol(words[2]) << 20);
	else if (count == 5 && !strcmp(words[1], "write"))
		status = run_write(words[2], atol(words[3]) << 10);
	if (status)
		fprintf(stderr, "workload: failed\n");
	else
		print_times(begin);
	return status;
}
