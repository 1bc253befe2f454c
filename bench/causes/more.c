/* SPDX-License-Identifier: GPL-2.0-or-later */
// SPDX-License-Identifier: GPL-2.0-or-later
// Preloaded: each write() does more than it should, in user mode (-DUSER) or by system calls.
#define _GNU_SOURCE
#include <sys/syscall.h>
#include <unistd.h>

#ifndef SPINS
#define SPINS 4000
#endif
#define CALLS 40

__attribute__((noinline)) static void planted_checksum(void)
{
	for (volatile int i = 0; i < SPINS; i++)
		;
}

ssize_t write(int file, const void *data, size_t bytes)
{
#ifdef USER
	planted_checksum();
#else
	for (int i = 0; i < CALLS; i++)
		syscall(SYS_getppid);
#endif
	return syscall(SYS_write, file, data, bytes);
}
