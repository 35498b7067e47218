/// \file
/// What the thread sanitizer is not to report here. Ranks that lose a peer go on putting, getting and
/// updating the same bytes of each other at once, on purpose: the case asks how operations end, not what they
/// leave. Another case lets puts overlap and asks that no byte comes from nowhere. Within one process that
/// shows as a race between the agent, which serves a peer's put, and the rank's own operation.

extern "C" __attribute__((visibility("default"))) const char* __tsan_default_suppressions();

extern "C" const char* __tsan_default_suppressions() {
  return "race:killed_during\nrace:overlapping_puts\n";
}
