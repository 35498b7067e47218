/* Heat spreads over a square plate whose edges are cold: a plain OpenMP program.
 *
 *   gcc -O2 -fopenmp heat.c -lm && ./a.out
 *
 * Arguments: points on a side (1024), steps (500). The plate begins with a hump, sin(pi x) sin(pi y), which
 * only shrinks: what is left of it is known to the last digits. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static const double pi = 3.14159265358979323846;

static double now_s(void) {
  struct timespec now;
  timespec_get(&now, TIME_UTC);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

int main(int argc, char** argv) {
  const long points = argc > 1 ? strtol(argv[1], NULL, 10) : 1024;
  const long steps = argc > 2 ? strtol(argv[2], NULL, 10) : 500;
  if (argc > 3 || points < 3 || points > 65536 || steps < 1) {
    fprintf(stderr, "%s: the arguments are points on a side, 3 to 65536, and steps\n", argv[0]);
    return 2;
  }
  double* now = malloc((size_t)(points * points) * sizeof *now);
  double* next = malloc((size_t)(points * points) * sizeof *next);
  if (now == NULL || next == NULL) {
    fprintf(stderr, "%s: there is no memory for 2 times %ld points\n", argv[0], points * points);
    return 1;
  }
  const double spacing = 1 / (double)(points - 1);
  double worst = 0;
  int threads = 0;

  const double start_s = now_s();
#pragma omp parallel firstprivate(now, next) reduction(+ : threads) reduction(max : worst)
  {
    threads = 1;
#pragma omp for schedule(static)
    for (long row = 0; row < points; ++row) {
      for (long column = 0; column < points; ++column) {
        const int edge = row == 0 || column == 0 || row == points - 1 || column == points - 1;
        const double hump = sin(pi * (double)row * spacing) * sin(pi * (double)column * spacing);
        now[row * points + column] = next[row * points + column] = edge ? 0 : hump;
      }
    }
    for (long step = 0; step < steps; ++step) {
#pragma omp for schedule(static)
      for (long row = 1; row < points - 1; ++row) {
        for (long at = row * points + 1; at < (row + 1) * points - 1; ++at) {
          next[at] = (now[at - points] + now[at - 1] + now[at + 1] + now[at + points]) / 4;
        }
      }
      double* const swapped = now;
      now = next;
      next = swapped;
    }
    const double left = pow(cos(pi * spacing), (double)steps);
#pragma omp for schedule(static)
    for (long row = 0; row < points; ++row) {
      for (long column = 0; column < points; ++column) {
        const double hump = sin(pi * (double)row * spacing) * sin(pi * (double)column * spacing);
        worst = fmax(worst, fabs(now[row * points + column] - left * hump));
      }
    }
  }
  const double seconds = now_s() - start_s;

  /* A step is a quarter of the spacing's square in time. */
  const double time = (double)steps * spacing * spacing / 4;
  printf(
      "  %.9f of the hump is left; in continuous time and space it were %.9f; no point is off by more than "
      "%.1e\n",
      pow(cos(pi * spacing), (double)steps), exp(-2 * pi * pi * time), worst);
  printf("heat %ld x %ld points, %ld steps: %d threads, %.3f s\n", points, points, steps, threads, seconds);
  const int verified = worst <= 1e-12;
  puts(verified ? "VERIFICATION SUCCESSFUL" : "VERIFICATION FAILED");
  free(now);
  free(next);
  return verified ? 0 : 1;
}
