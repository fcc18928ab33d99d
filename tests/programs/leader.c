/* Its main thread ends, and a worker continues: it waits in a known function until standard input ends. */
#include <poll.h>
#include <pthread.h>
#include <unistd.h>

__attribute__((noinline)) static int waits_in_worker(void)
{
	struct pollfd input = {.fd = 0, .events = POLLIN};
	int ready = poll(&input, 1, 20);
	__asm__ volatile("" ::: "memory");
	return ready;
}

static void *work(void *unused)
{
	(void)unused;
	while (waits_in_worker() == 0)
		;
	return 0;
}

int main(void)
{
	pthread_t worker;
	if (pthread_create(&worker, 0, work, 0) != 0)
		return 1;
	pthread_exit(0);
}
