/* Loops of one atomic operation each, in an object of their own that is loaded twice: patched, and as it is.
 */
#ifndef CRATON_BENCH_ATOMICS_OPERATIONS_H
#define CRATON_BENCH_ATOMICS_OPERATIONS_H

#ifdef __cplusplus
extern "C" {
#endif

/* Does it `times` times on the word. */
typedef void operation_loop(unsigned long* word, long times);
operation_loop bench_add, bench_fetch_add, bench_exchange, bench_compare_exchange, bench_increment_trapped,
    bench_fence;

#ifdef __cplusplus
}
#endif
#endif
