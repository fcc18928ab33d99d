/* Uses a CPU for half a second of its time in a function of its own. */
#include <time.h>

__attribute__((noinline, noclone)) static unsigned burns_here(unsigned of)
{
	for (unsigned at = 0; at < 100000; at++)
		of = of * 1664525 + 1013904223;
	__asm__ volatile("" ::: "memory");
	return of;
}

int main(void)
{
	struct timespec used = {0, 0};
	unsigned of = 1;
	while (used.tv_sec == 0 && used.tv_nsec < 500000000) {
		of = burns_here(of);
		clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
	}
	return of == 0;
}
