/// \file
/// Uses up a stack: of the thread outside of regions (first), of each thread of a team (team N), of a thread
/// that the program has started itself (started), by frames that are larger than a page (large), and by one
/// that reaches beyond its own guard to that of the first thread (jump).
#include <omp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { small_frame = 256, large_frame = 300 * 1024 };

/// Only the lowest byte of a frame is touched.
__attribute__((noinline)) static int descend(int depth, int frame_bytes) {
  volatile char* const frame = __builtin_alloca((size_t)frame_bytes);
  frame[0] = (char)depth;
  return depth < 0 ? 0 : descend(depth + 1, frame_bytes) + frame[0];
}

static void* start(void* frame_bytes) {
  printf("%d\n", descend(0, *(int*)frame_bytes));
  return NULL;
}

static char* first_guard;

static void* jump(void* argument) {
  char here;
  (void)argument;
  printf("%d\n", descend(-1, (int)(&here - first_guard)));
  return NULL;
}

int main(int count, char** arguments) {
  const char* const mode = count > 1 ? arguments[1] : "";
  int frame_bytes = strcmp(mode, "large") == 0 ? large_frame : small_frame;
  if (strcmp(mode, "first") == 0) start(&frame_bytes);
  if (strcmp(mode, "team") == 0 && count > 2) {
#pragma omp parallel
    if (omp_get_thread_num() == atoi(arguments[2])) start(&frame_bytes);
  }
  /* Below its 4 MiB, in the middle. */
  first_guard = (char*)&frame_bytes - (9 << 19);
  void* (*const body)(void*) = strcmp(mode, "jump") == 0 ? &jump : &start;
  pthread_t thread;
  if (pthread_create(&thread, NULL, body, &frame_bytes) != 0) return 1;
  pthread_join(thread, NULL);
  return 0;
}
