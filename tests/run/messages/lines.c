/// \file
/// Writes more lines than a buffer holds, from all threads at once, with nothing that orders them.
#include <omp.h>
#include <stdio.h>
#include <string.h>

enum { lines = 4000 };

int main(void) {
  printf("begin\n");
#pragma omp parallel
  {
    char text[800];
    memset(text, 'a' + omp_get_thread_num(), sizeof text);
    for (int i = 0; i < lines; ++i) {
      const int bytes = 1 + (i * 37) % 799;
      if (i % 2 == 0) {
        printf("%.*s\n", bytes, text);
      } else {
        text[bytes] = '\n';
        fwrite(text, 1, (size_t)bytes + 1, stdout);
        text[bytes] = text[0];
      }
    }
  }
  printf("end\n");
  return 0;
}
