/* Waits in a function whose name the build selects, and then executes another program in the same process: `heir ROUNDS [PROGRAM
 * ARGUMENT...]`. Two builds have the same addresses. */
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

__attribute__((noinline, noclone)) static void WAITS(void)
{
	struct timespec t = {0, 4000000};
	nanosleep(&t, NULL);
	__asm__ volatile("" ::: "memory");
}

int main(int argc, char **argv)
{
	for (int i = atoi(argv[1]); i > 0; i--)
		WAITS();
	if (argc > 2)
		execv(argv[2], argv + 2);
	return 0;
}
