/* Calls of space.h in the wrong state and with wrong arguments return what it says, and right ones work. On
 * any number of ranks. Prints "ok" on each if they do. */
#define _DEFAULT_SOURCE
#include <craton/space.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "rank.h"

static int checks_failed = 0;
#define CHECK(condition)                                                                    \
  do {                                                                                      \
    if (!(condition)) {                                                                     \
      fprintf(stderr, "line %d: not %s (%s)\n", __LINE__, #condition, craton_last_error()); \
      ++checks_failed;                                                                      \
    }                                                                                       \
  } while (0)
#define FAILS(call, status, text)                     \
  do {                                                \
    CHECK((call) == (status));                        \
    CHECK(strstr(craton_last_error(), text) != NULL); \
  } while (0)

static void before_it_is_open(craton_status status, const char* text) {
  uint64_t value = 0;
  uint64_t word = 0;
  craton_mutex mutex = 0;
  void* data = NULL;
  craton_segment_options options = CRATON_SEGMENT_OPTIONS_INIT;
  options.bytes = 4096;
  CHECK(craton_space_is_open() == 0);
  CHECK(craton_space_mechanism() == NULL);
  FAILS(craton_space_barrier(0), status, text);
  FAILS(craton_space_count("races", &value), status, text);
  FAILS(craton_segment_create(&options, &data), status, text);
  FAILS(craton_pin(&value, 8), status, text);
  CHECK(craton_alloc(8) == NULL);
  CHECK(strstr(craton_last_error(), text) != NULL);
  CHECK(craton_free(NULL) == CRATON_OK);
  FAILS(craton_free(&value), status, text);
  FAILS(craton_mutex_create(&mutex), status, text);
  FAILS(craton_mutex_lock(0), status, text);
  FAILS(craton_atomic_fetch_add64(&word, 1, NULL), status, text);
  FAILS(craton_thread_enter(), status, text);
}

static void opening(void) {
  craton_space_options options = CRATON_SPACE_OPTIONS_INIT;
  options.size = 4;
  FAILS(craton_space_open(&options), CRATON_INVALID_ARGUMENT, "INIT");
  options.size = sizeof options;
  options.mutexes = 1U << 30;
  FAILS(craton_space_open(&options), CRATON_INVALID_ARGUMENT, "mutexes");
  options.mutexes = 3;
  options.mechanism = "magic";
  FAILS(craton_space_open(&options), CRATON_INVALID_ARGUMENT, "magic");
  options.mechanism = NULL;
  options.heap_bytes = 1 << 20;
  must(craton_space_open(&options), "craton_space_open");
  CHECK(craton_space_is_open() == 1);
  CHECK(craton_space_mechanism() != NULL);
  FAILS(craton_space_open(NULL), CRATON_INVALID_ARGUMENT, "open");
}

/* Of sizes, names, and of the process, on all ranks. */
static void limits(craton_segment_options options) {
  void* data = NULL;
  static char name[CRATON_SEGMENT_NAME_MAX + 2];
  memset(name, 'n', CRATON_SEGMENT_NAME_MAX + 1);
  options.name = name;
  FAILS(craton_segment_create(&options, &data), CRATON_INVALID_ARGUMENT, "has more than 200 bytes");
  name[CRATON_SEGMENT_NAME_MAX] = 0;
  must(craton_segment_create(&options, &data), "craton_segment_create");
  options.name = NULL;
  options.bytes = SIZE_MAX;
  FAILS(craton_segment_create(&options, &data), CRATON_INVALID_ARGUMENT, "bytes is 18446744073709551615");
  struct rlimit before;
  CHECK(getrlimit(RLIMIT_FSIZE, &before) == 0);
  const struct rlimit small = {1 << 20, before.rlim_max};
  CHECK(setrlimit(RLIMIT_FSIZE, &small) == 0);
  options.bytes = 64 << 20;
  FAILS(craton_segment_create(&options, &data), CRATON_OUT_OF_RESOURCES, "ulimit -f");
  CHECK(setrlimit(RLIMIT_FSIZE, &before) == 0);
}

static void segments(void) {
  void* data = NULL;
  craton_segment_options options = CRATON_SEGMENT_OPTIONS_INIT;
  FAILS(craton_segment_create(NULL, &data), CRATON_INVALID_ARGUMENT, "NULL");
  FAILS(craton_segment_create(&options, &data), CRATON_INVALID_ARGUMENT, "no bytes");
  options.bytes = 10000;
  FAILS(craton_segment_create(&options, NULL), CRATON_INVALID_ARGUMENT, "NULL");
  limits(options);
  options.block_bytes = 5000;
  FAILS(craton_segment_create(&options, &data), CRATON_INVALID_ARGUMENT, "5000");
  options.block_bytes = 8192;
  options.home = (craton_home)7;
  FAILS(craton_segment_create(&options, &data), CRATON_INVALID_ARGUMENT, "home is 7");
  options.home = CRATON_HOME_FLOATING;
  options.lease = 0;
  FAILS(craton_segment_create(&options, &data), CRATON_INVALID_ARGUMENT, "lease");
  options.lease = 16;
  options.placement = CRATON_PLACEMENT_ONE;
  options.home_rank = craton_size();
  FAILS(craton_segment_create(&options, &data), CRATON_INVALID_ARGUMENT, "home_rank");
  options.home_rank = craton_size() - 1;
  options.home = CRATON_HOME_FIXED;
  options.release = CRATON_RELEASE_PLAIN;
  options.causal = 1;
  FAILS(craton_segment_create(&options, &data), CRATON_INVALID_ARGUMENT, "causes before effects");
  CHECK(data == NULL);
  /* Every kind, and all see what rank 0 writes. */
  static const struct {
    craton_home home;
    craton_invalidation invalidation;
    craton_release release;
    craton_placement placement;
    int causal;
  } kinds[] = {
      {CRATON_HOME_FLOATING, CRATON_INVALIDATION_LEASES, CRATON_RELEASE_FAST, CRATON_PLACEMENT_ONE, 0},
      {CRATON_HOME_FLOATING, CRATON_INVALIDATION_DIRECTORY, CRATON_RELEASE_FAST, CRATON_PLACEMENT_CYCLIC, 0},
      {CRATON_HOME_FLOATING, CRATON_INVALIDATION_LEASES, CRATON_RELEASE_PLAIN, CRATON_PLACEMENT_BLOCKED, 0},
      {CRATON_HOME_FLOATING, CRATON_INVALIDATION_LEASES, CRATON_RELEASE_FAST, CRATON_PLACEMENT_CYCLIC, 1},
      {CRATON_HOME_FIXED, CRATON_INVALIDATION_LEASES, CRATON_RELEASE_PLAIN, CRATON_PLACEMENT_CYCLIC, 0},
  };
  for (size_t kind = 0; kind < sizeof kinds / sizeof *kinds; ++kind) {
    options.name = "kind";
    options.home = kinds[kind].home;
    options.invalidation = kinds[kind].invalidation;
    options.release = kinds[kind].release;
    options.placement = kinds[kind].placement;
    options.causal = kinds[kind].causal;
    must(craton_segment_create(&options, &data), "craton_segment_create");
    unsigned char* const bytes = data;
    CHECK((uintptr_t)data % 4096 == 0);
    CHECK(bytes[0] == 0 && bytes[9999] == 0);
    must(craton_space_barrier(0), "craton_space_barrier");
    if (craton_rank() == 0) memset(bytes, (int)kind + 1, 10000);
    must(craton_space_barrier(0), "craton_space_barrier");
    CHECK(bytes[0] == kind + 1 && bytes[9999] == kind + 1);
  }
  must(craton_pin(data, 10000), "craton_pin");
  must(craton_unpin(data, 10000), "craton_unpin");
  FAILS(craton_pin(&options, 8), CRATON_INVALID_ARGUMENT, "not in one segment");
  FAILS(craton_pin(data, 1 << 20), CRATON_INVALID_ARGUMENT, "not in one segment");
  /* Where their end would wrap around. */
  FAILS(craton_pin((char*)data + 4096, SIZE_MAX), CRATON_INVALID_ARGUMENT, "not in one segment");
  FAILS(craton_unpin((char*)data + 4096, SIZE_MAX - 4096), CRATON_INVALID_ARGUMENT, "not in one segment");
}

/* Blocks of three pages: their number of bytes is no power of two. */
static void odd_blocks(void) {
  enum { block_bytes = 12288, blocks = 5 };
  craton_segment_options options = CRATON_SEGMENT_OPTIONS_INIT;
  options.name = "odd";
  options.bytes = (size_t)block_bytes * blocks;
  options.block_bytes = block_bytes;
  void* data = NULL;
  must(craton_segment_create(&options, &data), "craton_segment_create");
  unsigned char* const bytes = data;
  const int ranks = craton_size();
  /* Ranks write bytes in turns, so that all have some of each block and page. */
  for (int round = 1; round <= 3; ++round) {
    for (int i = craton_rank(); i < block_bytes * blocks; i += 61 * ranks)
      bytes[i] = (unsigned char)(i + round);
    must(craton_space_barrier(0), "craton_space_barrier");
    int wrong = 0;
    for (int rank = 0; rank < ranks; ++rank) {
      for (int i = rank; i < block_bytes * blocks; i += 61 * ranks)
        wrong += bytes[i] != (unsigned char)(i + round);
    }
    CHECK(wrong == 0);
    must(craton_space_barrier(0), "craton_space_barrier");
  }
  uint64_t* const last = (uint64_t*)(bytes + options.bytes) - 1;
  if (craton_rank() == 0) *last = 0;
  must(craton_space_barrier(0), "craton_space_barrier");
  must(craton_atomic_fetch_add64(last, 2, NULL), "fetch_add64");
  must(craton_space_barrier(0), "craton_space_barrier");
  CHECK(*last == 2 * (uint64_t)ranks);
}

static void heap(void) {
  char local = 0;
  char* const memory = craton_alloc(100);
  CHECK(memory != NULL && (uintptr_t)memory % 64 == 0);
  CHECK(craton_alloc_bytes(memory) >= 100);
  CHECK(craton_alloc_bytes(memory + 1) == 0);
  CHECK(craton_alloc_bytes(&local) == 0);
  char* const nothing = craton_alloc(0);
  CHECK(nothing != NULL);
  must(craton_free(nothing), "craton_free");
  FAILS(craton_free(memory + 16), CRATON_INVALID_ARGUMENT, "inside an allocation");
  must(craton_free(memory), "craton_free");
  FAILS(craton_free(memory), CRATON_INVALID_ARGUMENT, "no longer");
  FAILS(craton_free(&local), CRATON_INVALID_ARGUMENT, "not in the shared heap");
  CHECK(craton_alloc(1 << 21) == NULL);
  CHECK(strstr(craton_last_error(), "--heap-bytes") != NULL);
}

static void mutexes(void) {
  craton_mutex first = 99;
  craton_mutex other = 99;
  int locked = -1;
  FAILS(craton_mutex_lock(0), CRATON_INVALID_ARGUMENT, "only 0");
  must(craton_space_barrier(0), "craton_space_barrier");
  must(craton_mutex_create_together(&first), "craton_mutex_create_together");
  must(craton_mutex_create_together(&other), "craton_mutex_create_together");
  CHECK(first == 0 && other == 1);
  must(craton_space_barrier(0), "craton_space_barrier");
  if (craton_rank() == craton_size() - 1) {
    must(craton_mutex_create(&other), "craton_mutex_create");
    CHECK(other == 2);
    FAILS(craton_mutex_create(&other), CRATON_OUT_OF_RESOURCES, "3 mutexes");
  }
  must(craton_space_barrier(0), "craton_space_barrier");
  FAILS(craton_mutex_create_together(&other), CRATON_OUT_OF_RESOURCES, "3 mutexes");
  FAILS(craton_mutex_lock(3), CRATON_INVALID_ARGUMENT, "mutex 3");
  FAILS(craton_mutex_unlock(first), CRATON_INVALID_ARGUMENT, "does not hold");
  must(craton_mutex_lock(first), "craton_mutex_lock");
  FAILS(craton_mutex_lock(first), CRATON_INVALID_ARGUMENT, "holds it already");
  must(craton_mutex_trylock(first, &locked), "craton_mutex_trylock");
  CHECK(locked == 0);
  must(craton_mutex_unlock(first), "craton_mutex_unlock");
  FAILS(craton_mutex_unlock(first), CRATON_INVALID_ARGUMENT, "does not hold");
  must(craton_space_barrier(0), "craton_space_barrier");
  if (craton_rank() == 0) {
    must(craton_mutex_trylock(first, &locked), "craton_mutex_trylock");
    CHECK(locked == 1);
  }
  must(craton_space_barrier(0), "craton_space_barrier");
  if (craton_rank() != 0) {
    must(craton_mutex_trylock(first, &locked), "craton_mutex_trylock");
    CHECK(locked == 0);
  }
  must(craton_space_barrier(0), "craton_space_barrier");
  if (craton_rank() == 0) must(craton_mutex_unlock(first), "craton_mutex_unlock");
}

static void words(void) {
  craton_segment_options options = CRATON_SEGMENT_OPTIONS_INIT;
  options.bytes = 3 * 4096;
  void* data = NULL;
  must(craton_segment_create(&options, &data), "craton_segment_create");
  uint64_t* const wide = data;
  uint32_t* const narrow = (uint32_t*)data + 1024;
  uint64_t local = 0;
  uint64_t previous = 0;
  uint32_t previous32 = 0;
  const uint64_t ranks = (uint64_t)craton_size();
  for (int i = 0; i < 50; ++i) {
    must(craton_atomic_fetch_add64(wide, (uint64_t)1 << 32, &previous), "fetch_add64");
    must(craton_atomic_fetch_add32(narrow + 1, 3, NULL), "fetch_add32");
  }
  must(craton_space_barrier(0), "craton_space_barrier");
  CHECK(wide[0] == 50 * ranks << 32);
  CHECK(narrow[0] == 0 && narrow[1] == 150 * ranks && narrow[2] == 0);
  must(craton_space_barrier(0), "craton_space_barrier");
  /* One rank alone wins. */
  uint64_t expected = 0;
  int won = -1;
  must(craton_atomic_compare_exchange64(wide + 8, &expected, 1 + (uint64_t)craton_rank(), &won), "cas64");
  uint32_t expected32 = 0;
  must(craton_atomic_compare_exchange32(narrow + 8, &expected32, 1 + (uint32_t)craton_rank(), NULL), "cas32");
  CHECK(won == (expected == 0));
  must(craton_atomic_fetch_add64(wide + 9, (uint64_t)won, NULL), "fetch_add64");
  must(craton_space_barrier(0), "craton_space_barrier");
  must(craton_atomic_load64(wide + 9, &previous), "load64");
  CHECK(previous == 1);
  if (won == 0) CHECK(expected == wide[8]);
  must(craton_atomic_load32(narrow + 8, &previous32), "load32");
  CHECK(previous32 >= 1 && previous32 <= ranks);
  if (craton_rank() == 0) {
    must(craton_atomic_store64(wide + 16, 5), "store64");
    must(craton_atomic_store32(narrow + 16, 6), "store32");
    must(craton_atomic_exchange64(wide + 16, 7, &previous), "exchange64");
    must(craton_atomic_exchange32(narrow + 16, 8, &previous32), "exchange32");
    CHECK(previous == 5 && previous32 == 6);
  }
  must(craton_space_barrier(0), "craton_space_barrier");
  CHECK(wide[16] == 7 && narrow[16] == 8);
  FAILS(craton_atomic_fetch_add64(&local, 1, NULL), CRATON_INVALID_ARGUMENT, "in no segment");
  FAILS(craton_atomic_fetch_add64((uint64_t*)((char*)data + 4), 1, NULL), CRATON_INVALID_ARGUMENT,
        "no aligned");
  FAILS(craton_atomic_load64(wide, NULL), CRATON_INVALID_ARGUMENT, "NULL");
  FAILS(craton_atomic_compare_exchange32(narrow, NULL, 1, NULL), CRATON_INVALID_ARGUMENT, "NULL");
}

/* What the functions store may lie in shared memory too: in the block of the word, or in one that another
 * rank has. */
static void results_in_shared_memory(craton_strength strength) {
  craton_segment_options options = CRATON_SEGMENT_OPTIONS_INIT;
  const size_t ranks = (size_t)craton_size();
  options.bytes = (2 + ranks) * 4096;
  options.strength = strength;
  void* data = NULL;
  must(craton_segment_create(&options, &data), "craton_segment_create");
  uint64_t* const word = data;
  uint64_t* const out = word + 1024; /* by turns, so that each of its blocks is every rank's */
  const size_t rank = (size_t)craton_rank();
  uint64_t* const untouched = word + 512;
  must(craton_atomic_load64(untouched, untouched + 1 + rank), "load64");
  must(craton_atomic_fetch_add64(word, 1, word + 1 + rank), "fetch_add64");
  CHECK(word[1 + rank] < ranks);
  must(craton_space_barrier(0), "craton_space_barrier");
  for (size_t i = 0; i < ranks; ++i)
    must(craton_atomic_fetch_add64(word, 1, &out[i * 512 + rank]), "fetch_add64");
  must(craton_space_barrier(0), "craton_space_barrier");
  CHECK(*word == ranks + ranks * ranks);
  uint64_t sum = 0;
  for (size_t i = 0; i < ranks * ranks; ++i) sum += out[i / ranks * 512 + i % ranks] - ranks;
  CHECK(sum == ranks * ranks * (ranks * ranks - 1) / 2);
  must(craton_space_barrier(0), "craton_space_barrier");
  uint64_t* const own = &out[rank];
  must(craton_atomic_exchange64(word, 7, own), "exchange64");
  CHECK(*own == 7 || *own == ranks + ranks * ranks);
  must(craton_atomic_load64(word, own), "load64");
  CHECK(*own == 7);
  must(craton_atomic_load64(word, word + 1 + rank), "load64");
  CHECK(word[1 + rank] == 7);
  must(craton_space_barrier(0), "craton_space_barrier");
  int exchanged = -1;
  *own = 8;
  must(craton_atomic_compare_exchange64(word, own, 9, &exchanged), "compare_exchange64");
  CHECK(exchanged == 0 && *own == 7);
  must(craton_atomic_compare_exchange64(word, own, 7, (int*)(word + 1 + rank)), "compare_exchange64");
  CHECK(*(int*)(word + 1 + rank) == 1 && *own == 7);
  must(craton_space_barrier(0), "craton_space_barrier");
}

static void counters_and_threads(void) {
  uint64_t value = 0;
  must(craton_space_count("updates", &value), "craton_space_count");
  CHECK(value > 0);
  must(craton_space_count("barrier_ns", &value), "craton_space_count");
  CHECK(value > 0);
  FAILS(craton_space_count("wishes", &value), CRATON_NOT_FOUND, "wishes");
  FAILS(craton_thread_leave(), CRATON_INVALID_ARGUMENT, "not entered");
  must(craton_thread_enter(), "craton_thread_enter");
  must(craton_thread_enter(), "craton_thread_enter");
  must(craton_thread_leave(), "craton_thread_leave");
  must(craton_thread_leave(), "craton_thread_leave");
  FAILS(craton_thread_leave(), CRATON_INVALID_ARGUMENT, "not entered");
}

/* A child has no space, and says so. */
static void fork_off(void) {
  const pid_t child = fork();
  if (child == 0) {
    checks_failed = 0;
    FAILS(craton_space_barrier(0), CRATON_NOT_SUPPORTED, "forked");
    FAILS(craton_mutex_lock(0), CRATON_NOT_SUPPORTED, "forked");
    FAILS(craton_barrier(), CRATON_NOT_SUPPORTED, "forked");
    CHECK(craton_alloc(1) == NULL);
    FAILS(craton_finalize(), CRATON_NOT_SUPPORTED, "forked");
    _exit(checks_failed);
  }
  int status = -1;
  CHECK(waitpid(child, &status, 0) == child);
  CHECK(status == 0);
}

int main(void) {
  before_it_is_open(CRATON_NOT_INITIALISED, "craton_init");
  FAILS(craton_space_open(NULL), CRATON_NOT_INITIALISED, "craton_init");
  must(craton_init(), "craton_init");
  before_it_is_open(CRATON_INVALID_ARGUMENT, "craton_space_open");
  opening();
  segments();
  odd_blocks();
  heap();
  mutexes();
  words();
  results_in_shared_memory(CRATON_STRENGTH_RELEASE);
  results_in_shared_memory(CRATON_STRENGTH_STRONG);
  results_in_shared_memory(CRATON_STRENGTH_AUTOMATIC);
  counters_and_threads();
  fork_off();
  must(craton_space_barrier(0), "craton_space_barrier");
  must(craton_finalize(), "craton_finalize");
  before_it_is_open(CRATON_NOT_INITIALISED, "craton_init");
  FAILS(craton_space_open(NULL), CRATON_NOT_INITIALISED, "craton_init");
  if (checks_failed == 0) puts("ok");
  return checks_failed == 0 ? 0 : 1;
}
