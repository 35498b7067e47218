/* ends HOW: the ways in which a program ends. */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void at_exit_one(void) {
  printf("first handler\n");
}
static void at_exit_two(void) {
  printf("second handler\n");
}
static void* exit_from_thread(void* status) {
  exit((int)(long)status);
}
/* As crash handlers do. */
static void say_and_die(int number) {
  static const char text[] = "in a handler\n";
  if (write(STDOUT_FILENO, text, sizeof text - 1) < 0) _exit(98);
  signal(number, SIG_DFL);
  raise(number);
}
__attribute__((destructor)) static void destructor(void) {
  printf("destructor\n");
}

int main(int count, char** words) {
  const char* how = count > 1 ? words[1] : "return0";
  atexit(&at_exit_one);
  atexit(&at_exit_two);
  at_quick_exit(&at_exit_one);
  printf("in main\n");
  if (strcmp(how, "return0") == 0) return 0;
  if (strcmp(how, "return5") == 0) return 5;
  if (strcmp(how, "exit6") == 0) exit(6);
  if (strcmp(how, "exit-1") == 0) exit(-1);
  if (strcmp(how, "thread7") == 0) {
    pthread_t thread;
    pthread_create(&thread, NULL, &exit_from_thread, (void*)7L);
    for (;;) pause();
  }
  fflush(stdout);
  if (strcmp(how, "_exit8") == 0) _exit(8);
  if (strcmp(how, "_exit0") == 0) _exit(0);
  if (strcmp(how, "_Exit9") == 0) _Exit(9);
  if (strcmp(how, "quick10") == 0) quick_exit(10);
  if (strcmp(how, "abort") == 0) abort();
  if (strcmp(how, "segv") == 0) {
    volatile int* volatile nowhere = (volatile int*)16;
    *nowhere = 1;
  }
  if (strcmp(how, "term") == 0) raise(SIGTERM);
  if (strcmp(how, "kill") == 0) raise(SIGKILL);
  if (strcmp(how, "raise-segv") == 0) raise(SIGSEGV);
  if (strcmp(how, "kill-bus") == 0) kill(getpid(), SIGBUS);
  if (strcmp(how, "queue-segv") == 0) sigqueue(getpid(), SIGSEGV, (union sigval){.sival_int = 1});
  if (strcmp(how, "handled-segv") == 0) {
    signal(SIGSEGV, &say_and_die);
    raise(SIGSEGV);
  }
  if (strcmp(how, "ignored-bus") == 0) {
    signal(SIGBUS, SIG_IGN);
    raise(SIGBUS);
    return 11;
  }
  if (strcmp(how, "kill-bus") == 0 || strcmp(how, "queue-segv") == 0)
    for (;;) pause(); /* another thread may be the one that takes it */
  return 99;
}
