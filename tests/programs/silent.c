/* A file system that stops responding, and a program that blocks in a library from it: `silent FOLDER LIBRARY PID_FILE ROUNDS`. Only this
 * program and its children see the file system. With -1 rounds it keeps responding; with -2 the program itself hangs on a page of the
 * library that is not in memory, with -3 it does so while it holds its memory lock. With -4 it takes requests and answers none: a process
 * that waits for such an answer is not even ended by SIGKILL. It is built twice; with -DLIBRARY it is the library. */
#define _GNU_SOURCE
#include <unistd.h>

#define DONE __asm__ volatile("" ::: "memory")

#ifdef LIBRARY
__attribute__((noinline)) void blocks_in_silence(int us) { if (us) usleep(us); DONE; }
#else
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/uio.h>

static void check(int is_well, const char *what)
{
	if (is_well) return;
	perror(what);
	exit(1);
}

/* Whether the next process to open the file finds none of it in memory. */
static volatile int *is_direct;

static struct fuse_attr attributes(unsigned long node, long size)
{
	struct fuse_attr it = { .ino = node, .size = node == 1 ? 0 : size, .blocks = size / 512 + 1, .nlink = 1, .blksize = 4096 };
	it.mode = node == 1 ? S_IFDIR | 0755 : S_IFREG | 0755;
	return it;
}

/* Serves one file, until told to fall silent. Afterwards, the connection stays open for at most a minute. */
static void serve(int fuse, const char *content, long size, volatile int *is_silent)
{
	static char question[1 << 20];
	for (;;) {
		long length = read(fuse, question, sizeof question);
		if (length < 0 && errno == ENODEV) exit(0);
		if (*is_silent == 2) continue;
		if (*is_silent) {
			/* Who asks cannot be killed any more: the kernel takes back only questions that were not read. */
			prctl(PR_SET_NAME, "silent-to-one");
			for (;;) pause();
		}
		if (length < (long)sizeof(struct fuse_in_header)) continue;
		struct fuse_in_header *header = (void *)question;
		void *body = header + 1;
		struct fuse_init_out init = { .major = FUSE_KERNEL_VERSION, .minor = 31, .max_write = 4096, .max_readahead = 4096 };
		struct fuse_entry_out entry = { .nodeid = 2, .attr = attributes(2, size) };
		struct fuse_attr_out attr = { .attr = attributes(header->nodeid, size) };
		struct fuse_open_out open = { .fh = 1, .open_flags = *is_direct ? FOPEN_DIRECT_IO : 0 };
		struct fuse_statfs_out statfs = { .st = { .bsize = 4096, .namelen = 255 } };
		struct fuse_out_header out = { .unique = header->unique };
		const void *answer = NULL;
		switch (header->opcode) {
		case FUSE_INIT: answer = &init; out.len = sizeof init; break;
		case FUSE_LOOKUP:
			if (strcmp(body, "lib.so") == 0) { answer = &entry; out.len = sizeof entry; }
			else out.error = -ENOENT;
			break;
		case FUSE_GETATTR: answer = &attr; out.len = sizeof attr; break;
		case FUSE_STATFS: answer = &statfs; out.len = sizeof statfs; break;
		case FUSE_OPEN: answer = &open; out.len = sizeof open; break;
		case FUSE_READ: {
			struct fuse_read_in *in = body;
			long from = (long)in->offset < size ? (long)in->offset : size;
			answer = content + from;
			out.len = size - from < (long)in->size ? size - from : in->size;
			break;
		}
		case FUSE_FORGET: case FUSE_BATCH_FORGET: case FUSE_INTERRUPT: continue;
		case FUSE_RELEASE: break;
		default: out.error = -ENOSYS;
		}
		struct iovec parts[] = { { &out, sizeof out }, { (void *)answer, out.len } };
		out.len += sizeof out;
		(void)!writev(fuse, parts, 2);
	}
}

