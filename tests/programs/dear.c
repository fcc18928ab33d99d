/*
 * Threads that sleep repeatedly, below return addresses into a function whose unwind table is expensive: rules for 184 registers, followed
 * by instructions that copy or search all of them, up to the longest entry that is read. With -DEXPRESSION, the rule of its frame is an
 * expression of that length.
 *
 *     dear THREADS SECONDS
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

#define SLED 65536
#define WORDS 1024

extern char sled[];

#ifdef EXPRESSION
/* DW_CFA_def_cfa_expression of 60 002 bytes: DW_OP_breg7 8, then DW_OP_dup and DW_OP_drop. */
#define TABLE \
	".cfi_escape 0x0f, 0xe2, 0xd4, 0x03, 0x77, 0x08\n" \
	".rept 30000\n.cfi_escape 0x12, 0x13\n.endr\n"
#else
/* DW_CFA_same_value for all registers except the stack pointer and the return address, then DW_CFA_remember_state and
 * DW_CFA_restore_state. */
#define TABLE \
	".set register, 18\n.rept 110\n.cfi_same_value register\n.set register, register + 1\n.endr\n" \
	".rept 29000\n.cfi_escape 0x0a, 0x0b\n.endr\n"
#endif

__asm__(".text\n.balign 16\n.globl sled\n.type sled, @function\nsled:\n.cfi_startproc\n" TABLE
	".fill 65536, 1, 0x90\nret\n.cfi_endproc\n.size sled, . - sled\n"
	".type sleeps, @function\nsleeps:\n.cfi_startproc\nsyscall\nret\n.cfi_endproc\n.size sleeps, . - sleeps\n");

static double seconds;

static double now(void)
{
	struct timespec time;
	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec + time.tv_nsec / 1e9;
}

static void *run(void *unused)
{
	static const struct timespec sleep = {0, 1500000};
	uint64_t *stack = calloc(2 * WORDS, sizeof *stack);
	double end = now() + seconds;
	(void)unused;
	while (now() < end) {
		/* Different addresses, since rules that were found once are cached. */
		for (int word = WORDS; word < 2 * WORDS; word++)
			stack[word] = (uint64_t)sled + 1 + random() % (SLED - 1);
		__asm__ volatile("mov %%rsp, %%r12\n\tmov %%rbp, %%r13\n\tmov %0, %%rsp\n\txor %%ebp, %%ebp\n\t"
				 "mov $35, %%eax\n\tmov %1, %%rdi\n\txor %%esi, %%esi\n\tcall sleeps\n\t"
				 "mov %%r12, %%rsp\n\tmov %%r13, %%rbp"
				 : : "r"(stack + WORDS), "r"(&sleep) : "rax", "rcx", "r11", "rdi", "rsi", "r12", "r13", "memory");
	}
	return 0;
}

int main(int count, char **arguments)
{
	int threads = count > 1 ? atoi(arguments[1]) : 1;
	pthread_t *all = calloc(threads, sizeof *all);
	seconds = count > 2 ? atof(arguments[2]) : 1;
	for (int thread = 0; thread < threads; thread++)
		pthread_create(all + thread, 0, run, 0);
	for (int thread = 0; thread < threads; thread++)
		pthread_join(all[thread], 0);
	return 0;
}
