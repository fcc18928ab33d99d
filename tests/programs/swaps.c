/* Loads a library, divides its mapping, puts a link to another file in its place, and blocks in it: `swaps LIBRARY OTHER ROUNDS`. Built with
 * -DNAME=..., it is such a library, with a function of that name. */
#define _GNU_SOURCE
#include <unistd.h>

#define DONE __asm__ volatile("" ::: "memory")
#define PAGE 4096

#ifdef NAME
__attribute__((noinline)) void NAME(int us) { usleep(us); DONE; }
void (*const blocks)(int) = NAME;
/* Pages of code that can be unmapped. */
__asm__(".text\n.balign 4096\n.globl spare\nspare: .skip 8192\n");
#else
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

int main(int count, char **values)
{
	void *library = count == 4 ? dlopen(values[1], RTLD_NOW) : NULL;
	void (**blocks)(int) = library ? dlsym(library, "blocks") : NULL;
	char *spare = library ? dlsym(library, "spare") : NULL;
	if (!blocks || !spare) { fprintf(stderr, "swaps: %s\n", dlerror()); return 1; }
	if (mprotect(spare, PAGE, PROT_READ) != 0 || unlink(values[1]) != 0 || symlink(values[2], values[1]) != 0) {
		perror("swaps");
		return 1;
	}
	for (int round = atoi(values[3]); round > 0; round--) (*blocks)(4000);
	return 0;
}
#endif
