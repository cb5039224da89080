// SPDX-License-Identifier: LGPL-2.1-or-later
// The core's log: messages go to one sink that the embedding program sets (the plugin: GST_DEBUG).
#pragma once

namespace cudaframe {

/// The core logs nothing above debug, but for release paths that have no caller to tell.
enum class LogLevel { warning, debug, trace };

/// `component` is a literal such as "memory". Called from any thread; must not call back.
using LogSink = void (*)(LogLevel level, const char* component, const char* message);

/// Thread-safe. Null (the default) drops everything.
void set_log_sink(LogSink sink) noexcept;

/// Thread-safe; printf-style. Formats nothing while no sink is set.
void log(LogLevel level, const char* component, const char* format, ...) noexcept
    __attribute__((format(printf, 3, 4)));

}  // namespace cudaframe
