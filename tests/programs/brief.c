/* A short program with the C header: three spans right after fxt_init, and then it ends.
 *
 *     brief leave|exit|kill
 */
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "fxt_provider.h"

int main(int count, char **words)
{
    const char *how = count > 1 ? words[1] : "";
    if (!fxt_init("brief"))
        return 1;
    for (int number = 0; number < 3; number++) {
        FXT_DURATION("app", "brief", FXT_INT("number", number));
    }
    if (strcmp(how, "exit") == 0)
        exit(0);
    if (strcmp(how, "kill") == 0)
        raise(SIGKILL);
    return 0;
}
