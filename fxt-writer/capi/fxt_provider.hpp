/*
 * Trace points for C++17, on top of fxt_provider.h: spans end with their
 * scope, also when an exception leaves it, and arguments have the types of their
 * values.
 *
 *     #include "fxt_provider.hpp"
 *
 *     int main() {
 *         fxt_init("app");
 *         FXT_DURATION("app", "load", fxt::arg("path", path), fxt::arg("bytes", 17));
 *         FXT_INSTANT("app", "begun");
 *     }
 *
 * Categories and names are string constants. Arguments are not computed while no
 * session runs. Requires gcc or clang; -std=gnu++ is not needed.
 */

#ifndef FXT_PROVIDER_HPP
#define FXT_PROVIDER_HPP

/* The same as in fxt_provider.h. */
#pragma GCC system_header

#include "fxt_provider.h"

#include <initializer_list>
#include <string>
#include <type_traits>

namespace fxt {

/* The id of a process or thread, as an argument. */
struct koid {
    uint64_t id;
};

/* An argument of an event, by the type of its value. A text is copied when the
 * event is written. */
template <typename Value>
fxt_arg_t arg(const char *name, const Value &value)
{
    fxt_arg_t made{};
    made.name = name;
    using Plain = std::decay_t<Value>;
    if constexpr (std::is_same_v<Plain, bool>) {
        made.kind = FXT_ARG_BOOL;
        made.value.truth = value;
    } else if constexpr (std::is_same_v<Plain, koid>) {
        made.kind = FXT_ARG_KOID;
        made.value.unsigned_number = value.id;
    } else if constexpr (std::is_floating_point_v<Plain>) {
        made.kind = FXT_ARG_DOUBLE;
        made.value.real = static_cast<double>(value);
    } else if constexpr (std::is_enum_v<Plain>) {
        return arg(name, static_cast<std::underlying_type_t<Plain>>(value));
    } else if constexpr (std::is_integral_v<Plain> && std::is_unsigned_v<Plain>) {
        made.kind = FXT_ARG_UINT;
        made.value.unsigned_number = value;
    } else if constexpr (std::is_integral_v<Plain>) {
        made.kind = FXT_ARG_INT;
        made.value.number = value;
    } else if constexpr (std::is_convertible_v<const Value &, const char *>) {
        made.kind = FXT_ARG_TEXT;
        made.value.text = value;
    } else if constexpr (std::is_same_v<Plain, std::string>) {
        made.kind = FXT_ARG_TEXT;
        made.value.text = value.c_str();
    } else {
        static_assert(std::is_pointer_v<Plain>, "an argument is a number, a text, or an address");
        made.kind = FXT_ARG_POINTER;
        made.value.pointer = value;
    }
    return made;
}

/* Records an event of this kind; the macros below do. */
inline void event(const fxt_site_t &site, uint32_t kind, uint64_t id,
                  std::initializer_list<fxt_arg_t> args = {})
{
    fxt_event(&site, kind, id, args.begin(), args.size());
}

/* The same, with separate arguments. */
template <typename... Args>
inline void event_of(const fxt_site_t &site, uint32_t kind, uint64_t id, const Args &...args)
{
    event(site, kind, id, {args...});
}

/* A duration of this thread, which ends when this object is destroyed. It stays on the thread and in the scope that created it, so it is
 * neither copied nor moved. */
class span {
public:
    span() noexcept = default;
    explicit span(const fxt_site_t &site, std::initializer_list<fxt_arg_t> args = {})
        : begun_(fxt_duration_begin(&site, args.begin(), args.size()))
    {
    }
    span(const span &) = delete;
    span &operator=(const span &) = delete;
    ~span() { end(); }

    /* Ends it before the end of its scope. */
    void end() noexcept
    {
        if (begun_.session != 0)
            fxt_duration_end(begun_);
        begun_ = fxt_duration_t{};
    }

private:
    fxt_duration_t begun_{};
};

/* An operation that may end on another thread: it ends when the object that last owns it is destroyed. */
class async_span {
public:
    async_span() noexcept = default;
    explicit async_span(const fxt_site_t &site, std::initializer_list<fxt_arg_t> args = {})
        : site_(&site), id_(fxt_unique_id())
    {
        event(site, FXT_ASYNC_BEGIN_EVENT, id_, args);
    }
    async_span(async_span &&other) noexcept : site_(other.site_), id_(other.id_)
    {
        other.site_ = nullptr;
    }
    async_span &operator=(async_span &&other) noexcept
    {
        if (this != &other) {
            end();
            site_ = other.site_;
            id_ = other.id_;
            other.site_ = nullptr;
        }
        return *this;
    }
    ~async_span() { end(); }

    /* The id of its events; 0 if it is not recorded. */
    uint64_t id() const noexcept { return site_ != nullptr ? id_ : 0; }

    /* Ends it before it is destroyed. */
    void end() noexcept
    {
        if (site_ != nullptr && fxt_is_recording())
            event(*site_, FXT_ASYNC_END_EVENT, id_);
        site_ = nullptr;
    }

private:
    const fxt_site_t *site_ = nullptr;
    uint64_t id_ = 0;
};

/* Spans with separate arguments, for the macros, which have them after the name. */
template <typename... Args>
inline span span_of(const fxt_site_t &site, const char *, const Args &...args)
{
    return span(site, {args...});
}
template <typename... Args>
inline async_span async_span_of(const fxt_site_t &site, const char *, const Args &...args)
{
    return async_span(site, {args...});
}

} /* namespace fxt */

#define FXT_FIRST_(first, ...) first
#define FXT_SITE_(category, name) \
    ([]() -> const fxt_site_t & { \
        static fxt_site_t fxt_site_{category, name, nullptr}; \
        return fxt_site_; \
    }())

/* Macros of fxt_provider.h that take arguments take those of `fxt::arg` here: FXT_EVENT(kind, category, name, id, arguments...). Here `...`
 * is never empty, which clang reports with -Wpedantic before C++20. */
#undef FXT_EVENT
#define FXT_EVENT(kind, category, name, ...) \
    do { \
        if (fxt_is_recording()) \
            ::fxt::event_of(FXT_SITE_(category, name), (kind), __VA_ARGS__); \
    } while (0)

/* A named duration, which can be ended before its scope ends: FXT_SPAN(variable, category, name, arguments...). */
#define FXT_SPAN(variable, category, ...) \
    ::fxt::span variable = \
        fxt_is_recording() ? ::fxt::span_of(FXT_SITE_(category, FXT_FIRST_(__VA_ARGS__, 0)), __VA_ARGS__) \
                           : ::fxt::span()

/* A duration from here to the end of the block; at most one per line: FXT_DURATION(category, name, arguments...). */
#undef FXT_DURATION
#define FXT_DURATION(category, ...) \
    FXT_SPAN(FXT_JOIN_(fxt_duration_, __LINE__), category, __VA_ARGS__)

/* A named asynchronous operation, which can be moved to where it ends: FXT_ASYNC_SPAN(variable, category, name, arguments...). */
#define FXT_ASYNC_SPAN(variable, category, ...) \
    ::fxt::async_span variable = \
        fxt_is_recording() \
            ? ::fxt::async_span_of(FXT_SITE_(category, FXT_FIRST_(__VA_ARGS__, 0)), __VA_ARGS__) \
            : ::fxt::async_span()

/* The C macros that these replace. */
#undef FXT_DURATION_BEGIN
#undef FXT_DURATION_END

#endif /* FXT_PROVIDER_HPP */
