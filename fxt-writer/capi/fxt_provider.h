/*
 * Trace points for C: spans, moments, counters, flows and log messages of an
 * application, in one trace with the scheduler (fxtrec).
 *
 *     #include "fxt_provider.h"
 *
 *     int main(void) {
 *         fxt_init("app");
 *         FXT_DURATION("app", "everything");
 *         FXT_INSTANT("app", "a moment", FXT_INT("answer", 42));
 *         return 0;
 *     }
 *
 *     cc app.c -o app -lfxt_provider
 *
 * Made by cbindgen from the library's source; do not edit. Takes gcc or clang, in
 * the C that they speak by default (gnu11 or later).
 */

#ifndef FXT_PROVIDER_H
#define FXT_PROVIDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Macros with arguments that may be left out are an extension of gcc and clang, which
 * -Wpedantic would report wherever they are used. */
#pragma GCC system_header

/* A trace point: where in the program something is recorded. The macros below
 * make one per use; only the library looks inside. */
typedef struct fxt_site {
    const char *category;
    const char *name;
    /* What the library knows of it; null before its first pass in a session. */
    const void *known;
} fxt_site_t;


// An argument's value is `number`.
#define FXT_ARG_INT 1

// An argument's value is `unsigned_number`.
#define FXT_ARG_UINT 2

// An argument's value is `real`.
#define FXT_ARG_DOUBLE 3

// An argument's value is `truth`.
#define FXT_ARG_BOOL 4

// An argument's value is `text`.
#define FXT_ARG_TEXT 5

// An argument's value is `pointer`.
#define FXT_ARG_POINTER 6

// An argument's value is `unsigned_number`, the id of a process or thread.
#define FXT_ARG_KOID 7

// An instant event of this thread.
#define FXT_INSTANT_EVENT 0

// Samples of time series.
#define FXT_COUNTER_EVENT 1

// The beginning of an operation that may end on another thread.
#define FXT_ASYNC_BEGIN_EVENT 5

// An instant event within such an operation.
#define FXT_ASYNC_INSTANT_EVENT 6

// The end of such an operation.
#define FXT_ASYNC_END_EVENT 7

// The beginning of a flow, in the duration around this event.
#define FXT_FLOW_BEGIN_EVENT 8

// A point on a flow.
#define FXT_FLOW_STEP_EVENT 9

// The end of a flow, in the duration around this event.
#define FXT_FLOW_END_EVENT 10

// The value of an argument; `kind` selects the member.
typedef union fxt_arg_value_t {
    // A signed number.
    int64_t number;
    // An unsigned number, or an id.
    uint64_t unsigned_number;
    // A floating point number.
    double real;
    // A truth value.
    bool truth;
    // A string that ends in a NUL; null for none.
    const char *text;
    // An address; the memory there is not read.
    const void *pointer;
} fxt_arg_value_t;

// One argument of an event; made by `FXT_INT` and its like.
typedef struct fxt_arg_t {
    // Its name: a constant string that ends in a NUL.
    const char *name;
    // The kind of value, for instance `FXT_ARG_INT`; an argument of an unknown
    // kind has no value.
    uint32_t kind;
    // Its value.
    union fxt_arg_value_t value;
} fxt_arg_t;

// A duration that has begun; all zero if there is none.
typedef struct fxt_duration_t {
    // The library's own.
    const void *site;
    // The session that it began in, or 0.
    uint32_t session;
} fxt_duration_t;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// Makes this process a trace provider named `name`, 1 to 255 bytes of UTF-8; does nothing if the process is already a provider. Under
// `fxtrec -- COMMAND` it returns when trace points record, usually within a few milliseconds and after half a second at most; without a
// manager it returns at once. A thread of the library looks for a manager for as long as the process runs. False if the name is invalid or
// no thread is available.
//
// # Safety
//
// `name` must be a string that ends in a NUL.
bool fxt_init(const char *name);

// Waits until a session runs, at most `milliseconds`; returns whether a session runs. For programs that a later session will record; if a
// session already runs, `fxt_init` has waited for it.
bool fxt_wait_for_session(uint32_t milliseconds);

// Requests that all records so far be saved and waits for that, at most
// `milliseconds`; returns whether they are. After the process has ended, the manager reads the unsaved data.
bool fxt_flush(uint32_t milliseconds);

