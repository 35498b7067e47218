/* What the torture programs change: words of all sizes next to each other, each of them with its own sum.
   Plain types; the programs see them as atomic ones. The test that runs the programs reads them. */
#ifndef CRATON_TORTURE_WORDS_H
#define CRATON_TORTURE_WORDS_H

#ifdef __cplusplus
extern "C" {
#endif

__extension__ typedef unsigned __int128 word16;

typedef struct {
  unsigned char c1[4];
  unsigned short c2[4];
  unsigned c4[4];
  unsigned long c8[4];
  word16 c16[4];
  float f;
  double d;
  long double ld;
  struct {
    unsigned char bytes[3];
  } odd; /* no instruction has this size */
} torture_words;

/* Thread `thread` of `threads` (at most 8) does everything `rounds` times, from words that are zero. */
typedef void torture_program(torture_words* words, int thread, int threads, int rounds);
torture_program torture_c11;
torture_program torture_cpp;
torture_program torture_openmp;
torture_program torture_locks;

#ifdef __cplusplus
}
#endif
#endif
