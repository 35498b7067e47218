/* An unbalanced tree, counted by tasks: after "UTS: An Unbalanced Tree Search Benchmark" (Olivier et al.,
 * LCPC 2006).
 *
 * A binomial tree: the root has as many children as the argument says; any other node has eight with a chance
 * of 0.1245, else none. A node is a hash of its parent's and its own number, so any thread can go on from any
 * node. Nodes with children become tasks; threads count in variables of their own. */
#include "common/program.h"

enum { branching = 8, hash_rounds = 32 };

static const double branching_chance = 0.1245;

static long counted_nodes;
static long counted_depth;
#pragma omp threadprivate(counted_nodes, counted_depth)

static uint64_t child_of(uint64_t parent, long index) {
  uint64_t child = parent + (uint64_t)index;
  for (int round = 0; round < hash_rounds; ++round) child = program_mix(child);
  return child;
}

static bool has_children(uint64_t node) {
  return program_fraction(program_mix(node)) < branching_chance;
}

static void count(long depth) {
  ++counted_nodes;
  if (depth > counted_depth) counted_depth = depth;
}

static void visit_by_tasks(uint64_t node, long children, long depth) {
  count(depth);
  for (long index = 0; index < children; ++index) {
    const uint64_t child = child_of(node, index);
    if (has_children(child)) {
#pragma omp task firstprivate(child, depth)
      visit_by_tasks(child, branching, depth + 1);
    } else {
      count(depth + 1);
    }
  }
}

static void visit(uint64_t node, long children, long depth) {
  count(depth);
  for (long index = 0; index < children; ++index) {
    const uint64_t child = child_of(node, index);
    visit(child, has_children(child) ? branching : 0, depth + 1);
  }
}

int main(int argc, char** argv) {
  const long size = program_size(argc, argv, 10000, 1, 100000000);
  const uint64_t root = program_mix(19);

  long nodes = 0;
  long depth = 0;
  const double start = omp_get_wtime();
#pragma omp parallel reduction(+ : nodes) reduction(max : depth)
  {
    counted_nodes = 0;
    counted_depth = 0;
#pragma omp barrier
#pragma omp single
    visit_by_tasks(root, size, 0);
    nodes = counted_nodes;
    depth = counted_depth;
  }
  const double seconds = omp_get_wtime() - start;

  counted_nodes = 0;
  counted_depth = 0;
  visit(root, size, 0);
  printf("  %ld nodes, depth %ld; one thread finds %ld, %ld\n", nodes, depth, counted_nodes, counted_depth);
  const bool verified = nodes == counted_nodes && depth == counted_depth;
  return program_report("uts", size, seconds, (double)nodes / seconds * 1e-6, "million nodes/s", verified);
}
