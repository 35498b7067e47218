/**
 * \file space.h
 * Craton: the coherent space. Memory that all ranks load and store at the same addresses, and what their
 * threads meet at: barriers, mutexes, atomic words, a shared heap. The C interface, C99; needs craton_init.
 *
 *     craton_init ─▶ craton_space_open ─▶ craton_segment_create, craton_alloc, ... ─▶ craton_finalize
 *
 * What a program may rely on: release consistency. It must have no data races, as in C11 and C++11: two
 * threads that use the same bytes, one of them writing, do so on two sides of a craton_space_barrier, inside
 * the same craton_mutex, or by craton_atomic functions. Then every load gives what it would give on one
 * machine. Two ranks may write different bytes of a block at the same time; none is lost. Other ways of the
 * program to say "now" (files, sockets, craton_barrier, C atomics on such memory) order nothing between
 * ranks; inside a rank everything is as usual. Segments can promise more: craton_strength, and
 * craton_segment_options.causal.
 *
 * Faults. A first touch is a page fault that Craton serves, on the thread that touches. It may wait for other
 * ranks. System calls that are given such memory which is not there yet fail with EFAULT: touch it before.
 * Touching memory of the space when a rank has died ends the process.
 *
 * Threads, errors, blocking: as in craton.h. "Collective" means: one thread of every rank calls it, in the
 * same order as all other collective calls. Two further statuses of all functions: CRATON_NOT_INITIALISED
 * before craton_init and after craton_finalize, CRATON_INVALID_ARGUMENT while the space is not open.
 *
 * Fork. A child has none of this memory: a touch of it is a segmentation fault, and the functions give
 * CRATON_NOT_SUPPORTED there.
 *
 * Source: W. Endo, MENPS, dissertation, chapter 3.
 */
#ifndef CRATON_SPACE_H
#define CRATON_SPACE_H

#include <craton/craton.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- The space */

/** Start from CRATON_SPACE_OPTIONS_INIT, then change what you want. Zero means the default of each. */
/* NOLINTNEXTLINE(readability-identifier-naming): the C boundary has one case for all */
typedef struct craton_space_options {
  size_t size;            /**< sizeof(craton_space_options): later versions add fields at the end */
  unsigned threads;       /**< of this rank that take part in craton_space_barrier; 1. May differ by rank */
  unsigned mutexes;       /**< how many craton_mutex_create can give; 65536. At most 1048576 */
  size_t notice_capacity; /**< write notices in a signature; the option notice-capacity */
  size_t heap_bytes;      /**< of craton_alloc; the option heap-bytes. Costs nothing until it is used */
  const char* mechanism;  /**< of faults: "auto", "userfaultfd", "mprotect"; the option vm-mechanism */
} craton_space_options;

#define CRATON_SPACE_OPTIONS_INIT \
  { sizeof(craton_space_options), 0, 0, 0, 0, NULL }

/**
 * Opens the space of the job. Collective, once; a program that never calls it pays nothing for it. Blocks.
 * The calling thread is entered as by craton_thread_enter, until craton_finalize, which closes the space.
 * \param options NULL: all defaults. All but `threads` must be the same on all ranks
 * \return CRATON_INVALID_ARGUMENT for a second call, for what is out of limits and where ranks differ;
 *   CRATON_OUT_OF_RESOURCES, CRATON_NOT_SUPPORTED (the mechanism), CRATON_PEER_LOST
 */
CRATON_API craton_status craton_space_open(const craton_space_options* options);

/** 1 from craton_space_open to craton_finalize, else 0. Does not block. */
CRATON_API int craton_space_is_open(void);

/** How faults are caught: "userfaultfd" or "mprotect"; NULL while no space is open. Does not block. */
CRATON_API const char* craton_space_mechanism(void);

/**
 * Waits for all threads of all ranks: of each rank as many as craton_space_options.threads says. What any of
 * them wrote before it, all see after it. Blocks. Not the same as craton_barrier, which is for one thread a
 * rank and says nothing about memory.
 * \param site where in the program it is, any number that is the same on all ranks and differs from those of
 *   other places: prefetching learns for each place apart. 0 will do
 * \return CRATON_PEER_LOST: then no barrier can be passed any more
 */