// Reports an event to the manager, which may trigger on it: an alert of 1 to 14
// bytes; longer ones are truncated.
//
// # Safety
//
// `name` must be a string that ends in a NUL.
void fxt_alert(const char *name);

// A number that no other call in this process returns, as an id of asynchronous operations and flows.
uint64_t fxt_unique_id(void);

// Records an event, if the session records its category. `kind` is one of the
// constants above; with any other value, nothing is recorded. At most 15
// arguments are kept.
//
// # Safety
//
// `site` must be a trace point with constant strings, its `known` null at first
// and left alone since; `args` must point to `count` arguments, each with the
// member of its value set that its kind names.
void fxt_event(const fxt_site_t *site,
               uint32_t kind,
               uint64_t id,
               const struct fxt_arg_t *args,
               size_t count);

// Begins a duration of this thread; pass the returned value to `fxt_duration_end`.
//
// # Safety
//
// As `fxt_event`.
struct fxt_duration_t fxt_duration_begin(const fxt_site_t *site,
                                         const struct fxt_arg_t *args,
                                         size_t count);

// Ends a duration, on the thread that began it, if its session still runs.
//
// # Safety
//
// `duration` must be what `fxt_duration_begin` returned.
void fxt_duration_end(struct fxt_duration_t duration);

// Whether a running session records the trace point's category.
//
// # Safety
//
// As `fxt_event`.
bool fxt_is_enabled(const fxt_site_t *site);

// Records `length` bytes under the trace point's name.
//
// # Safety
//
// As `fxt_event`; `bytes` must point to `length` bytes, and may be null for 0.
void fxt_blob(const fxt_site_t *site, const void *bytes, size_t length);

// Records a log message.
//
// # Safety
//
// As `fxt_event`; `message` must be a string that ends in a NUL.
void fxt_log(const fxt_site_t *site, const char *message);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* FXT_PROVIDER_H */

/* The word that is not zero while a session runs. Do not write to it. */
extern const uint32_t *const fxt_session;

/* Whether a session runs: a load and a branch, wherever it is used. */
static inline bool fxt_is_recording(void)
{
    return __atomic_load_n(fxt_session, __ATOMIC_RELAXED) != 0;
}

/* Arguments. Texts are copied when the event is written. */
#define FXT_INT(fxt_key_, fxt_value_) \
    ((fxt_arg_t){.name = (fxt_key_), .kind = FXT_ARG_INT, .value = {.number = (fxt_value_)}})
#define FXT_UINT(fxt_key_, fxt_value_) \
    ((fxt_arg_t){.name = (fxt_key_), .kind = FXT_ARG_UINT, .value = {.unsigned_number = (fxt_value_)}})
#define FXT_DOUBLE(fxt_key_, fxt_value_) \
    ((fxt_arg_t){.name = (fxt_key_), .kind = FXT_ARG_DOUBLE, .value = {.real = (fxt_value_)}})
#define FXT_BOOL(fxt_key_, fxt_value_) \
    ((fxt_arg_t){.name = (fxt_key_), .kind = FXT_ARG_BOOL, .value = {.truth = (fxt_value_)}})
#define FXT_TEXT(fxt_key_, fxt_value_) \
    ((fxt_arg_t){.name = (fxt_key_), .kind = FXT_ARG_TEXT, .value = {.text = (fxt_value_)}})
#define FXT_POINTER(fxt_key_, fxt_value_) \
    ((fxt_arg_t){.name = (fxt_key_), .kind = FXT_ARG_POINTER, .value = {.pointer = (fxt_value_)}})
#define FXT_KOID(fxt_key_, fxt_value_) \
    ((fxt_arg_t){.name = (fxt_key_), .kind = FXT_ARG_KOID, .value = {.unsigned_number = (fxt_value_)}})

/* An event of any kind: FXT_EVENT(kind, category, name, id, arguments...).
 * Category and name are string constants; arguments are not computed while no
 * session runs. */
