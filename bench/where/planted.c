/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Programs with a known cause of waiting: ``planted NAME AMOUNT OPERATIONS``.
 *
 * spin: threads take a pthread spinlock; the holder writes AMOUNT pages of new memory inside
 * lock: threads read AMOUNT bytes at a time from one open file, whose position has a mutex
 * pipe: a reader waits for a writer that computes for AMOUNT us before each byte
 *
 * Prints the time of all operations.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define THREADS 4
#define PAGE 4096

static long amount, operations;
static pthread_spinlock_t spinlock;
static int ends[2];

static double now(void)
{
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec / 1e9;
}

static __attribute__((noinline)) void fault_while_holding(void)
{
    size_t bytes = amount * PAGE;
    char *memory;

    pthread_spin_lock(&spinlock);
    memory = mmap(0, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    madvise(memory, bytes, MADV_NOHUGEPAGE);
    for (size_t at = 0; at < bytes; at += PAGE)
        memory[at] = 1;
    munmap(memory, bytes);
    pthread_spin_unlock(&spinlock);
}

static void *spin(void *unused)
{
    for (long i = 0; i < operations; i++)
        fault_while_holding();
    return unused;
}

static __attribute__((noinline)) void read_chunks(void)
{
    char *data = calloc(1, amount);

    for (long i = 0; i < operations; i++)
        if (read(ends[0], data, amount) != amount)
            exit(1);
    free(data);
}

static void *lock(void *unused)
{
    read_chunks();
    return unused;
}

static __attribute__((noinline)) void compute(double seconds)
{
    double end = now() + seconds;

    while (now() < end)
        ;
}

static void slow_writer(void)
{
    for (long i = 0; i < operations; i++) {
        compute(amount / 1e6);
        if (write(ends[1], "x", 1) != 1)
            exit(1);
    }
    exit(0);
}

static __attribute__((noinline)) void read_all(void)
{
    char data[1 << 16];

    while (read(ends[0], data, sizeof(data)) > 0)
        ;
}

static void run_threads(void *(*body)(void *))
{
    pthread_t threads[THREADS];

    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], 0, body, 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], 0);
}

int main(int count, char **words)
{
    double began = now();

    if (count != 4)
        return 2;
    amount = atol(words[2]);
    operations = atol(words[3]);
    pthread_spin_init(&spinlock, PTHREAD_PROCESS_PRIVATE);
    if (!strcmp(words[1], "spin")) {
        run_threads(spin);
    } else if (!strcmp(words[1], "lock")) {
        ends[0] = open("/dev/shm", O_TMPFILE | O_RDWR, 0600);
        if (ends[0] < 0 || ftruncate(ends[0], 1L << 40))
            return 1;
        run_threads(lock);
    } else if (pipe(ends)) {
        return 1;
    } else {
        if (!fork()) {
            close(ends[0]);
            slow_writer();
        }
        close(ends[1]);
        read_all();
        wait(0);
    }
    printf("planted time: %.6f s\n", now() - began);
    return 0;
}
