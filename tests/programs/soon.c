/* Waits for 30 ms in a known function and ends, for stacks of programs that nobody can ask any more.
 *
 *     soon              waits
 *     soon exec         waits, and executes itself to wait once more
 *     soon fork         has a child that waits without executing anything
 *     soon load FILE    loads a library, and waits in its function "waits_loaded"
 */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define FUNCTION __attribute__((noinline))

#ifdef LIBRARY

FUNCTION int waits_loaded(void)
{
    return usleep(30000) + 1;
}

#else

FUNCTION static int waits_here(void)
{
    return usleep(30000) + 1;
}

/* The length differs from that of the other, or the compiler would merge them into one function. */
FUNCTION static int waits_before(void)
{
    return usleep(31000) + 1;
}

FUNCTION static int waits_for_child(void)
{
    return (int)wait(NULL) + 1;
}

int main(int count, char **words)
{
    const char *how = count > 1 ? words[1] : "";
    if (strcmp(how, "exec") == 0 && waits_before())
        return execl(words[0], words[0], NULL);
    if (strcmp(how, "fork") == 0 && fork() > 0)
        return waits_for_child() == 0;
    if (strcmp(how, "load") == 0) {
        int (*waits)(void) = (int (*)(void))dlsym(dlopen(words[2], RTLD_NOW), "waits_loaded");
        return waits() == 0;
    }
    return waits_here() == 0;
}

#endif
