/// \file
/// The C library's own versions of the functions that programs get from us (interposed.inc).
///
///     program ──▶ fopen ──▶ ours ──▶ CRATON_REAL(fopen) ──▶ libc
///     runtime ──▶ fopen ──(linker: --wrap)──▶ __wrap_fopen ──▶ libc
#pragma once

extern "C" {
#define CRATON_INTERPOSED(name) extern void* craton_real_##name;
#include "posix/interposed.inc"
#undef CRATON_INTERPOSED
}

/// A function pointer of the type of `name`. The first call of any finds them all, so it works also before
/// the program has started: constructors of libraries call us as well.
#define CRATON_REAL(name) (reinterpret_cast<decltype(&::name)>(craton_real_##name))
