/* Threads that block in known functions, each through a different function of the C library: `waits ROUNDS`. Each thread prints its id and
 * where it blocks. With frame pointers or without, that function must be in the stack. */
#define _GNU_SOURCE
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define OWN __attribute__((noinline, noclone)) static void
/* The code after the call prevents a tail call. */
#define DONE __asm__ volatile("" ::: "memory")

static int rounds;
static const int MS = 4;
static int ends[2], lines[2];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t flag_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t flag = PTHREAD_COND_INITIALIZER;
static int flags, epoll;
static sem_t semaphore;
static FILE *text;

OWN blocks_in_read(void) { char byte; if (read(ends[0], &byte, 1) != 1) abort(); DONE; }
OWN blocks_in_poll(void) { poll(NULL, 0, MS); DONE; }
OWN blocks_in_select(void) { struct timeval t = {0, MS * 1000}; select(0, NULL, NULL, NULL, &t); DONE; }
OWN blocks_in_epoll(void) { struct epoll_event event; epoll_wait(epoll, &event, 1, MS); DONE; }
OWN blocks_in_usleep(void) { usleep(MS * 1000); DONE; }
OWN blocks_in_nanosleep(void) { struct timespec t = {0, MS * 1000000}; nanosleep(&t, NULL); DONE; }
OWN blocks_in_mutex(void) { pthread_mutex_lock(&lock); pthread_mutex_unlock(&lock); DONE; }
OWN blocks_in_semaphore(void) { sem_wait(&semaphore); DONE; }
OWN blocks_in_condition(void)
{
	pthread_mutex_lock(&flag_lock);
	while (flags == 0)
		pthread_cond_wait(&flag, &flag_lock);
	flags--;
	pthread_mutex_unlock(&flag_lock);
	DONE;
}
OWN blocks_in_getline(void)
{
	static char *line;
	static size_t size;
	if (getline(&line, &size, text) < 0) abort();
	DONE;
}
OWN blocks_in_sigtimedwait(void)
{
	struct timespec t = {0, MS * 1000000};
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, SIGUSR2);
	sigtimedwait(&set, NULL, &t);
	DONE;
}
/* Two hundred functions between the thread's own and the wait. */
__attribute__((noinline, noclone)) static int descend(int depth)
{
	if (depth == 0) { usleep(MS * 1000); DONE; return 0; }
	int more = descend(depth - 1) + depth;
	DONE;
	return more;
}
OWN blocks_deep_down(void) { descend(200); DONE; }

struct own { const char *name; void (*block)(void); };
static const struct own all[] = {
	{"blocks_in_read", blocks_in_read}, {"blocks_in_poll", blocks_in_poll}, {"blocks_in_select", blocks_in_select},
	{"blocks_in_epoll", blocks_in_epoll}, {"blocks_in_usleep", blocks_in_usleep},
	{"blocks_in_nanosleep", blocks_in_nanosleep}, {"blocks_in_mutex", blocks_in_mutex},
	{"blocks_in_semaphore", blocks_in_semaphore}, {"blocks_in_condition", blocks_in_condition},
	{"blocks_in_getline", blocks_in_getline}, {"blocks_in_sigtimedwait", blocks_in_sigtimedwait},
	{"descend", blocks_deep_down},
};
enum { COUNT = sizeof all / sizeof *all };

static void *run(void *of)
{
	const struct own *own = (const struct own *)of;
	printf("%d %s\n", gettid(), own->name);
	for (int round = 0; round < rounds; round++)
		own->block();
	return NULL;
}

int main(int count, char **values)
{
	pthread_t threads[COUNT];
	rounds = count > 1 ? atoi(values[1]) : 1;
	if (pipe(ends) || pipe(lines) || sem_init(&semaphore, 0, 0)) abort();
	text = fdopen(lines[0], "r");
	epoll = epoll_create1(0);
	for (int at = 0; at < COUNT; at++)
		pthread_create(&threads[at], NULL, run, (void *)&all[at]);
	for (int round = 0; round < rounds; round++) {
		pthread_mutex_lock(&lock);
		usleep(MS * 1000);
		pthread_mutex_unlock(&lock);
		if (write(ends[1], "x", 1) != 1 || write(lines[1], "x\n", 2) != 2) abort();
		sem_post(&semaphore);
		pthread_mutex_lock(&flag_lock);
		flags++;
		pthread_mutex_unlock(&flag_lock);
		pthread_cond_signal(&flag);
		usleep(1000);
	}
	for (int at = 0; at < COUNT; at++)
		pthread_join(threads[at], NULL);
	/* On a busy machine the recorder inspects a process late, but must not be too late. */
	usleep(500000);
	return 0;
}
