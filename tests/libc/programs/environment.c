/* The environment, of a program that names `environ` and so has the C library's variable among its own data.
 */
#define _GNU_SOURCE
#include <unistd.h>

#include "check.h"

static int has(const char* start) {
  for (char** each = environ; *each != NULL; ++each)
    if (strncmp(*each, start, strlen(start)) == 0) return 1;
  return 0;
}

int main(int count, char** words, char** start) {
  (void)count;
  (void)words;
  for (char** each = start; *each != NULL; ++each) {
    CHECK(strncmp(*each, "LD_PRELOAD=", 11) == 0, 0);
    CHECK(strncmp(*each, "CRATON_RANK=", 12) == 0, 0);
  }
  CHECK(has("LD_PRELOAD="), 0);
  CHECK(has("CRATON_CONTROL_FD="), 0);
  CHECK(setenv("GIVEN", "first", 1), 0);
  CHECK(strcmp(getenv("GIVEN"), "first"), 0);
  CHECK(setenv(fresh_text("GIVEN"), fresh_text("second"), 0), 0);
  CHECK(strcmp(getenv("GIVEN"), "first"), 0);
  CHECK(setenv("GIVEN", "third", 1), 0);
  CHECK(strcmp(getenv("GIVEN"), "third"), 0);
  CHECK(has("GIVEN=third"), 1);
  CHECK(has("GIVEN=first"), 0);
  CHECK(unsetenv("GIVEN"), 0);
  CHECK(getenv("GIVEN") == NULL, 1);
  CHECK_ERROR(setenv("A=B", "x", 1), EINVAL);
  CHECK_ERROR(setenv("", "x", 1), EINVAL);
  static char put[] = "PUT=here";
  CHECK(putenv(put), 0);
  CHECK(getenv("PUT") == put + 4, 1);
  put[4] = 'H';
  CHECK(strcmp(getenv("PUT"), "Here"), 0);
  CHECK(putenv("PUT"), 0);
  CHECK(getenv("PUT") == NULL, 1);
  for (int i = 0; i < 200; ++i) {
    char name[20], value[20];
    snprintf(name, sizeof name, "MANY%d", i);
    snprintf(value, sizeof value, "%d", i * i);
    CHECK(setenv(name, value, 1), 0);
  }
#pragma omp parallel
  {
    CHECK(strcmp(getenv("MANY150"), "22500"), 0);
    CHECK(getenv("PATH") != NULL, 1);
  }
  fflush(stdout);
  CHECK(system("test \"$MANY199\" = 39601"), 0);
  CHECK(clearenv(), 0);
  CHECK(getenv("PATH") == NULL, 1);
  CHECK(setenv("PATH", "/bin:/usr/bin", 1), 0);
  CHECK(strcmp(getenv("PATH"), "/bin:/usr/bin"), 0);
  return report("environment");
}
