/* A missed deadline, as players and games have them: `audio [SECONDS]`.
 *
 * `audio` has real-time priority and computes a block of sound every 5 ms, with parameters that `ui-params` changes now and
 * then. Both take the same mutex, which does not inherit priority. `ui-params` is nice, and shares its CPU with `hog-1` and
 * `hog-2`: so whoever has all the priority waits for a thread that gets a twentieth of a CPU. Some 0.4 s into it, the hogs
 * begin while `ui-params` has the lock. Prints the longest time that a block took, in ms. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define OWN __attribute__((noinline, noclone)) static

static const long PERIOD_NS = 5000000;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static atomic_bool stop, lock_is_held;
static double gain = 1.0, longest_ms;
static double seconds = 1.0;

OWN double now(clockid_t clock)
{
	struct timespec time;
	clock_gettime(clock, &time);
	return (double)time.tv_sec * 1e3 + (double)time.tv_nsec / 1e6;
}

/* Computes for this many milliseconds of the thread's own CPU time. */
OWN void compute(double ms)
{
	double end = now(CLOCK_THREAD_CPUTIME_ID) + ms;
	while (now(CLOCK_THREAD_CPUTIME_ID) < end)
		;
}

OWN double update_params(void)
{
	pthread_mutex_lock(&lock);
	double current = gain;
	pthread_mutex_unlock(&lock);
	return current;
}

OWN void process_block(void)
{
	double volatile sample = update_params();
	compute(0.5);
	(void)sample;
}

static void *audio(void *unused)
{
	struct sched_param first = {.sched_priority = 20};
	if (pthread_setschedparam(pthread_self(), SCHED_FIFO, &first))
		fputs("audio: no real-time priority: not root?\n", stderr);
	pthread_setname_np(pthread_self(), "audio");
	struct timespec next;
	clock_gettime(CLOCK_MONOTONIC, &next);
	while (!stop) {
		double begin = now(CLOCK_MONOTONIC);
		process_block();
		double took = now(CLOCK_MONOTONIC) - begin;
		if (took > longest_ms)
			longest_ms = took;
		next.tv_nsec += PERIOD_NS;
		next.tv_sec += next.tv_nsec / 1000000000;
		next.tv_nsec %= 1000000000;
		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &next, NULL);
	}
	return unused;
}

OWN void save_settings(double ms)
{
	pthread_mutex_lock(&lock);
	gain = 0.5;
	lock_is_held = 1;
	compute(ms);
	pthread_mutex_unlock(&lock);
}

static void stay_on_one_cpu(void)
{
	cpu_set_t allowed, one;
	sched_getaffinity(0, sizeof allowed, &allowed);
	int cpu = 0;
	while (!CPU_ISSET(cpu, &allowed))
		cpu++;
	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	pthread_setaffinity_np(pthread_self(), sizeof one, &one);
}

static void *ui_params(void *unused)
{
	pthread_setname_np(pthread_self(), "ui-params");
	stay_on_one_cpu();
	setpriority(PRIO_PROCESS, 0, 10);
	usleep(400000);
	save_settings(4);
	return unused;
}

static void *hog(void *name)
{
	pthread_setname_np(pthread_self(), name);
	stay_on_one_cpu();
	while (!lock_is_held)
		usleep(500);
	compute(100);
	return name;
}

int main(int count, char **words)
{
	if (count > 1)
		seconds = atof(words[1]);
	pthread_t player, others[3];
	static char names[][8] = {"hog-1", "hog-2"};
	if (pthread_create(&player, NULL, audio, NULL) || pthread_create(&others[0], NULL, ui_params, NULL) ||
	    pthread_create(&others[1], NULL, hog, names[0]) || pthread_create(&others[2], NULL, hog, names[1]))
		return 1;
	usleep((useconds_t)(seconds * 1e6));
	for (int thread = 0; thread < 3; thread++)
		pthread_join(others[thread], NULL);
	stop = 1;
	pthread_join(player, NULL);
	printf("the longest block took %.1f ms\n", longest_ms);
	return 0;
}