static void *reads(void *file)
{
	char byte;
	return (void *)pread(*(int *)file, &byte, 1, 0);
}

static void *blocks_all_the_time(void *unused)
{
	(void)unused;
	/* This is not in a function of the silent file, which is no longer in memory. */
	for (;;) usleep(4000);
	return NULL;
}

/* Holds this process's memory lock: mapping a file that is not in memory waits for the page that another thread reads. */
static void lock_memory(const char *path)
{
	static int file, direct;
	pthread_t thread;
	/* The maximum length of a name, so that readers use the command line for the whole name. */
	check(prctl(PR_SET_NAME, "silent-and-lock") == 0, "name");
	file = open(path, O_RDONLY);
	*is_direct = 1;
	direct = open(path, O_RDONLY);
	check(file >= 0 && direct >= 0, path);
	is_direct[-1] = 1;
	void *place = mmap(NULL, 1 << 16, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	check(place != MAP_FAILED, "mmap");
	check(pthread_create(&thread, NULL, blocks_all_the_time, NULL) == 0, "thread");
	check(pthread_create(&thread, NULL, reads, &file) == 0, "thread");
	usleep(200000);
	puts("locks");
	fflush(stdout);
	/* It takes the place of another mapping, which is locked, too. */
	mmap(place, 1 << 16, PROT_READ, MAP_PRIVATE | MAP_FIXED, direct, 0);
}

int main(int count, char **values)
{
	check(count == 5, "arguments");
	struct stat facts;
	int library = open(values[2], O_RDONLY);
	check(library >= 0 && fstat(library, &facts) == 0, values[2]);
	char *content = malloc(facts.st_size);
	check(read(library, content, facts.st_size) == facts.st_size, "read");
	volatile int *is_silent = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	check(is_silent != MAP_FAILED, "mmap");
	is_direct = is_silent + 1;

	check(unshare(CLONE_NEWNS) == 0, "unshare");
	check(mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0, "private");
	int fuse = open("/dev/fuse", O_RDWR | O_CLOEXEC);
	check(fuse >= 0, "/dev/fuse");
	char options[64], path[4096];
	snprintf(options, sizeof options, "fd=%d,rootmode=40000,user_id=0,group_id=0", fuse);
	check(mount("silent", values[1], "fuse", MS_NOSUID | MS_NODEV, options) == 0, "mount");
	pid_t server = fork();
	check(server >= 0, "fork");
	if (server == 0) {
		setsid();
		alarm(60);
		int null = open("/dev/null", O_RDWR);
		for (int at = 0; at < 3; at++) dup2(null, at);
		serve(fuse, content, facts.st_size, is_silent);
	}
	close(fuse);
	FILE *file = fopen(values[3], "w");
	check(file && fprintf(file, "%d", server) > 0 && fclose(file) == 0, values[3]);

	snprintf(path, sizeof path, "%s/lib.so", values[1]);
	void *loaded = dlopen(path, RTLD_NOW);
	void (*blocks)(int) = loaded ? (void (*)(int))dlsym(loaded, "blocks_in_silence") : NULL;
	if (!blocks) { fprintf(stderr, "silent: %s\n", dlerror()); return 1; }
	/* From here on, the parts of the library that it needs are in memory. */
	blocks(1);
	if (atoi(values[4]) == -2) {
		/* Opening it again makes the kernel drop its cached pages of the file. */
		int again = open(path, O_RDONLY);
		char *page = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, again, 0);
		check(again >= 0 && page != MAP_FAILED, path);
		*is_silent = 1;
		printf("%d hangs\n", getpid());
		fflush(stdout);
		return *(volatile char *)page;
	}
	if (atoi(values[4]) == -3) {
		lock_memory(path);
		return 1;
	}
	*is_silent = atoi(values[4]) == -4 ? 2 : atoi(values[4]) >= 0;
	for (int round = atoi(values[4]); round > 0; round--) blocks(4000);
	/* From here on, nothing of the library may be requested. */
	_exit(0);
}
#endif
