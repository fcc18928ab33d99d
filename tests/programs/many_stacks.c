/* Each wait has a different stack: eight of a thousand functions. Usage: many_stacks WAITS THREADS */
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

typedef void function(uint64_t way, int depth);
static function *const functions[1024];

static void go_on(uint64_t way, int depth)
{
	struct timespec pause = {.tv_nsec = 100000};

	if (depth == 0)
		nanosleep(&pause, 0);
	else
		functions[way & 1023]((way * 6364136223846793005ull + 1442695040888963407ull) >> 7, depth - 1);
	__asm__ volatile("" ::: "memory");
}

#define ONE(n) \
	__attribute__((noinline)) static void a_function_with_a_name_that_takes_some_room_in_a_trace_##n(uint64_t way, int depth) \
	{ go_on(way + 0x##n, depth); __asm__ volatile("" ::: "memory"); }
#define NAME(n) a_function_with_a_name_that_takes_some_room_in_a_trace_##n,
#define SIXTEEN(x, n) x(n##0) x(n##1) x(n##2) x(n##3) x(n##4) x(n##5) x(n##6) x(n##7) \
	x(n##8) x(n##9) x(n##a) x(n##b) x(n##c) x(n##d) x(n##e) x(n##f)
#define MANY(x, n) SIXTEEN(x, n##0) SIXTEEN(x, n##1) SIXTEEN(x, n##2) SIXTEEN(x, n##3) SIXTEEN(x, n##4) \
	SIXTEEN(x, n##5) SIXTEEN(x, n##6) SIXTEEN(x, n##7) SIXTEEN(x, n##8) SIXTEEN(x, n##9) SIXTEEN(x, n##a) \
	SIXTEEN(x, n##b) SIXTEEN(x, n##c) SIXTEEN(x, n##d) SIXTEEN(x, n##e) SIXTEEN(x, n##f)
#define ALL(x) MANY(x, 0) MANY(x, 1) MANY(x, 2) MANY(x, 3)

ALL(ONE)
static function *const functions[1024] = {ALL(NAME)};

static long waits;

static void *work(void *number)
{
	for (long at = 0; at < waits; at++)
		go_on((uint64_t)(at * 64 + (long)number) * 0x9e3779b97f4a7c15ull, 8);
	return 0;
}

int main(int count, char **words)
{
	pthread_t threads[64];
	long all = count > 2 ? atol(words[2]) : 1;

	waits = count > 1 ? atol(words[1]) : 1;
	for (long at = 0; at < all && at < 64; at++)
		if (pthread_create(&threads[at], 0, work, (void *)at) != 0)
			return 1;
	for (long at = 0; at < all && at < 64; at++)
		pthread_join(threads[at], 0);
	return 0;
}
