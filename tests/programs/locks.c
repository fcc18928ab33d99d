/* Threads that wait for locks whose owner is known: `locks ROUNDS`. For each wait, the waiter prints its own thread id, the kind of lock,
 * the address of its futex, and the id of the owner, or 0 if the futex has none. */
#define _GNU_SOURCE
#include <linux/futex.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static pthread_mutex_t plain = PTHREAD_MUTEX_INITIALIZER, checking, inheriting, robust;
/* Next to the word is the value that a mutex would have there: the id of a thread. */
static struct { uint32_t word, count, owner, users, kind; } gate;
static struct { const char *name; pthread_mutex_t *lock; uint32_t *word; } locks[] = {
	{"plain", &plain, (uint32_t *)&plain},
	{"checking", &checking, (uint32_t *)&checking},
	{"inheriting", &inheriting, (uint32_t *)&inheriting},
	{"robust", &robust, (uint32_t *)&robust},
	{"gate", NULL, &gate.word},
};

/* How often a thread has gone to sleep. */
static long sleeps(pid_t tid)
{
	char path[64], line[4096];
	snprintf(path, sizeof path, "/proc/self/task/%d/status", tid);
	FILE *file = fopen(path, "r");
	if (!file) abort();
	size_t length = fread(line, 1, sizeof line - 1, file);
	fclose(file);
	line[length] = 0;
	char *count = strstr(line, "\nvoluntary_ctxt_switches:");
	if (!count) abort();
	return atol(strchr(count, ':') + 1);
}

/* Waits until a thread has slept more often than before. Its state is not enough: a thread that is asleep by its state may still be on its
 * CPU, spinning for the lock. */
static void await_sleep(pid_t tid, long before)
{
	while (sleeps(tid) <= before)
		usleep(500);
}

struct wait { int lock; pid_t owner; pid_t waiter; long before; };

static void *waits(void *arg)
{
	struct wait *wait = arg;
	pid_t own = gettid();
	pthread_mutex_t *lock = locks[wait->lock].lock;
	/* This is executed first, so that printing is not a wait after the sleep that the owner looks for. */
	flockfile(stdout);
	printf("%d %s %lx %d\n", own, locks[wait->lock].name, (long)locks[wait->lock].word, lock ? wait->owner : 0);
	fflush(stdout);
	funlockfile(stdout);
	wait->before = sleeps(own);
	__atomic_store_n(&wait->waiter, own, __ATOMIC_RELEASE);
	if (lock) {
		pthread_mutex_lock(lock);
		pthread_mutex_unlock(lock);
	} else {
		while (__atomic_load_n(&gate.word, __ATOMIC_ACQUIRE))
			syscall(SYS_futex, &gate.word, FUTEX_WAIT_BITSET_PRIVATE, 2, NULL, NULL, FUTEX_BITSET_MATCH_ANY);
	}
	return NULL;
}

static void make(pthread_mutex_t *lock, int type, int protocol, int robustness)
{
	pthread_mutexattr_t attr;
	pthread_mutexattr_init(&attr);
	pthread_mutexattr_settype(&attr, type);
	pthread_mutexattr_setprotocol(&attr, protocol);
	pthread_mutexattr_setrobust(&attr, robustness);
	if (pthread_mutex_init(lock, &attr)) abort();
}

/* Takes each lock once, until another thread sleeps for it. */
static void *owns(void *unused)
{
	for (unsigned at = 0; at < sizeof locks / sizeof *locks; at++) {
		struct wait wait = {.lock = at, .owner = gettid()};
		pthread_t waiter;
		if (locks[at].lock) {
			pthread_mutex_lock(locks[at].lock);
		} else {
			gate.owner = gettid();
			gate.users = 1;
			gate.word = 2;
		}
		if (pthread_create(&waiter, NULL, waits, &wait)) abort();
		while (!__atomic_load_n(&wait.waiter, __ATOMIC_ACQUIRE))
			usleep(500);
		await_sleep(wait.waiter, wait.before);
		usleep(2000);
		if (locks[at].lock) {
			pthread_mutex_unlock(locks[at].lock);
		} else {
			__atomic_store_n(&gate.word, 0, __ATOMIC_RELEASE);
			syscall(SYS_futex, &gate.word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
		}
		pthread_join(waiter, NULL);
	}
	return unused;
}

int main(int argc, char **argv)
{
	int rounds = argc > 1 ? atoi(argv[1]) : 1;
	make(&checking, PTHREAD_MUTEX_ERRORCHECK, PTHREAD_PRIO_NONE, PTHREAD_MUTEX_STALLED);
	make(&inheriting, PTHREAD_MUTEX_NORMAL, PTHREAD_PRIO_INHERIT, PTHREAD_MUTEX_STALLED);
	make(&robust, PTHREAD_MUTEX_NORMAL, PTHREAD_PRIO_NONE, PTHREAD_MUTEX_ROBUST);
	while (rounds-- > 0) {
		pthread_t owner;
		if (pthread_create(&owner, NULL, owns, NULL)) abort();
		pthread_join(owner, NULL);
	}
	return 0;
}