CRATON_API craton_status craton_space_barrier(uint32_t site);

/**
 * Reads a counter of this rank. Any thread; does not block. The names are those of --stats=json, as
 * "read_faults", "fetched_bytes", "fault_ns".
 * \return CRATON_NOT_FOUND if there is none of that name
 */
CRATON_API craton_status craton_space_count(const char* counter, uint64_t* value);

/* ---- Segments */

/** Where the merged bytes of a block are (dissertation, section 3.4.2). */
typedef enum craton_home {
  CRATON_HOME_FLOATING = 0, /**< with the rank that released last */
  CRATON_HOME_FIXED = 1     /**< where they were at first; needs CRATON_RELEASE_PLAIN */
} craton_home;

/** How copies are found that a release has made old. */
typedef enum craton_invalidation {
  CRATON_INVALIDATION_LEASES = 0,   /**< by the reader, from leases and write notices (section 3.4.5) */
  CRATON_INVALIDATION_DIRECTORY = 1 /**< by the releaser, which tells every sharer (section 3.4.3) */
} craton_invalidation;

/** What a release does with blocks that are open for writing. */
typedef enum craton_release {
  CRATON_RELEASE_FAST = 0, /**< they stay open (section 3.4.6) */
  CRATON_RELEASE_PLAIN = 1 /**< they are closed: the next write faults */
} craton_release;

/** Which rank is the home of each block at first. There is no first touch: with floating homes the home is
 * with the first rank that releases a write anyway. */
typedef enum craton_placement {
  CRATON_PLACEMENT_CYCLIC = 0,  /**< block i at rank i modulo the number of ranks */
  CRATON_PLACEMENT_BLOCKED = 1, /**< as many consecutive blocks at each rank */
  CRATON_PLACEMENT_ONE = 2      /**< all at home_rank */
} craton_placement;

/** What programs with data races may rely on in a block. */
typedef enum craton_strength {
  CRATON_STRENGTH_RELEASE = 0,  /**< nothing: only what barriers, mutexes and craton_atomic order */
  CRATON_STRENGTH_STRONG = 1,   /**< one rank at a time writes it, so all accesses have one order. Each change
                                   of   the rank that writes costs about as much as two faults */
  CRATON_STRENGTH_AUTOMATIC = 2 /**< strong from a craton_atomic call on it until none has come for 0.1 s */
} craton_strength;

/** The longest name of a segment, without its zero. */
#define CRATON_SEGMENT_NAME_MAX 200

/** Start from CRATON_SEGMENT_OPTIONS_INIT, which holds the defaults that are named here. */
/* NOLINTNEXTLINE(readability-identifier-naming) */
typedef struct craton_segment_options {
  size_t size;        /**< sizeof(craton_segment_options): later versions add fields at the end */
  const char* name;   /**< for reports, of up to CRATON_SEGMENT_NAME_MAX bytes; NULL: "segment" */
  size_t bytes;       /**< rounded up to whole blocks; 0, which must be changed */
  size_t block_bytes; /**< what is sent at once; whole pages, 4 KiB to 4 MiB; 4096 */
  craton_home home;
  craton_invalidation invalidation;
  craton_release release;
  craton_placement placement;
  int home_rank;  /**< with CRATON_PLACEMENT_ONE; 0 */
  uint64_t lease; /**< by how much readers extend leases, in logical time; 16 */
  int hot_blocks; /**< 1: blocks that are written again and again stay open, see section 3.4.6; 1 */
  int prefetch;   /**< 1: blocks that were read after earlier barriers are fetched by the barrier; 1 */
  craton_strength strength; /**< CRATON_STRENGTH_AUTOMATIC */
  int causal; /**< 1: data, then a flag, by plain stores, is right without anything between, as long as both
                 lie in such segments (not in what is pinned): who finds the flag finds the data. Something
                 must make the flag move: the option heartbeat does. Needs CRATON_HOME_FLOATING, and works as
                 with CRATON_RELEASE_PLAIN. Each fault that fetches asks all ranks. 0 */
  int sole_copies; /**< 1: a block that no other rank has asked for since it was released costs its home
                      nothing more; with CRATON_INVALIDATION_LEASES, and either hot_blocks and
                      CRATON_RELEASE_FAST or causal and the option heartbeat; 1 */
  int migration;   /**< 1: a block that ranks write one after the other comes with its home when it is
                      acquired to be written, and is copied once; with sole_copies and prefetch, not if causal;
                      1 */
} craton_segment_options;

