/* signals HOW: prints "ready"; then prints the name of each of SIGUSR1, SIGUSR2, SIGWINCH, SIGINT and SIGTERM
 * that comes. obey: ends with 0 on SIGINT or SIGTERM; stubborn: never ends */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char** argv) {
  const int stubborn = argc > 1 && strcmp(argv[1], "stubborn") == 0;
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGUSR1);
  sigaddset(&set, SIGUSR2);
  sigaddset(&set, SIGWINCH);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &set, NULL);
  puts("ready");
  fflush(stdout);
  for (;;) {
    int number = 0;
    if (sigwait(&set, &number) != 0) return 2;
    printf("%s\n", number == SIGUSR1    ? "USR1"
                   : number == SIGUSR2  ? "USR2"
                   : number == SIGWINCH ? "WINCH"
                   : number == SIGINT   ? "INT"
                                        : "TERM");
    fflush(stdout);
    /* Not by exit: the leak checker of address sanitizer attaches to the process there, and waits for ever
     * where a SIGCONT, which timeout(1) sends after SIGTERM, takes the stop away that it waits for. */
    if (!stubborn && (number == SIGINT || number == SIGTERM)) _exit(0);
  }
}
