/* A herd: THREADS threads, each of which waits in a different function, all woken at once, ROUNDS times: `herd ROUNDS MS`. Prints the id of
 * each and the name of its function. Between two calls all threads wait for MS milliseconds. */
#define _GNU_SOURCE
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { THREADS = 200 };

static atomic_uint call;
static unsigned rounds;

/* The code after the call prevents a tail call. */
#define WAITS(name) \
	__attribute__((noinline, noclone)) static void waits_##name(unsigned seen) \
	{ \
		while (atomic_load(&call) == seen) \
			syscall(SYS_futex, &call, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0); \
		__asm__ volatile("" ::: "memory"); \
	}

#define TEN(of, n) of(n##0) of(n##1) of(n##2) of(n##3) of(n##4) of(n##5) of(n##6) of(n##7) of(n##8) of(n##9)
#define HUNDRED(of, n) \
	TEN(of, n##0) TEN(of, n##1) TEN(of, n##2) TEN(of, n##3) TEN(of, n##4) \
	TEN(of, n##5) TEN(of, n##6) TEN(of, n##7) TEN(of, n##8) TEN(of, n##9)

HUNDRED(WAITS, 0)
HUNDRED(WAITS, 1)

#define PLACE(name) { waits_##name, "waits_" #name },
static const struct { void (*waits)(unsigned); const char *name; } places[THREADS] = {
	HUNDRED(PLACE, 0) HUNDRED(PLACE, 1)
};

static void *run(void *place)
{
	for (unsigned round = 0; round < rounds; round++)
		places[(size_t)place].waits(round);
	return (void *)syscall(SYS_gettid);
}

int main(int count, char **words)
{
	pthread_t threads[THREADS];
	rounds = count > 2 ? atoi(words[1]) : 3;
	struct timespec pause = { 0, (count > 2 ? atoi(words[2]) : 20) * 1000000L };
	for (size_t at = 0; at < THREADS; at++)
		if (pthread_create(&threads[at], NULL, run, (void *)at) != 0)
			return 1;
	for (unsigned round = 0; round < rounds; round++) {
		nanosleep(&pause, NULL);
		atomic_fetch_add(&call, 1);
		syscall(SYS_futex, &call, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
	}
	/* The threads do not print this themselves: they would wait for each other. */
	for (size_t at = 0; at < THREADS; at++) {
		void *tid;
		pthread_join(threads[at], &tid);
		printf("%ld %s\n", (long)tid, places[at].name);
	}
	return 0;
}
