/* Programs that the program starts: none of them is a rank. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

static char* const no_environment[] = {"ONLY=this", NULL};

static int ended(pid_t child) {
  int* status = fresh(sizeof *status);
  if (waitpid(child, status, 0) != child) return -1;
  return WIFEXITED(*status) ? WEXITSTATUS(*status) : 128 + WTERMSIG(*status);
}

int main(int count, char** words) {
  if (count > 1) return strcmp(words[1], "child") == 0 && words[2] != NULL ? 21 : 22;
  CHECK(setenv("MADE", "yes", 1), 0);
  CHECK(WEXITSTATUS(system(fresh_text("test \"$MADE\" = yes && test -z \"$LD_PRELOAD\" && exit 4"))), 4);
  CHECK(system("env | grep -q -E '^(LD_PRELOAD|LD_BIND_NOW|CRATON_(RANK|SIZE|CONTROL_FD|SHARED))='") != 0, 1);
  FILE* from = popen(fresh_text("echo $MADE; test -z \"$CRATON_RANK\" && echo alone"), fresh_text("r"));
  char* text = fresh(100);
  CHECK(fread(text, 1, 100, from), 10);
  CHECK(memcmp(text, "yes\nalone\n", 10), 0);
  CHECK(pclose(from), 0);

  char** arguments = fresh(4 * sizeof *arguments);
  arguments[0] = fresh_text(words[0]);
  arguments[1] = fresh_text("child");
  arguments[2] = fresh_text("more");
  arguments[3] = NULL;
  pid_t* child = fresh(sizeof *child);
  CHECK(posix_spawn(child, fresh_text(words[0]), NULL, NULL, arguments, environ), 0);
  CHECK(ended(*child), 21); /* itself, by itself */
  static posix_spawn_file_actions_t actions;
  static posix_spawnattr_t attributes;
  CHECK(posix_spawn_file_actions_init(&actions), 0);
  CHECK(posix_spawnattr_init(&attributes), 0);
  CHECK(posix_spawn_file_actions_addopen(&actions, 1, fresh_text("/dev/null"), O_WRONLY, 0), 0);
  arguments[0] = fresh_text("sh");
  arguments[1] = fresh_text("-c");
  arguments[2] = fresh_text("echo hidden; test \"$ONLY\" = this && exit 23");
  CHECK(posix_spawnp(child, fresh_text("sh"), &actions, &attributes, arguments, no_environment), 0);
  CHECK(ended(*child), 23);
  CHECK(posix_spawn(child, fresh_text("/no/such/program"), NULL, NULL, arguments, environ), ENOENT);

  pid_t forked = vfork();
  if (forked == 0) {
    execv("/bin/sh", arguments);
    _exit(1);
  }
  CHECK(ended(forked), 1); /* ONLY is not set there */
  forked = vfork();
  if (forked == 0) {
    execlp("sh", "sh", "-c", "exit 24", (char*)NULL);
    _exit(1);
  }
  CHECK(ended(forked), 24);
  forked = vfork();
  if (forked == 0) {
    execle("/bin/sh", "sh", "-c", "test \"$ONLY\" = this && exit 25", (char*)NULL, no_environment);
    _exit(1);
  }
  CHECK(ended(forked), 25);
  return report("children");
}
