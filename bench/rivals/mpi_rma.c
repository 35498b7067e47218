/* Passive-target one-sided MPI, as bench/rivals/craton_rma.cpp does it: MPI_Win_lock_all once, then each
 * operation followed by MPI_Win_flush. Two ranks; rank 1 is the target, which waits in MPI_Recv or computes
 * without a call into MPI. Built by scripts/install-rivals with each MPI's own mpicc; run by scripts/bench in
 * turn with ours.
 *
 * Usage: mpi_rma VARIANT TRANSPORT ROUND TURN_MS. One JSON object a line, as bench/frame/report.cpp writes
 * them. */
#define _GNU_SOURCE
#include <mpi.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { window_bytes = 1 << 20, initiator = 0, target = 1, computing_turns = 5, batches_kept = 65536 };
enum operation { op_get, op_put, op_fetch_add };
enum mode { mode_waiting, mode_computing, mode_quit };

struct test {
  const char* name;
  enum operation operation;
  int bytes;
};
/* The same as in craton_rma.cpp. */
static const struct test tests[] = {{"get 8 B", op_get, 8},
                                    {"get 4 KiB", op_get, 4096},
                                    {"put 8 B", op_put, 8},
                                    {"put 4 KiB", op_put, 4096},
                                    {"fetch_add 8 B", op_fetch_add, 8}};
enum { test_count = sizeof tests / sizeof tests[0] };

static const char *variant, *transport;
static int round_number;
static MPI_Win window;
static char local[window_bytes] __attribute__((aligned(4096)));

static int64_t now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* Rank 0 on the first CPU that we may use, rank 1 on the second: bench/frame/placement.hpp, one_cpu_each. */
static void pin(int rank) {
  cpu_set_t allowed, chosen;
  int seen = 0;
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0 || CPU_COUNT(&allowed) < 2) return;
  CPU_ZERO(&chosen);
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &allowed) && seen++ == rank) CPU_SET(cpu, &chosen);
  }
  if (sched_setaffinity(0, sizeof chosen, &chosen) != 0) {
    perror("mpi_rma: cannot pin to a CPU");
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
}

static void operate(const struct test* test, int64_t count) {
  static const uint64_t one = 1;
  for (int64_t i = 0; i < count; ++i) {
    switch (test->operation) {
      case op_get:
        MPI_Get(local, test->bytes, MPI_BYTE, target, 0, test->bytes, MPI_BYTE, window);
        break;
      case op_put:
        MPI_Put(local, test->bytes, MPI_BYTE, target, 0, test->bytes, MPI_BYTE, window);
        break;
      case op_fetch_add:
        MPI_Fetch_and_op(&one, local, MPI_UINT64_T, target, 0, MPI_SUM, window);
        break;
    }
    MPI_Win_flush(target, window);
  }
}

static int by_value(const void* left, const void* right) {
  const double a = *(const double*)left, b = *(const double*)right;
  return (a > b) - (a < b);
}

/* As time_batches() in bench/frame/measure.hpp: batches of at least 50 us for turn_ns. A target that computes
 * may serve nothing until it is done: then the batch that was to find their size is all there is. */
static void measure(const struct test* test, int computing, int64_t turn_ns) {
  static double times_ns[batches_kept];
  const int64_t first = now_ns();
  int64_t count = 1, operations = 0, batches = 0, start, before, now;
  for (;;) {
    start = now_ns();
    operate(test, count);
    now = now_ns();
    if (now - start >= 50000) break;
    count *= 2;
  }
  if (computing && now - first >= turn_ns) {
    operations = count;
    times_ns[batches++] = (double)(now - start) / (double)count;
  } else {
    start = before = now;
    do {
      operate(test, count);
      operations += count;
      now = now_ns();
      if (batches < batches_kept) times_ns[batches++] = (double)(now - before) / (double)count;
      before = now;
    } while (now - start < turn_ns);
  }
  qsort(times_ns, (size_t)batches, sizeof times_ns[0], by_value);
  printf(
      "{\"kernel\":\"rivals\",\"case\":\"%s: %s, target %s\",\"variant\":\"%s\",\"round\":%d,\"unit\":\"ns\","
      "\"value\":%.6g,\"p50\":%.6g,\"operations\":%lld}\n",
      transport, test->name, computing ? "computes" : "waits", variant, round_number,
      (double)(now - start) / (double)operations, times_ns[(batches - 1) / 2], (long long)operations);
  fflush(stdout);
}

static void initiate(int64_t turn_ns) {
  for (int mode = mode_waiting; mode <= mode_computing; ++mode) {
    for (int i = 0; i < test_count; ++i) {
      int adopted;
      MPI_Send(&mode, 1, MPI_INT, target, 0, MPI_COMM_WORLD);
      MPI_Recv(&adopted, 1, MPI_INT, target, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      measure(&tests[i], mode == mode_computing, turn_ns * (mode == mode_computing ? computing_turns : 1));
    }
  }
  const int quit = mode_quit;
  MPI_Send(&quit, 1, MPI_INT, target, 0, MPI_COMM_WORLD);
}

/* Computes for a little longer than the initiator measures, which would never end otherwise where operations
 * need the target's calls. */
static void compute(int64_t duration_ns) {
  const int64_t until = now_ns() + duration_ns;
  uint64_t state = 1;
  while (now_ns() < until) {
    for (int i = 0; i < 1000; ++i) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      __asm__ volatile("" : "+r"(state));
    }
  }
}

static void serve(int64_t turn_ns) {
  for (;;) {
    int mode;
    MPI_Recv(&mode, 1, MPI_INT, initiator, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (mode == mode_quit) return;
    MPI_Send(&mode, 1, MPI_INT, initiator, 0, MPI_COMM_WORLD);
    if (mode == mode_computing) compute(turn_ns * (computing_turns + 1));
  }
}

int main(int argc, char** argv) {
  int rank, size;
  char* memory;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (argc != 5 || size != 2) {
    if (rank == 0) fprintf(stderr, "usage: mpirun -n 2 mpi_rma VARIANT TRANSPORT ROUND TURN_MS\n");
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  variant = argv[1];
  transport = argv[2];
  round_number = atoi(argv[3]);
  const int64_t turn_ns = (int64_t)atoi(argv[4]) * 1000000;
  pin(rank);
  if (strcmp(transport, "shm") == 0) {
    MPI_Win_allocate(window_bytes, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &window);
  } else {
    /* An allocated window is shared memory inside a node whatever the transport, at least in Open MPI. */
    memory = aligned_alloc(4096, window_bytes);
    if (memory == NULL) MPI_Abort(MPI_COMM_WORLD, 1);
    MPI_Win_create(memory, window_bytes, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &window);
  }
  memset(memory, rank, window_bytes);
  MPI_Win_lock_all(MPI_MODE_NOCHECK, window);
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == initiator) {
    initiate(turn_ns);
  } else {
    serve(turn_ns);
  }
  MPI_Win_unlock_all(window);
  MPI_Win_free(&window);
  if (strcmp(transport, "shm") != 0) free(memory);
  MPI_Finalize();
  return 0;
}
