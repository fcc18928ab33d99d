/* Processes that block repeatedly in code that they generated themselves, each time with 125 callers that do not exist: `liar ROUNDS
 * PROCESSES`. The perf map of each process names 20 000 functions with very long names. x86-64 only. */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { CALLERS = 125, FUNCTIONS = 20000, BYTES = 26000, NAME = 3000 };

static void map_of(uint64_t start)
{
	char path[64], name[NAME + 1];
	snprintf(path, sizeof path, "/tmp/perf-%d.map", getpid());
	memset(name, 'n', NAME);
	name[NAME] = 0;
	FILE *file = fopen(path, "w");
	if (!file) { perror(path); exit(1); }
	for (uint64_t at = 0; at < FUNCTIONS; at++)
		fprintf(file, "%lx %x %lu%s\n", start + at * BYTES, BYTES, at, name);
	fclose(file);
}

int main(int count, char **values)
{
	/* push %rbp; mov %rsi,%rbp; mov $35,%eax; xor %esi,%esi; syscall; pop %rbp; ret: nanosleep with a frame register that is chosen */
	static const unsigned char CODE[] = { 0x55, 0x48, 0x89, 0xf5, 0xb8, 35, 0, 0, 0, 0x31, 0xf6, 0x0f, 0x05, 0x5d, 0xc3 };
	/* It is on the stack; the unwinder looks for frames above it. */
	volatile uint64_t chain[CALLERS + 1][2] = { { 0 } };
	struct timespec wait = { 0, 1100000 };
	if (count != 3) return 2;
	for (int process = atoi(values[2]); process > 1; process--) if (fork() == 0) break;
	size_t size = (size_t)FUNCTIONS * BYTES;
	char *made = mmap(NULL, size, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (made == MAP_FAILED) { perror("mmap"); return 1; }
	memcpy(made, CODE, sizeof CODE);
	map_of((uint64_t)made);
	uint64_t random = 88172645463325252u + (uint64_t)getpid();
	for (int round = atoi(values[1]); round > 0; round--) {
		for (int at = 0; at < CALLERS; at++) {
			random ^= random << 13, random ^= random >> 7, random ^= random << 17;
			chain[at][0] = (uint64_t)&chain[at + 1];
			chain[at][1] = (uint64_t)made + random % size;
		}
		((void (*)(void *, void *))made)(&wait, (void *)&chain[0]);
	}
	while (wait4(-1, NULL, 0, NULL) > 0) continue;
	char path[64];
	snprintf(path, sizeof path, "/tmp/perf-%d.map", getpid());
	/* fxtrec holds it. */
	unlink(path);
	return 0;
}
