/// \file
/// Which sanitizer this is built with, whatever the compiler: CRATON_FIBER_ASAN, CRATON_FIBER_TSAN.
#pragma once

#if defined(__SANITIZE_ADDRESS__)
#define CRATON_FIBER_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define CRATON_FIBER_ASAN 1
#endif
#endif
#if defined(__SANITIZE_THREAD__)
#define CRATON_FIBER_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define CRATON_FIBER_TSAN 1
#endif
#endif
