/* NPB IS: ranks integer keys whose distribution is about Gaussian.
 *
 * RNR-94-007, section 2.2.5. Each thread counts its block of keys in a histogram of its own; then each sums
 * one range of key values over all histograms, and the ranges' totals link the ranges. No atomics, no locks.
 *
 * Memory: keys and counts are static arrays as large as class B, histograms are allocated. Parallel: one
 * region holds all iterations; what NPB lets one thread do between them is a `single`. */
#include "common/npb.h"

enum { most_keys = 1 << 25, most_values = 1 << 21, iterations = 10, tested_keys = 5 };

static const struct {
  int keys_log2, values_log2;
  int places[tested_keys];
  /* The tested key's rank is base + step * iteration. */
  int bases[tested_keys];
  int steps[tested_keys];
} problems[] = {
    {16, 11, {48427, 17148, 23627, 62548, 4431}, {0, 18, 346, 64917, 65463}, {1, 1, 1, -1, -1}},
    {20,
     16,
     {357773, 934767, 875723, 898999, 404505},
     {1247, 11696, 1039987, 1043896, 1048018},
     {1, 1, -1, -1, -1}},
    {23,
     19,
     {2112377, 662041, 5336171, 3642833, 4250760},
     {103, 17522, 123927, 8288933, 8388265},
     {1, 1, 1, -1, -1}},
    {25,
     21,
     {41869, 812306, 5102857, 18232239, 26860214},
     {33422937, 10244, 59149, 33135281, 99},
     {-1, 1, 1, -1, 1}},
};

static int keys[most_keys];
static int sorted[most_keys];
static int not_greater[most_values]; /* keys up to this value */
static int tested[tested_keys];
static int** histograms;  /* one a thread */
static int* range_totals; /* one a thread */

static int range_first(int values, int thread, int threads) {
  return (int)((int64_t)values * thread / threads);
}

static void draw_keys(int key_count, int values) {
#pragma omp parallel
  {
    const int thread = omp_get_thread_num();
    const int threads = omp_get_num_threads();
    const int first = range_first(key_count, thread, threads);
    const int end = range_first(key_count, thread + 1, threads);
    uint64_t state = npb_random_skip(npb_seed, 4 * (uint64_t)first);
    for (int i = first; i < end; ++i) {
      double sum = 0;
      for (int drawn = 0; drawn < 4; ++drawn) sum += npb_random(&state);
      keys[i] = (int)(values / 4 * sum);
    }
  }
}

/* By all threads of a team; the caller's next barrier completes it. */
static void rank_keys(int key_count, int values) {
  const int thread = omp_get_thread_num();
  const int threads = omp_get_num_threads();
  int* const own = histograms[thread];
  memset(own, 0, (size_t)values * sizeof *own);
#pragma omp for schedule(static)
  for (int i = 0; i < key_count; ++i) ++own[keys[i]];

  const int first = range_first(values, thread, threads);
  const int end = range_first(values, thread + 1, threads);
  memcpy(not_greater + first, histograms[0] + first, (size_t)(end - first) * sizeof *not_greater);
  for (int other = 1; other < threads; ++other) {
    const int* const counts = histograms[other];
    for (int value = first; value < end; ++value) not_greater[value] += counts[value];
  }
  int sum = 0;
  for (int value = first; value < end; ++value) not_greater[value] = sum += not_greater[value];
  range_totals[thread] = sum;
#pragma omp barrier
  int before = 0;
  for (int other = 0; other < thread; ++other) before += range_totals[other];
  for (int value = first; value < end; ++value) not_greater[value] += before;
}

/* How many of the tested keys have the rank that they ought to have. */
static int count_right(int class_index, int iteration) {
  int right = 0;
  for (int i = 0; i < tested_keys; ++i) {
    const int expected = problems[class_index].bases[i] + problems[class_index].steps[i] * iteration;
    const int found = not_greater[tested[i] - 1];
    if (found == expected) ++right;
    if (found != expected) printf("  iteration %d: rank %d, expected %d\n", iteration, found, expected);
  }
  return right;
}

/* One iteration; returns how many tested ranks are right, to one thread. */
static int iterate(int class_index, int iteration) {
  const int key_count = 1 << problems[class_index].keys_log2;
  const int values = 1 << problems[class_index].values_log2;
  int right = 0;
#pragma omp single
  {
    keys[iteration] = iteration;
    keys[iteration + iterations] = values - iteration;
    for (int i = 0; i < tested_keys; ++i) tested[i] = keys[problems[class_index].places[i]];
  }
  rank_keys(key_count, values);
#pragma omp barrier
#pragma omp single
  right = count_right(class_index, iteration);
  return right;
}

/* Sorts by the ranks; returns how many keys are out of order or lost. */
static int64_t count_wrong(int key_count, int values) {
  int64_t wrong = 0;
  int64_t sum_difference = 0;
#pragma omp parallel
  {
    /* Histograms become the places at which a thread's keys of a value begin. */
#pragma omp for schedule(static)
    for (int value = 0; value < values; ++value) {
      int place = value == 0 ? 0 : not_greater[value - 1];
      for (int thread = 0; thread < omp_get_num_threads(); ++thread) {
        const int count = histograms[thread][value];
        histograms[thread][value] = place;
        place += count;
      }
    }
    int* const places = histograms[omp_get_thread_num()];
#pragma omp for schedule(static)
    for (int i = 0; i < key_count; ++i) sorted[places[keys[i]]++] = keys[i];
#pragma omp for schedule(static) reduction(+ : wrong, sum_difference)
    for (int i = 0; i < key_count; ++i) {
      if (i > 0 && sorted[i - 1] > sorted[i]) ++wrong;
      sum_difference += keys[i] - sorted[i];
    }
  }
  return wrong + llabs(sum_difference);
}

int main(int argc, char** argv) {
  const int class_index = npb_class(argc, argv);
  const int key_count = 1 << problems[class_index].keys_log2;
  const int values = 1 << problems[class_index].values_log2;
  const int most_threads = omp_get_max_threads();
  histograms = npb_allocate((size_t)most_threads, sizeof *histograms);
  range_totals = npb_allocate((size_t)most_threads, sizeof *range_totals);
  for (int thread = 0; thread < most_threads; ++thread) {
    histograms[thread] = npb_allocate((size_t)values, sizeof **histograms);
  }
  draw_keys(key_count, values);

  double start = 0;
  int right = 0;
#pragma omp parallel reduction(+ : right)
  {
    (void)iterate(class_index, 1); /* not timed: touches all pages */
#pragma omp single
    start = omp_get_wtime();
    for (int iteration = 1; iteration <= iterations; ++iteration) right += iterate(class_index, iteration);
  }
  const double seconds = omp_get_wtime() - start;

  const int64_t wrong = count_wrong(key_count, values);
  printf("  %d of %d tested ranks are right; sorted by their ranks, %lld keys are wrong\n", right,
         tested_keys * iterations, (long long)wrong);
  const bool verified = right == tested_keys * iterations && wrong == 0;
  for (int thread = 0; thread < most_threads; ++thread) free(histograms[thread]);
  free(histograms);
  free(range_totals);
  return npb_report("IS", class_index, iterations, seconds, 1e-6 * iterations * key_count, verified);
}
