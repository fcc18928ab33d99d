/* usdt N: app:tick N times with the number, a text and a constant; app:guarded as often, but only while the probe is in use; app:done once.
   Prints how often the guard was open. */
#include <stdio.h>
#include <stdlib.h>

#include "usdt.h"

USDT_SEMAPHORE(app, guarded);

static __attribute__((noinline)) void tick(int number, const char *text)
{
    USDT3(app, tick, -4, number, 8, text, -4, -7);
}

int main(int count, char **words)
{
    int n = count > 1 ? atoi(words[1]) : 10;
    int open = 0;
    char text[32];
    for (int i = 0; i < n; i++) {
        snprintf(text, sizeof text, "tick-%d", i);
        tick(i, text);
        if (USDT_ENABLED(app, guarded)) {
            long square = (long)i * i;
            USDT1_GUARDED(app, guarded, 8, square);
            open++;
        }
    }
    USDT0(app, done);
    printf("%d\n", open);
    return 0;
}
