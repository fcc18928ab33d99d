/* A program that waits where the unwind table has an expression that jumps to itself. */
#define _GNU_SOURCE
#include <time.h>

__attribute__((noinline)) void waits_without_end(const struct timespec *time)
{
	/* DW_CFA_def_cfa_expression of three bytes: DW_OP_skip -3. */
	__asm__ volatile(".cfi_escape 0x0f, 0x03, 0x2f, 0xfd, 0xff\n\tsyscall" : : "a"(35), "D"(time), "S"(0) : "rcx", "r11", "memory");
}

int main(void)
{
	struct timespec time = {0, 3000000};
	for (int round = 0; round < 10; round++)
		waits_without_end(&time);
	return 0;
}