#define FXT_EVENT(kind, category, name, id, ...) \
    do { \
        if (fxt_is_recording()) { \
            static fxt_site_t fxt_site_ = {category, name, NULL}; \
            const fxt_arg_t fxt_args_[] = {{0}, ##__VA_ARGS__}; \
            fxt_event(&fxt_site_, (kind), (id), fxt_args_ + 1, \
                      sizeof fxt_args_ / sizeof *fxt_args_ - 1); \
        } \
    } while (0)

/* A moment of this thread. */
#define FXT_INSTANT(category, name, ...) \
    FXT_EVENT(FXT_INSTANT_EVENT, category, name, 0, ##__VA_ARGS__)
/* Samples of time series, each argument one; the id tells counters of the same
 * name apart. */
#define FXT_COUNTER(category, name, id, ...) \
    FXT_EVENT(FXT_COUNTER_EVENT, category, name, id, ##__VA_ARGS__)
/* An operation that may end on another thread. */
#define FXT_ASYNC_BEGIN(category, name, id, ...) \
    FXT_EVENT(FXT_ASYNC_BEGIN_EVENT, category, name, id, ##__VA_ARGS__)
#define FXT_ASYNC_INSTANT(category, name, id, ...) \
    FXT_EVENT(FXT_ASYNC_INSTANT_EVENT, category, name, id, ##__VA_ARGS__)
#define FXT_ASYNC_END(category, name, id, ...) \
    FXT_EVENT(FXT_ASYNC_END_EVENT, category, name, id, ##__VA_ARGS__)
/* An arrow from the duration around one event to that around the next. */
#define FXT_FLOW_BEGIN(category, name, id, ...) \
    FXT_EVENT(FXT_FLOW_BEGIN_EVENT, category, name, id, ##__VA_ARGS__)
#define FXT_FLOW_STEP(category, name, id, ...) \
    FXT_EVENT(FXT_FLOW_STEP_EVENT, category, name, id, ##__VA_ARGS__)
#define FXT_FLOW_END(category, name, id, ...) \
    FXT_EVENT(FXT_FLOW_END_EVENT, category, name, id, ##__VA_ARGS__)

/* Whether events of a category are recorded, for work that only a trace needs. */
#define FXT_ENABLED(category) \
    (fxt_is_recording() && __extension__({ \
        static fxt_site_t fxt_site_ = {category, "enabled", NULL}; \
        fxt_is_enabled(&fxt_site_); \
    }))

/* Begins a duration of this thread and yields what FXT_DURATION_END ends it by;
 * both on the same thread, the last begun ended first. */
#define FXT_DURATION_BEGIN(category, name, ...) \
    __extension__({ \
        fxt_duration_t fxt_begun_ = {0}; \
        if (fxt_is_recording()) { \
            static fxt_site_t fxt_site_ = {category, name, NULL}; \
            const fxt_arg_t fxt_args_[] = {{0}, ##__VA_ARGS__}; \
            fxt_begun_ = fxt_duration_begin(&fxt_site_, fxt_args_ + 1, \
                                            sizeof fxt_args_ / sizeof *fxt_args_ - 1); \
        } \
        fxt_begun_; \
    })
#define FXT_DURATION_END(duration) \
    do { \
        if ((duration).session != 0) \
            fxt_duration_end(duration); \
    } while (0)

/* A duration from here to the end of the block; once per line. */
static inline void fxt_duration_cleanup_(fxt_duration_t *duration)
{
    FXT_DURATION_END(*duration);
}
#define FXT_JOIN2_(a, b) a##b
#define FXT_JOIN_(a, b) FXT_JOIN2_(a, b)
#define FXT_DURATION(category, name, ...) \
    __attribute__((cleanup(fxt_duration_cleanup_), unused)) fxt_duration_t \
        FXT_JOIN_(fxt_duration_, __LINE__) = FXT_DURATION_BEGIN(category, name, ##__VA_ARGS__)

/* Bytes under a name; beyond 32 000 in several records. */
#define FXT_BLOB(category, name, bytes, length) \
    do { \
        if (fxt_is_recording()) { \
            static fxt_site_t fxt_site_ = {category, name, NULL}; \
            fxt_blob(&fxt_site_, (bytes), (length)); \
        } \
    } while (0)

/* A log message, a text that is ready. */
#define FXT_LOG(category, message) \
    do { \
        if (fxt_is_recording()) { \
            static fxt_site_t fxt_site_ = {category, "log", NULL}; \
            fxt_log(&fxt_site_, (message)); \
        } \
    } while (0)
