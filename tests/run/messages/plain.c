/// \file
/// A program without OpenMP.
#include <stdio.h>

int main(void) {
  puts("hello");
  return 0;
}
