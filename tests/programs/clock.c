/* Reads the clock for half a second of CPU time; this runs in the vDSO. */
#include <time.h>

__attribute__((noinline, noclone)) static long reads_the_clock(void)
{
	struct timespec now;
	long sum = 0;
	for (int at = 0; at < 20000; at++) {
		clock_gettime(CLOCK_MONOTONIC, &now);
		sum += now.tv_nsec;
	}
	__asm__ volatile("" ::: "memory");
	return sum;
}

int main(void)
{
	struct timespec used = {0, 0};
	long sum = 0;
	while (used.tv_sec == 0 && used.tv_nsec < 500000000) {
		sum += reads_the_clock();
		clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
	}
	return sum == 1;
}
