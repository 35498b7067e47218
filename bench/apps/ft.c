/* NPB FT: a diffusion equation, solved by Fourier transforms in three dimensions.
 *
 * RNR-94-007, section 2.2.4. Point (i, j, k) is at i + nx (j + ny k). Transforms along i and j stay within a
 * plane k; those along k gather whole columns from all planes, which is where the data crosses between
 * threads.
 *
 * Memory: two grids, allocated by class, and per thread two small buffers that eight lines at a time pass
 * through. Parallel: one region holds all; planes k, then rows j, go in static blocks. */
#include "common/npb.h"

enum { lines = 8, most_length = 512, most_iterations = 20, samples = 1024 };

typedef struct {
  double re, im;
} complex_number;

static const struct {
  int sides[3];
  int iterations;
  complex_number checksums[most_iterations];
} problems[] = {
    {{64, 64, 64},
     6,
     {{5.546087004964E+02, 4.845363331978E+02},
      {5.546385409189E+02, 4.865304269511E+02},
      {5.546148406171E+02, 4.883910722336E+02},
      {5.545423607415E+02, 4.901273169046E+02},
      {5.544255039624E+02, 4.917475857993E+02},
      {5.542683411902E+02, 4.932597244941E+02}}},
    {{128, 128, 32},
     6,
     {{5.673612178944E+02, 5.293246849175E+02},
      {5.631436885271E+02, 5.282149986629E+02},
      {5.594024089970E+02, 5.270996558037E+02},
      {5.560698047020E+02, 5.260027904925E+02},
      {5.530898991250E+02, 5.249400845633E+02},
      {5.504159734538E+02, 5.239212247086E+02}}},
    {{256, 256, 128},
     6,
     {{5.046735008193E+02, 5.114047905510E+02},
      {5.059412319734E+02, 5.098809666433E+02},
      {5.069376896287E+02, 5.098144042213E+02},
      {5.077892868474E+02, 5.101336130759E+02},
      {5.085233095391E+02, 5.104914655194E+02},
      {5.091487099959E+02, 5.107917842803E+02}}},
    {{512, 256, 256},
     20,
     {{5.177643571579E+02, 5.077803458597E+02}, {5.154521291263E+02, 5.088249431599E+02},
      {5.146409228649E+02, 5.096208912659E+02}, {5.142378756213E+02, 5.101023387619E+02},
      {5.139626667737E+02, 5.103976610617E+02}, {5.137423460082E+02, 5.105948019802E+02},
      {5.135547056878E+02, 5.107404165783E+02}, {5.133910925466E+02, 5.108576573661E+02},
      {5.132470705390E+02, 5.109577278523E+02}, {5.131197729984E+02, 5.110460304483E+02},
      {5.130070319283E+02, 5.111252433800E+02}, {5.129070537032E+02, 5.111968077718E+02},
      {5.128182883502E+02, 5.112616233064E+02}, {5.127393733383E+02, 5.113203605551E+02},
      {5.126691062020E+02, 5.113735928093E+02}, {5.126064276004E+02, 5.114218460548E+02},
      {5.125504076570E+02, 5.114656139760E+02}, {5.125002331720E+02, 5.115053595966E+02},
      {5.124551951846E+02, 5.115415130407E+02}, {5.124146770029E+02, 5.115744692211E+02}}},
};

static const double pi = 3.14159265358979323846;
static const double diffusivity = 1e-6;

static int nx, ny, nz;
static complex_number* spectrum; /* of the initial state */
static complex_number* grid;
static complex_number roots[most_length / 2]; /* exp(2 pi i m / most_length) */
static double checksum_re, checksum_im;

static size_t point(int i, int j, int k) {
  return (size_t)i + (size_t)nx * ((size_t)j + (size_t)ny * (size_t)k);
}

/* Transforms the `lines` sequences of `from`, element-wise beside each other, by Stockham's algorithm; `sign`
 * is that of the exponent. Returns where the result is: `from` or `scratch`. */
static complex_number* transform(complex_number* from, complex_number* scratch, int length, double sign) {
  int stride = lines;
  for (int left = length; left > 1; left /= 2, stride *= 2) {
    for (int m = 0; m < left / 2; ++m) {
      const complex_number root = roots[m * (most_length / left)];
      const double root_im = sign * root.im;
      const complex_number* const low = from + (size_t)m * (size_t)stride;
      const complex_number* const high = low + (size_t)(left / 2) * (size_t)stride;
      complex_number* const even = scratch + 2 * (size_t)m * (size_t)stride;
      complex_number* const odd = even + stride;
      for (int at = 0; at < stride; ++at) {
        const double re = low[at].re - high[at].re;
        const double im = low[at].im - high[at].im;
        even[at].re = low[at].re + high[at].re;
        even[at].im = low[at].im + high[at].im;
        odd[at].re = re * root.re - im * root_im;
        odd[at].im = re * root_im + im * root.re;
      }
    }
    complex_number* const swapped = from;
    from = scratch;
    scratch = swapped;
  }
  return from;
}

/* Transforms `lines` sequences of the grid: elements are `step` apart, the sequences `across`. */
static void transform_lines(complex_number* values, int length, size_t step, size_t across, double sign,
                            complex_number* buffers) {
  for (int element = 0; element < length; ++element) {
    for (int line = 0; line < lines; ++line) {
      buffers[element * lines + line] = values[(size_t)element * step + (size_t)line * across];
    }
  }
  const complex_number* const result = transform(buffers, buffers + most_length * lines, length, sign);
  for (int element = 0; element < length; ++element) {
    for (int line = 0; line < lines; ++line) {
      values[(size_t)element * step + (size_t)line * across] = result[element * lines + line];
    }
  }
}

