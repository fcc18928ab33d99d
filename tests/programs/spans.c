/* What happens is given by the arguments, so that a trace can be compared with it.
 *
 *   ticks N          tick(0, "tick-0") ... tick(N-1, ...)
 *   nap THREADS N    each thread: nap(0) ... nap(N-1), which sleep for a millisecond and return n + 1
 *   dive DEPTH       dive(DEPTH) calls itself DEPTH times
 *   leap N           N times: outer() calls leap(), which leaves both by longjmp
 *   quit THREADS     each thread ends inside of quit()
 *   exec PROGRAM     becomes PROGRAM inside of change()
 *   tree N           tick()s N times in a child, and N times in its child
 *   linger           says "ready", waits inside of linger() for a line of input, then tick(7, "after")
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define KEEP __attribute__((noinline, noclone))

static volatile long sink;
static jmp_buf start;

KEEP void tick(int number, const char *name)
{
    sink += number + name[0];
}

KEEP int nap(int number)
{
    struct timespec time = {0, 1000000};
    while (nanosleep(&time, &time) != 0)
        ;
    return number + 1;
}

KEEP int dive(int depth)
{
    if (depth == 0)
        return 0;
    return 1 + dive(depth - 1);
}

KEEP void leap(int number)
{
    sink += number;
    longjmp(start, 1);
}

KEEP void outer(int number)
{
    leap(number);
    sink += 1;
}

KEEP void *quit(void *unused)
{
    sink += 1;
    pthread_exit(unused);
}

KEEP void change(char *program)
{
    char *words[] = {program, NULL};
    execv(program, words);
    perror(program);
}

KEEP void linger(void)
{
    char line[8];
    puts("ready");
    fflush(stdout);
    if (fgets(line, sizeof line, stdin) == NULL)
        exit(2);
}

static void *naps(void *count)
{
    for (int n = 0; n < *(int *)count; n++)
        if (nap(n) != n + 1)
            abort();
    return NULL;
}

static void threads(int count, void *(*run)(void *), void *with)
{
    pthread_t ids[64];
    for (int n = 0; n < count; n++)
        pthread_create(&ids[n], NULL, run, with);
    for (int n = 0; n < count; n++)
        pthread_join(ids[n], NULL);
}

static void ticks(int count)
{
    char name[32];
    for (int n = 0; n < count; n++) {
        snprintf(name, sizeof name, "tick-%d", n);
        tick(n, name);
    }
}

int main(int count, char **words)
{
    const char *what = count > 1 ? words[1] : "";
    int number = count > 2 ? atoi(words[2]) : 0;
    if (strcmp(what, "ticks") == 0) {
        ticks(number);
    } else if (strcmp(what, "nap") == 0) {
        int each = atoi(words[3]);
        threads(number, naps, &each);
    } else if (strcmp(what, "dive") == 0) {
        dive(number);
    } else if (strcmp(what, "leap") == 0) {
        volatile int n = 0;
        setjmp(start);
        while (n < number)
            outer(n++);
    } else if (strcmp(what, "quit") == 0) {
        threads(number, quit, NULL);
    } else if (strcmp(what, "exec") == 0) {
        change(words[2]);
    } else if (strcmp(what, "tree") == 0) {
        if (fork() == 0) {
            if (fork() == 0) {
                ticks(number);
                _exit(0);
            }
            ticks(number);
            wait(NULL);
            _exit(0);
        }
        wait(NULL);
    } else if (strcmp(what, "linger") == 0) {
        linger();
        tick(7, "after");
    } else {
        return 64;
    }
    return 0;
}
