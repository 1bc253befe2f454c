/* SPDX-License-Identifier: GPL-2.0-or-later */
// SPDX-License-Identifier: GPL-2.0-or-later
// Calls 16 functions in turn on 512 random paths, 20 to 119 levels deep, without end: deep call
// chains. More paths need more memory in perf report than most machines have.
#define NOINLINE __attribute__((noinline))

typedef void (*function)(int depth);

static volatile unsigned long sink;
static unsigned seed = 1;
static function table[16];

static unsigned draw(void)
{
	seed = seed * 1664525u + 1013904223u;
	return seed >> 16;
}

#define FUNCTION(i) \
	static NOINLINE void call##i(int depth) \
	{ \
		if (depth > 0) \
			table[draw() & 15](depth - 1); \
		else \
			for (int k = 0; k < 2000; k++) \
				sink += k * i; \
		sink += depth; \
	}

FUNCTION(0) FUNCTION(1) FUNCTION(2) FUNCTION(3) FUNCTION(4) FUNCTION(5) FUNCTION(6) FUNCTION(7)
FUNCTION(8) FUNCTION(9) FUNCTION(10) FUNCTION(11) FUNCTION(12) FUNCTION(13) FUNCTION(14)
FUNCTION(15)

static function table[16] = {
	call0, call1, call2,  call3,  call4,  call5,  call6,  call7,
	call8, call9, call10, call11, call12, call13, call14, call15,
};

int main(void)
{
	for (unsigned path = 1;; path = path % 512 + 1) {
		seed = path;
		table[draw() & 15](20 + draw() % 100);
	}
}
