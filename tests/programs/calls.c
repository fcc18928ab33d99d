/* calls N [wait|beat]: work() N times, leaf() once in each, descend() to a depth of N, vanish() once. With "wait", it does all of this
   after the end of standard input; with "beat" as well, and until then it calls beat() every millisecond, with numbers from 0. */
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KEEP __attribute__((noinline, noclone))

struct job {
    int number;
    const char *name;
};

static volatile long sink;

static KEEP long leaf(long value)
{
    sink += value;
    return value * 2;
}

/* Returns 2 * number. */
KEEP int work(int number, const char *name, struct job *job)
{
    sink += name[0] + job->number;
    return (int)leaf(number);
}

/* The same code under another name. */
int work_alias(int, const char *, struct job *) __attribute__((alias("work")));

/* Returns depth, after depth + 1 calls. */
KEEP int descend(int depth)
{
    if (depth == 0)
        return 0;
    return 1 + descend(depth - 1);
}

/* Eight arguments: two of them are on the stack. */
KEEP long many(long a, long b, long c, long d, long e, long f, long g, long h)
{
    sink += a + b + c + d + e + f;
    return g - h;
}

KEEP void beat(int number)
{
    sink += number;
}

/* Whether standard input has ended, after waiting a millisecond. */
static int ended(void)
{
    struct pollfd input = {.fd = 0, .events = POLLIN};
    return poll(&input, 1, 1) != 0 && getchar() == EOF;
}

/* Never returns. */
KEEP void *vanish(void *unused)
{
    sink += 1;
    pthread_exit(unused);
}

int main(int count, char **words)
{
    int n = count > 1 ? atoi(words[1]) : 10;
    char name[32];
    if (count > 2 && strcmp(words[2], "beat") == 0)
        for (int i = 0; !ended(); i++)
            beat(i);
    else if (count > 2)
        while (getchar() != EOF)
            ;
    for (int i = 0; i < n; i++) {
        struct job job = {i + 1000, name};
        snprintf(name, sizeof name, "job-%d", i);
        if (work(i, name, &job) != 2 * i)
            return 2;
    }
    if (descend(n) != n || many(1, 2, 3, 4, 5, 6, 77, 7) != 70)
        return 3;
    pthread_t thread;
    if (pthread_create(&thread, NULL, vanish, NULL) != 0)
        return 4;
    pthread_join(thread, NULL);
    return 0;
}