static void transform_planes(complex_number* values, double sign, complex_number* buffers) {
#pragma omp for schedule(static)
  for (int k = 0; k < nz; ++k) {
    for (int j = 0; j < ny; j += lines) {
      transform_lines(values + point(0, j, k), nx, 1, (size_t)nx, sign, buffers);
    }
    for (int i = 0; i < nx; i += lines) {
      transform_lines(values + point(i, 0, k), ny, (size_t)nx, 1, sign, buffers);
    }
  }
}

static void transform_columns(complex_number* values, double sign, complex_number* buffers) {
#pragma omp for schedule(static)
  for (int j = 0; j < ny; ++j) {
    for (int i = 0; i < nx; i += lines) {
      transform_lines(values + point(i, j, 0), nz, (size_t)nx * (size_t)ny, 1, sign, buffers);
    }
  }
}

static void draw_state(void) {
#pragma omp for schedule(static)
  for (int k = 0; k < nz; ++k) {
    uint64_t seed = npb_random_skip(npb_seed, 2 * (uint64_t)point(0, 0, k));
    for (size_t at = point(0, 0, k); at < point(0, 0, k + 1); ++at) {
      spectrum[at].re = npb_random(&seed);
      spectrum[at].im = npb_random(&seed);
    }
  }
}

/* exp(-4 pi^2 diffusivity n^2 time) for the wave numbers n of one side. */
static void decay(int side, int time, double* factors) {
  for (int i = 0; i < side; ++i) {
    const double wave = i < side / 2 ? i : i - side;
    factors[i] = exp(-4 * pi * pi * diffusivity * wave * wave * time);
  }
}

/* The grid becomes the spectrum after that time. */
static void evolve(int time) {
  double along_x[most_length], along_y[most_length], along_z[most_length];
  decay(nx, time, along_x);
  decay(ny, time, along_y);
  decay(nz, time, along_z);
#pragma omp for schedule(static)
  for (int k = 0; k < nz; ++k) {
    for (int j = 0; j < ny; ++j) {
      const double row_factor = along_y[j] * along_z[k];
      const complex_number* const from = spectrum + point(0, j, k);
      complex_number* const to = grid + point(0, j, k);
      for (int i = 0; i < nx; ++i) {
        to[i].re = from[i].re * (row_factor * along_x[i]);
        to[i].im = from[i].im * (row_factor * along_x[i]);
      }
    }
  }
}

static void sum_samples(complex_number* checksum) {
#pragma omp single
  checksum_re = checksum_im = 0;
#pragma omp for schedule(static) reduction(+ : checksum_re, checksum_im)
  for (int sample = 1; sample <= samples; ++sample) {
    const complex_number value = grid[point(sample % nx, 3 * sample % ny, 5 * sample % nz)];
    checksum_re += value.re;
    checksum_im += value.im;
  }
#pragma omp single
  {
    const double points = (double)point(0, 0, nz);
    checksum->re = checksum_re / points;
    checksum->im = checksum_im / points;
  }
}

/* By all threads of a team. */
static void run(int iterations, complex_number* checksums) {
  complex_number* const buffers = npb_allocate(2 * most_length * lines, sizeof *buffers);
  draw_state();
  transform_planes(spectrum, -1, buffers);
  transform_columns(spectrum, -1, buffers);
  for (int iteration = 1; iteration <= iterations; ++iteration) {
    evolve(iteration);
    transform_columns(grid, 1, buffers);
    transform_planes(grid, 1, buffers);
    sum_samples(&checksums[iteration - 1]);
  }
  free(buffers);
}

int main(int argc, char** argv) {
  const int class_index = npb_class(argc, argv);
  const int iterations = problems[class_index].iterations;
  nx = problems[class_index].sides[0];
  ny = problems[class_index].sides[1];
  nz = problems[class_index].sides[2];
  for (int m = 0; m < most_length / 2; ++m) {
    roots[m].re = cos(2 * pi * m / most_length);
    roots[m].im = sin(2 * pi * m / most_length);
  }
  const size_t points = point(0, 0, nz);
  spectrum = npb_allocate(points, sizeof *spectrum);
  grid = npb_allocate(points, sizeof *grid);
  complex_number checksums[most_iterations];

  double start = 0;
#pragma omp parallel
  {
    run(1, checksums); /* not timed: touches all pages */
#pragma omp single
    start = omp_get_wtime();
    run(iterations, checksums);
  }
  const double seconds = omp_get_wtime() - start;

  bool verified = true;
  for (int iteration = 0; iteration < iterations; ++iteration) {
    const complex_number expected = problems[class_index].checksums[iteration];
    const complex_number found = checksums[iteration];
    const double difference =
        hypot(found.re - expected.re, found.im - expected.im) / hypot(expected.re, expected.im);
    const bool matches = difference <= 1e-12;
    printf("  checksum %2d (%.12e, %.12e), expected (%.12e, %.12e), relative difference %.1e%s\n",
           iteration + 1, found.re, found.im, expected.re, expected.im, difference,
           matches ? "" : " TOO MUCH");
    verified &= matches;
  }
  free(spectrum);
  free(grid);
  const double count = (double)points;
  const double operations =
      count * (14.8157 + 7.19641 * log(count) + (5.23518 + 7.21113 * log(count)) * iterations);
  return npb_report("FT", class_index, iterations, seconds, operations * 1e-6, verified);
}
