/* Waits a hundred calls deep, in functions with some local data each: `deep ROUNDS`. Prints its thread's id. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define DONE __asm__ volatile("" ::: "memory")

__attribute__((noinline, noclone)) static int descends(int depth)
{
	volatile char data[64];
	data[depth % 64] = 1;
	if (depth == 0) { usleep(4000); DONE; return data[0]; }
	int more = descends(depth - 1) + data[depth % 64];
	DONE;
	return more;
}

int main(int argc, char **argv)
{
	int rounds = argc > 1 ? atoi(argv[1]) : 1, sum = 0;
	printf("%d\n", gettid());
	fflush(stdout);
	for (int round = 0; round < rounds; round++)
		sum += descends(100);
	return sum == 0;
}
