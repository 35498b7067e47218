/// \file
/// Numbers of descriptors that the program chooses, as shells and daemons do: none of them is in use,
/// whatever the runtime has open.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "check.h"

enum { highest = 400, chosen = 4 };

static long region(void) {
  long sum = 0;
#pragma omp parallel for reduction(+ : sum)
  for (int i = 0; i < 20000; ++i) {
    take_part();
    sum += i;
  }
  return sum;
}

int main(void) {
  check_int("before", region());
  const int file = open("/dev/zero", O_RDONLY);
  int got = 0;
  for (int number = 3; number < 3 + chosen; ++number) {
    if (number != file) got += dup2(file, number) == number;
  }
  check_int("chosen", got >= chosen - 1);
  check_int("with what has been chosen", region());
  char byte = 1;
  check_int("what can be read there", read(3, &byte, 1));
  check_int("which is", byte);
  for (int number = 3; number < highest; ++number) close(number);
  errno = 0;
  check_int("closed", read(3, &byte, 1));
  check_int("as it is said", errno);
  check_int("with all closed", region());
  check_int("lowest", open("/dev/zero", O_RDONLY));
  check_int("opened behind", dup2(3, 200));
  closefrom(4);
  check_int("closed behind", read(200, &byte, 1));
  check_int("before it", read(3, &byte, 1));
  check_int("and then", region());
  return finish();
}
