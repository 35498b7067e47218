/**
 * \file
 * Programs as somebody would write them for the space, in C against its C interface. Each is collective: all
 * ranks call it with the same arguments. What it computes it checks.
 */
#ifndef CRATON_BENCH_SPACE_KERNELS_H
#define CRATON_BENCH_SPACE_KERNELS_H

#include <craton/space.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Called on each rank, between two barriers, where the iterations that count begin and end. */
struct kernel_marks {
  void* context;
  void (*begin)(void* context);
  void (*end)(void* context);
};

/** Iterations before the first that counts: what prefetching and hot blocks need to learn. */
enum { kernel_warm_iterations = 3 };

/** What a kernel tells of itself. */
struct kernel_report {
  int correct;            /**< on this rank */
  double exchanged_bytes; /**< an iteration, all ranks together, if the program sent messages by hand */
};

/**
 * \param options of the segment; `bytes` is the kernel's own to set
 * \param iterations that count
 */
typedef void kernel(const craton_segment_options* options, int iterations, const struct kernel_marks* marks,
                    struct kernel_report* report);

kernel conjugate_gradient; /**< of a random sparse symmetric matrix; the vector is needed everywhere */
kernel stencil;            /**< 7 points, Jacobi, 64 x 64 x 64; slabs */
kernel matrix_product;     /**< 256 x 256; rows; one factor is needed everywhere and changes */
kernel bucket_sort;        /**< 131072 keys of 32 bits; all to all */

/** A segment of so many bytes; ends the process with a text if there is none. */
void* kernel_segment(const craton_segment_options* options, size_t bytes);
/** The barrier; ends the process with a text if it cannot be passed. */
void kernel_barrier(uint32_t site);

#ifdef __cplusplus
}
#endif

#endif
