/* NPB EP, "embarrassingly parallel": pairs of Gaussian deviates, counted in square annuli.
 *
 * RNR-94-007, section 2.2.1. Batches of 2^16 pairs, each of which jumps to its own place in the random
 * sequence. All that threads share is the reduction at the end, of scalars and an array. */
#include "common/npb.h"

enum { batch_log2 = 16, batch_pairs = 1 << batch_log2, annuli = 10 };

static const struct {
  int pairs_log2;
  double sum_x, sum_y, accepted; /* reference values */
} problems[] = {
    {24, -3.247834652034740e+3, -6.958407078382297e+3, 13176389},
    {25, -2.863319731645753e+3, -6.320053679109499e+3, 26354769},
    {28, -4.295875165629892e+3, -1.580732573678431e+4, 210832767},
    {30, 4.033815542441498e+4, -2.660669192809235e+4, 843345606},
};

int main(int argc, char** argv) {
  const int class_index = npb_class(argc, argv);
  const int batches = 1 << (problems[class_index].pairs_log2 - batch_log2);
  double sum_x = 0;
  double sum_y = 0;
  double counts[annuli] = {0};

  const double start = omp_get_wtime();
#pragma omp parallel for schedule(static) reduction(+ : sum_x, sum_y, counts[:annuli])
  for (int batch = 0; batch < batches; ++batch) {
    uint64_t state = npb_random_skip(271828183, (uint64_t)batch * (2 * batch_pairs));
    for (int pair = 0; pair < batch_pairs; ++pair) {
      const double x = 2 * npb_random(&state) - 1;
      const double y = 2 * npb_random(&state) - 1;
      const double square = x * x + y * y;
      if (square > 1) continue;
      const double factor = sqrt(-2 * log(square) / square);
      const double deviate_x = x * factor;
      const double deviate_y = y * factor;
      counts[(int)fmax(fabs(deviate_x), fabs(deviate_y))] += 1;
      sum_x += deviate_x;
      sum_y += deviate_y;
    }
  }
  const double seconds = omp_get_wtime() - start;

  double accepted = 0;
  for (int annulus = 0; annulus < annuli; ++annulus) {
    printf("  %d <= max(|X|, |Y|) < %-2d %12.0f pairs\n", annulus, annulus + 1, counts[annulus]);
    accepted += counts[annulus];
  }
  bool verified = npb_matches("sum of X", sum_x, problems[class_index].sum_x, 1e-8);
  verified &= npb_matches("sum of Y", sum_y, problems[class_index].sum_y, 1e-8);
  verified &= npb_matches("pairs", accepted, problems[class_index].accepted, 0);
  return npb_report("EP", class_index, batches, seconds, ldexp(1e-6, problems[class_index].pairs_log2 + 1),
                    verified);
}
