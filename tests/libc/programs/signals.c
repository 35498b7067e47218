/* Handlers of the program beside the runtime's. */
#define _GNU_SOURCE
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include "check.h"

static volatile sig_atomic_t seen, seen_code;
static sigjmp_buf back;
static char untouched[64][4096] __attribute__((aligned(4096)));

static void note(int signal) {
  seen = signal;
}
static void leave(int signal) {
  seen = signal;
  siglongjmp(back, 1);
}
static void leave_with_code(int signal, siginfo_t* information, void* context) {
  (void)context;
  seen = signal;
  seen_code = information->si_code;
  untouched[3][0] = 1; /* a fault inside of a handler */
  siglongjmp(back, 1);
}

/* Old programs have masks of 32 signals. */
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

static void* is_masked(void* page) {
  *(char*)page = 1;
  sigset_t now;
  CHECK(pthread_sigmask(SIG_BLOCK, NULL, &now), 0);
  CHECK(sigismember(&now, SIGSEGV), 1);
  CHECK(sigismember(&now, SIGUSR2), 1);
  return NULL;
}

/* A thread whose attributes name its mask. */
static void begin_masked(const sigset_t* mask) {
  pthread_attr_t attributes;
  pthread_t thread;
  CHECK(pthread_attr_init(&attributes), 0);
  CHECK(pthread_attr_setsigmask_np(&attributes, mask), 0);
  CHECK(pthread_create(&thread, &attributes, &is_masked, untouched[10]), 0);
  CHECK(pthread_join(thread, NULL), 0);
  CHECK(pthread_attr_destroy(&attributes), 0);
}

