/* Crowds, for the limits on the stacks that a recorder keeps. Each of their members waits a little longer than a millisecond, repeatedly.
 *   crowd sleepers THREADS ROUNDS   threads that wait in usleep(1100)
 *   crowd programs COUNT            programs, each in a separate file, one after the other
 *   crowd mappings COUNT            mappings of one page of this file, with a wait in each
 * With -DMANY, the file has 200 000 more functions, with their unwind tables. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { THREADS = 16 };

#ifdef MANY
__asm__(".text\n.rept 200000\n.cfi_startproc\npush %rax\n.cfi_adjust_cfa_offset 8\npop %rax\n.cfi_adjust_cfa_offset -8\nret\n.cfi_endproc\n.endr\n");
#endif

static int count, rounds;

/* It calls nothing, so that it can run wherever it is mapped. */
__attribute__((noinline, noclone, aligned(4096))) static void waits_where_it_is(void)
{
	struct timespec time = { 0, 1100000 };
#ifdef __x86_64__
	long result = SYS_nanosleep;
	__asm__ volatile("syscall" : "+a"(result) : "D"(&time), "S"(0L) : "rcx", "r11", "memory");
#else
	register long number __asm__("x8") = SYS_nanosleep;
	register void *first __asm__("x0") = &time;
	register long second __asm__("x1") = 0;
	__asm__ volatile("svc 0" : "+r"(first) : "r"(second), "r"(number) : "memory");
#endif
}

__attribute__((noinline, noclone)) static void *sleeps(void *unused)
{
	for (int round = 0; round < rounds; round++)
		usleep(1100);
	return unused;
}

static void *waits_in_its_mappings(void *functions)
{
	for (int at = 0; at < count / THREADS; at++)
		((void (**)(void))functions)[at]();
	return NULL;
}

static void must(int is_well, const char *what)
{
	if (!is_well) {
		perror(what);
		exit(1);
	}
}

/* Where this program's file contains the page of a function. */
static off_t offset_of(unsigned long address)
{
	char line[512];
	unsigned long start, end, offset;
	FILE *maps = fopen("/proc/self/maps", "r");
	must(maps != NULL, "maps");
	while (fgets(line, sizeof line, maps))
		if (sscanf(line, "%lx-%lx %*s %lx", &start, &end, &offset) == 3 && start <= address && address < end) {
			fclose(maps);
			return offset + (address - start);
		}
	exit(1);
}

static void sleepers(void)
{
	pthread_t *threads = calloc(count, sizeof *threads);
	pthread_attr_t small;
	pthread_attr_init(&small);
	pthread_attr_setstacksize(&small, 64 << 10);
	for (int at = 0; at < count; at++)
		must(pthread_create(&threads[at], &small, sleeps, NULL) == 0, "pthread_create");
	for (int at = 0; at < count; at++)
		pthread_join(threads[at], NULL);
}

static void mappings(void)
{
	off_t offset = offset_of((unsigned long)waits_where_it_is);
	int file = open("/proc/self/exe", O_RDONLY);
	void **all = calloc(count, sizeof *all);
	must(file >= 0, "/proc/self/exe");
	/* Two mappings of the same page count as two mappings. */
	for (int at = 0; at < count; at++) {
		all[at] = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, file, offset);
		must(all[at] != MAP_FAILED, "mmap");
	}
	pthread_t threads[THREADS];
	for (int at = 0; at < THREADS; at++)
		must(pthread_create(&threads[at], NULL, waits_in_its_mappings, all + at * (count / THREADS)) == 0, "pthread_create");
	for (int at = 0; at < THREADS; at++)
		pthread_join(threads[at], NULL);
}

static void programs(void)
{
	int file = open("/proc/self/exe", O_RDONLY);
	struct stat facts;
	char name[64];
	must(file >= 0 && fstat(file, &facts) == 0, "/proc/self/exe");
	for (int at = 0; at < count; at++) {
		snprintf(name, sizeof name, "./program-%d", at);
		int copy = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0700);
		off_t from = 0;
		must(copy >= 0 && sendfile(copy, file, &from, facts.st_size) == facts.st_size, name);
		close(copy);
		pid_t child = vfork();
		if (child == 0) {
			execl(name, name, "sleepers", "1", "1", NULL);
			_exit(1);
		}
		int status;
		must(waitpid(child, &status, 0) == child && status == 0, name);
		unlink(name);
	}
}

int main(int words, char **word)
{
	if (words < 3)
		return 1;
	count = atoi(word[2]);
	rounds = words > 3 ? atoi(word[3]) : 1;
	if (strcmp(word[1], "sleepers") == 0)
		sleepers();
	else if (strcmp(word[1], "programs") == 0)
		programs();
	else
		mappings();
	return 0;
}
