/*
 * Everything that fxt_provider.hpp offers, once; it writes the same events as provider.c.
 *
 *     cargo build -p fxt-capi
 *     c++ -std=c++17 fxt-writer/capi/examples/provider.cpp -I fxt-writer/capi -o provider \
 *         target/debug/libfxt_provider.a -lpthread -ldl -lm
 *     sudo fxtrec -- ./provider
 */
#include "fxt_provider.hpp"

#include <cstdio>
#include <string>
#include <thread>
#include <utility>

namespace {

void worker(const void *argument, fxt::async_span &request)
{
    FXT_DURATION("example", "work", fxt::arg("argument", argument));
    FXT_FLOW_STEP("example", "request", request.id());
    for (int round = 0; round < 3; round++)
        FXT_INSTANT("example", "round", fxt::arg("number", round));
    FXT_ASYNC_INSTANT("example", "answered", request.id());
}

} /* namespace */

int main()
{
    if (!fxt_init("c example")) {
        std::fputs("this process cannot become a trace provider\n", stderr);
        return 1;
    }
    if (!fxt_wait_for_session(1000))
        std::fputs("no session: nothing is recorded\n", stderr);
    {
        FXT_DURATION("example", "everything");
        FXT_SPAN(first, "example", "first half", fxt::arg("with", std::string("words")));
        FXT_ASYNC_SPAN(begun, "example", "request", fxt::arg("id", fxt::koid{7}));
        fxt::async_span request = std::move(begun);
        FXT_FLOW_BEGIN("example", "request", request.id());
        std::thread(worker, &request, std::ref(request)).join();
        FXT_FLOW_END("example", "request", request.id());
        request.end();
        first.end();

        FXT_COUNTER("example", "queue", 0, fxt::arg("waiting", 3u), fxt::arg("load", 0.5),
                    fxt::arg("full", true));
        if (FXT_ENABLED("example"))
            FXT_BLOB("example", "state", "bytes", 5);
        FXT_LOG("example", "all is done");
        fxt_alert("done");
    }
    fxt_flush(500);
    return 0;
}