int main(void) {
  struct sigaction* action = fresh(sizeof *action);
  struct sigaction* before = fresh(sizeof *before);
  /* An ordinary one. */
  CHECK(signal(SIGUSR1, &note), SIG_DFL);
  CHECK(sigaction(SIGUSR1, NULL, before), 0);
  CHECK(before->sa_handler, note);
  CHECK(before->sa_flags & SA_ONSTACK, 0);
  CHECK(before->sa_flags & SA_RESTART, SA_RESTART);
  raise(SIGUSR1);
  CHECK(seen, SIGUSR1);
  CHECK(signal(SIGUSR1, SIG_IGN), note);
  CHECK(signal(SIGUSR1, SIG_DFL), SIG_IGN);

  /* One of a signal that the runtime lives by: it gets the faults that are the program's. */
  CHECK(sigaction(SIGSEGV, NULL, before), 0);
  CHECK(before->sa_handler, SIG_DFL);
  CHECK(signal(SIGSEGV, &leave), SIG_DFL);
  CHECK(sigaction(SIGSEGV, NULL, before), 0);
  CHECK(before->sa_handler, leave);
  seen = 0;
  untouched[0][0] = 1;
  CHECK(seen, 0);
  volatile int* volatile nowhere = (volatile int*)16;
  if (sigsetjmp(back, 1) == 0) *nowhere = 1;
  CHECK(seen, SIGSEGV);
  untouched[1][0] = 1; /* the runtime's still work after the jump */
  memset(action, 0, sizeof *action);
  action->sa_sigaction = &leave_with_code;
  action->sa_flags = SA_SIGINFO | SA_NODEFER;
  CHECK(sigaction(SIGSEGV, action, before), 0);
  CHECK(before->sa_handler, leave);
  seen = 0;
  char* page = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (sigsetjmp(back, 1) == 0) *(volatile char*)page = 1;
  CHECK(seen, SIGSEGV);
  CHECK(seen_code, SEGV_ACCERR);
  CHECK(untouched[3][0], 1);
  CHECK(signal(SIGBUS, &note), SIG_DFL);
  CHECK(signal(SIGBUS, SIG_DFL), note);

  /* All signals blocked, as a thread that waits for them has it. */
  sigset_t* all = fresh(sizeof *all);
  sigset_t* old = fresh(sizeof *old);
  sigfillset(all);
  CHECK(pthread_sigmask(SIG_BLOCK, all, old), 0);
  CHECK(sigismember(old, SIGSEGV), 0);
  untouched[8][0] = 1;
  CHECK(pthread_sigmask(SIG_BLOCK, NULL, old), 0);
  CHECK(sigismember(old, SIGSEGV), 1);
  CHECK(sigismember(old, SIGBUS), 1);
  CHECK(sigismember(old, SIGUSR2), 1);
  raise(SIGUSR2);
  CHECK(sigpending(old), 0);
  CHECK(sigismember(old, SIGUSR2), 1);
  sigset_t* one = fresh(sizeof *one);
  sigemptyset(one);
  sigaddset(one, SIGUSR2);
  int* number = fresh(sizeof *number);
  CHECK(sigwait(one, number), 0);
  CHECK(*number, SIGUSR2);
  raise(SIGUSR2);
  CHECK(sigwaitinfo(one, fresh(sizeof(siginfo_t))), SIGUSR2);
  CHECK(sigprocmask(SIG_UNBLOCK, all, old), 0);
  CHECK(sigismember(old, SIGSEGV), 1);
  CHECK(sigprocmask(SIG_BLOCK, NULL, old), 0);
  CHECK(sigismember(old, SIGSEGV), 0);
  CHECK(sigsetmask(~0), 0);
  untouched[9][0] = 1;
  const int blocked = sigblock(0);
  CHECK(blocked >> (SIGSEGV - 1) & 1, 1);
  CHECK(blocked >> (SIGUSR2 - 1) & 1, 1);
  CHECK(sigsetmask(0), blocked);
  CHECK(sigblock(1 << (SIGUSR2 - 1)), 0);
  CHECK(sigsetmask(0), 1 << (SIGUSR2 - 1));
  begin_masked(all);
  /* A handler whose mask holds them. */
  action->sa_sigaction = &leave_with_code;
  sigfillset(&action->sa_mask);
  CHECK(sigaction(SIGUSR1, action, NULL), 0);
  seen = 0;
  if (sigsetjmp(back, 1) == 0) raise(SIGUSR1);
  CHECK(seen, SIGUSR1);

  /* The program's own stack for handlers. */
  stack_t* stack = fresh(sizeof *stack);
  stack_t* was = fresh(sizeof *was);
  CHECK(sigaltstack(NULL, was), 0);
  CHECK(was->ss_flags & SS_DISABLE, SS_DISABLE);
  *stack = (stack_t){.ss_sp = fresh(65536), .ss_flags = 0, .ss_size = 65536};
  CHECK(sigaltstack(stack, NULL), 0);
  CHECK(sigaltstack(NULL, was), 0);
  CHECK(was->ss_sp == stack->ss_sp, 1);
  CHECK(was->ss_size, 65536);
  action->sa_flags = SA_SIGINFO | SA_ONSTACK;
  CHECK(sigaction(SIGUSR1, action, NULL), 0);
  CHECK(sigaction(SIGUSR1, NULL, before), 0);
  CHECK(before->sa_flags & SA_ONSTACK, SA_ONSTACK);
  seen = 0;
  if (sigsetjmp(back, 1) == 0) raise(SIGUSR1);
  CHECK(seen, SIGUSR1);
  untouched[20][0] = 1;
  size_t larger = 1 << 20;
  *stack = (stack_t){.ss_flags = 0, .ss_size = larger};
  stack->ss_sp = mmap(NULL, larger, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(sigaltstack(stack, was), 0);
  CHECK(was->ss_size, 65536);
  seen = 0;
  if (sigsetjmp(back, 1) == 0) raise(SIGUSR1);
  CHECK(seen, SIGUSR1);
  untouched[21][0] = 1;
  stack->ss_flags = SS_DISABLE;
  CHECK(sigaltstack(stack, NULL), 0);
  CHECK(munmap(stack->ss_sp, larger), 0);
  untouched[22][0] = 1;
  return report("signals");
}
