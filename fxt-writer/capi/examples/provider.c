/*
 * Everything that fxt_provider.h offers, once.
 *
 *     cargo build -p fxt-capi
 *     cc fxt-writer/capi/examples/provider.c -I fxt-writer/capi -o provider \
 *         target/debug/libfxt_provider.a -lpthread -ldl -lm
 *     sudo fxtrec -- ./provider
 */
#include "fxt_provider.h"

#include <pthread.h>
#include <stdio.h>

static uint64_t request;

static void *worker(void *argument)
{
    FXT_DURATION("example", "work", FXT_POINTER("argument", argument));
    FXT_FLOW_STEP("example", "request", request);
    for (int round = 0; round < 3; round++)
        FXT_INSTANT("example", "round", FXT_INT("number", round));
    FXT_ASYNC_INSTANT("example", "answered", request);
    return NULL;
}

int main(void)
{
    if (!fxt_init("c example")) {
        fputs("this process cannot become a trace provider\n", stderr);
        return 1;
    }
    /* Under fxtrec a session is running now; this is for a session that starts later. */
    if (!fxt_wait_for_session(1000))
        fputs("no session: nothing is recorded\n", stderr);

    FXT_DURATION("example", "everything");
    fxt_duration_t first = FXT_DURATION_BEGIN("example", "first half", FXT_TEXT("with", "words"));
    request = fxt_unique_id();
    FXT_ASYNC_BEGIN("example", "request", request, FXT_KOID("id", 7));
    FXT_FLOW_BEGIN("example", "request", request);
    pthread_t thread;
    if (pthread_create(&thread, NULL, worker, &request) != 0)
        return 1;
    pthread_join(thread, NULL);
    FXT_FLOW_END("example", "request", request);
    FXT_ASYNC_END("example", "request", request);
    FXT_DURATION_END(first);

    FXT_COUNTER("example", "queue", 0, FXT_UINT("waiting", 3), FXT_DOUBLE("load", 0.5),
                FXT_BOOL("full", true));
    if (FXT_ENABLED("example"))
        FXT_BLOB("example", "state", "bytes", 5);
    FXT_LOG("example", "all is done");
    fxt_alert("done");
    fxt_flush(500);
    return 0;
}