#define CRATON_SEGMENT_OPTIONS_INIT                                                                   \
  {                                                                                                   \
    sizeof(craton_segment_options), NULL, 0, 4096, CRATON_HOME_FLOATING, CRATON_INVALIDATION_LEASES,  \
        CRATON_RELEASE_FAST, CRATON_PLACEMENT_CYCLIC, 0, 16, 1, 1, CRATON_STRENGTH_AUTOMATIC, 0, 1, 1 \
  }

/**
 * Makes a segment: memory at the same address on all ranks, zero at first. Collective, with the same options
 * on all ranks; blocks. Segments live until craton_finalize; there are at most 1000.
 * \param data gets the address, which is that of a block
 * \return CRATON_INVALID_ARGUMENT for what is out of limits and where ranks differ; CRATON_OUT_OF_RESOURCES
 *   on all ranks where one lacks something for it, and then it can be tried again; CRATON_PEER_LOST
 */
CRATON_API craton_status craton_segment_create(const craton_segment_options* options, void** data);

/**
 * Makes the blocks that some bytes of a segment or of the heap are in strong or weak, until they are told
 * otherwise; CRATON_STRENGTH_AUTOMATIC: as the next craton_atomic wants them. Any thread of any rank; blocks,
 * for messages to all ranks for each block. No write is lost by a change.
 * \return CRATON_INVALID_ARGUMENT (not in one segment; CRATON_STRENGTH_AUTOMATIC where the segment was not
 * made so), CRATON_NOT_SUPPORTED (a rank has pinned a block), CRATON_PEER_LOST
 */
CRATON_API craton_status craton_set_strength(const void* begin, size_t bytes, craton_strength strength);

/**
 * Keeps memory of a segment accessible, on this rank: no fault happens there until craton_unpin, and barriers
 * and locks bring it up to date at once. For memory that is given to system calls or used where no fault may
 * happen. Whole blocks; blocks until they are here. Not counted: one craton_unpin undoes all craton_pin.
 * \return CRATON_INVALID_ARGUMENT if it is not in one segment, CRATON_PEER_LOST
 */
CRATON_API craton_status craton_pin(const void* begin, size_t bytes);
/** Undoes craton_pin of the same memory. */
CRATON_API craton_status craton_unpin(const void* begin, size_t bytes);

/* ---- The shared heap */

/**
 * Memory that all ranks can use, not zeroed; aligned to 16 bytes, to 64 if it has 64 or more. Any thread of
 * any rank, at any time; blocks for a round trip to rank 0 now and then. Others may use it once they
 * synchronise with this thread, as with all memory of the space. What different ranks allocate does not share
 * a block.
 * \param bytes 0 is taken for 1
 * \return NULL, with craton_last_error(), where the heap is full
 */
CRATON_API void* craton_alloc(size_t bytes);

/**
 * Gives it back. Any thread of any rank; blocks for a round trip to the rank that allocated it. Whoever gets
 * it next may write at once: all other uses must have been synchronised with this call.
 * \param pointer of craton_alloc; NULL does nothing
 * \return CRATON_INVALID_ARGUMENT for any other pointer and for memory that is free already; nothing happens
 *   then. CRATON_PEER_LOST
 */
CRATON_API craton_status craton_free(void* pointer);

/** How many bytes an allocation has: as many as were asked for, or more. 0, with craton_last_error(), for
 * what is none. Blocks as craton_free does. */
CRATON_API size_t craton_alloc_bytes(const void* pointer);

/* ---- Mutexes */

/** The number of a mutex, the same on all ranks: may lie in shared memory and be sent. */
typedef uint32_t craton_mutex;

