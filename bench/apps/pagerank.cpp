// PageRank (Brin and Page, 1998) over a Kronecker graph: twenty rounds with a damping of 0.85.
//
// Argument: scale, the logarithm of the vertices. A vertex pulls from its neighbours, so each thread writes
// the ranks of its own vertices alone. Vertices without edges give their rank to all.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <vector>

#include "common/graph.hpp"

namespace {

constexpr int rounds = 20;
constexpr double damping = 0.85;

std::vector<double> ranks_of(const Graph& graph, int threads) {
  const auto vertices = static_cast<std::size_t>(graph.vertices());
  const double count = graph.vertices();
  std::vector<double> ranks(vertices, 1 / count);
  std::vector<double> shares(vertices);  // of each neighbour
  double unlinked = 0;
#pragma omp parallel num_threads(threads)
  for (int round = 0; round < rounds; ++round) {
#pragma omp single
    unlinked = 0;
#pragma omp for schedule(static) reduction(+ : unlinked)
    for (Vertex vertex = 0; vertex < graph.vertices(); ++vertex) {
      const auto at = static_cast<std::size_t>(vertex);
      const std::size_t degree = graph.neighbours(vertex).size();
      if (degree == 0) unlinked += ranks[at];
      shares[at] = degree == 0 ? 0 : ranks[at] / static_cast<double>(degree);
    }
#pragma omp for schedule(dynamic, 1024)
    for (Vertex vertex = 0; vertex < graph.vertices(); ++vertex) {
      double sum = unlinked / count;
      for (const Vertex neighbour : graph.neighbours(vertex))
        sum += shares[static_cast<std::size_t>(neighbour)];
      ranks[static_cast<std::size_t>(vertex)] = (1 - damping) / count + damping * sum;
    }
  }
  return ranks;
}

}  // namespace

int main(int argc, char** argv) {
  const long scale = program_size(argc, argv, 18, 2, 26);
  const Graph graph(static_cast<int>(scale));

  const double start = omp_get_wtime();
  const std::vector<double> ranks = ranks_of(graph, omp_get_max_threads());
  const double seconds = omp_get_wtime() - start;

  const std::vector<double> by_one = ranks_of(graph, 1);
  double sum = 0;
  double difference = 0;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    sum += ranks[i];
    difference = std::max(difference, std::abs(ranks[i] - by_one[i]) / by_one[i]);
  }
  const bool verified = std::abs(sum - 1) <= 1e-10 && difference <= 1e-10;
  std::printf("  greatest rank %.3e; sum 1 + %.1e, relative difference from one thread's %.1e\n",
              *std::max_element(ranks.begin(), ranks.end()), sum - 1, difference);
  return program_report("pagerank", scale, seconds,
                        static_cast<double>(graph.edges()) * rounds / seconds * 1e-6, "million edges/s",
                        verified);
}
