/* Threads that block repeatedly on stacks full of addresses in a function whose entry in .eh_frame takes long to process: `costly THREADS
 * MS`. */
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

/* Rules for many registers, then pairs of DW_CFA_remember_state and DW_CFA_restore_state, each of which copies them all. */
__asm__(".text\n.globl sled\n.type sled,@function\nsled:\n.cfi_startproc\n"
	".irp tens,1,2,3,4,5,6,7,8,9,10,11\n.irp ones,0,1,2,3,4,5,6,7,8,9\n.cfi_escape 8,7+\\tens\\ones\n.endr\n.endr\n"
	".rept 29800\n.cfi_escape 10,11\n.endr\n"
	".fill 65536,1,0x90\nret\n.cfi_endproc\n.size sled,.-sled\n");

/* nanosleep on another stack. */
__asm__(".text\n.globl sleep_on\n.type sleep_on,@function\nsleep_on:\n.cfi_startproc\n"
	"push %rbx\npush %rbp\nmov %rsp,%rbx\nmov %rdi,%rsp\nmov %rsi,%rdi\nxor %ebp,%ebp\nxor %esi,%esi\nmov $35,%eax\n"
	"call raw\nmov %rbx,%rsp\npop %rbp\npop %rbx\nret\n.cfi_endproc\n.size sleep_on,.-sleep_on\n"
	".type raw,@function\nraw:\n.cfi_startproc\nsyscall\nret\n.cfi_endproc\n.size raw,.-raw\n");

extern char sled[];
extern void sleep_on(uint64_t *stack, struct timespec *time);

static void *sleeps(void *unused)
{
	(void)unused;
	uint64_t *memory = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED) exit(1);
	for (;;) {
		struct timespec time = { .tv_nsec = 1500000 };
		for (int at = 1024; at < 2524; at++) memory[at] = (uint64_t)sled + 1 + (uint64_t)random() % 65000;
		sleep_on(memory + 1024, &time);
	}
	return NULL;
}

int main(int count, char **values)
{
	pthread_t thread;
	if (count != 3) return 2;
	for (int left = atoi(values[1]); left > 0; left--)
		if (pthread_create(&thread, NULL, sleeps, NULL) != 0) return 1;
	usleep(atoi(values[2]) * 1000);
	_exit(0);
}