/**
 * A new mutex, unlocked. Any thread of any rank, not collective; blocks for a round trip to rank 0. Mutexes
 * live until craton_finalize.
 * \return CRATON_OUT_OF_RESOURCES after craton_space_options.mutexes of them
 */
CRATON_API craton_status craton_mutex_create(craton_mutex* mutex);

/** The same, but collective, and all ranks get the same mutex. Blocks. */
CRATON_API craton_status craton_mutex_create_together(craton_mutex* mutex);

/**
 * Blocks until the calling thread holds it. What its holders before wrote, this thread sees. Not recursive.
 * \return CRATON_INVALID_ARGUMENT for what is no mutex and where the calling thread holds it already,
 *   CRATON_PEER_LOST
 */
CRATON_API craton_status craton_mutex_lock(craton_mutex mutex);

/** The same, but does not wait for a holder: *locked gets 1, or 0 if somebody else holds it, or is waiting
 * for it. */
CRATON_API craton_status craton_mutex_trylock(craton_mutex mutex, int* locked);

/**
 * Lets the next one hold it. By the thread that locked it. May block for other ranks.
 * \return CRATON_INVALID_ARGUMENT where the calling thread does not hold it, CRATON_PEER_LOST
 */
CRATON_API craton_status craton_mutex_unlock(craton_mutex mutex);

/* ---- Atomic words
 *
 * All on words of segments or the heap, aligned to their size. Those of one word happen one after the other,
 * whatever rank and thread they come from, and each sees the one before; each is a release before and an
 * acquire after, so what a thread wrote before one is seen by whoever comes after it at the same word. Any
 * thread; they block. A word that this rank updated last costs some ten nanoseconds; else its block moves
 * here, which is as slow as a mutex. Words of different purpose should not share a block. In segments of
 * CRATON_STRENGTH_AUTOMATIC the block becomes strong. What they give back may go to shared memory, too.
 * \return CRATON_INVALID_ARGUMENT if the word is in no segment or not aligned, CRATON_PEER_LOST
 */

/** Adds, modulo 2^64. *previous (may be NULL) gets what was there. */
CRATON_API craton_status craton_atomic_fetch_add64(uint64_t* word, uint64_t addend, uint64_t* previous);
/** Stores. *previous (may be NULL) gets what was there. */
CRATON_API craton_status craton_atomic_exchange64(uint64_t* word, uint64_t desired, uint64_t* previous);
/** Stores `desired` if the word is *expected, else changes nothing but *expected, which gets what was there.
 * *exchanged (may be NULL) gets 1 or 0. */
CRATON_API craton_status craton_atomic_compare_exchange64(uint64_t* word, uint64_t* expected,
                                                          uint64_t desired, int* exchanged);
CRATON_API craton_status craton_atomic_load64(const uint64_t* word, uint64_t* value);
CRATON_API craton_status craton_atomic_store64(uint64_t* word, uint64_t value);

/** The same for words of 32 bits. */
CRATON_API craton_status craton_atomic_fetch_add32(uint32_t* word, uint32_t addend, uint32_t* previous);
CRATON_API craton_status craton_atomic_exchange32(uint32_t* word, uint32_t desired, uint32_t* previous);
CRATON_API craton_status craton_atomic_compare_exchange32(uint32_t* word, uint32_t* expected,
                                                          uint32_t desired, int* exchanged);
CRATON_API craton_status craton_atomic_load32(const uint32_t* word, uint32_t* value);
CRATON_API craton_status craton_atomic_store32(uint32_t* word, uint32_t value);

/* ---- Threads */

/**
 * Gives the calling thread a stack of its own for faults. Threads that the program makes work without, as
 * long as their own stacks have 256 KiB left wherever they touch memory of the space. Until it ends, what the
 * thread does counts as the program's in `--stats` and `craton top`. Nests. Does not block.
 * \return CRATON_OUT_OF_RESOURCES
 */
CRATON_API craton_status craton_thread_enter(void);
/** Undoes one craton_thread_enter of the calling thread. The end of a thread undoes all.
 * \return CRATON_INVALID_ARGUMENT if there is none */
CRATON_API craton_status craton_thread_leave(void);

#ifdef __cplusplus
}
#endif

#endif
