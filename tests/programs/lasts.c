/* lasts MS...: work() for each number, which computes for this many milliseconds, with a sleep of a millisecond before and after each. */
#include <poll.h>
#include <stdlib.h>
#include <time.h>

#define KEEP __attribute__((noinline, noclone))

static long now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

KEEP void work(long ms)
{
    for (long begin = now_ms(); now_ms() - begin < ms;)
        ;
}

int main(int count, char **words)
{
    for (int i = 1; i < count; i++) {
        poll(0, 0, 1);
        work(atol(words[i]));
    }
    poll(0, 0, 1);
    return 0;
}
