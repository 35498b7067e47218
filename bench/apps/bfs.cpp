// Breadth-first search over a Kronecker graph, from the root with most edges; as in the Graph500
// specification.
//
// Argument: scale, the logarithm of the vertices. Each thread owns a block of vertices, their parents and
// those that it reached last. In a level it writes what it finds for others into boxes; after a barrier each
// empties its boxes. So no vertex needs an atomic.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <vector>

#include "common/graph.hpp"

namespace {

constexpr Vertex nobody = -1;

struct Claim {
  Vertex vertex, parent;
};

class Search {
 public:
  Search(const Graph& graph, Vertex root)
      : graph_(graph),
        threads_(omp_get_max_threads()),
        parents_(static_cast<std::size_t>(graph.vertices()), nobody),
        boxes_(static_cast<std::size_t>(threads_) * static_cast<std::size_t>(threads_)) {
#pragma omp parallel num_threads(threads_)
    {
#pragma omp single
      threads_ = omp_get_num_threads();  // perhaps fewer
      run(root, omp_get_thread_num());
    }
  }

  const std::vector<Vertex>& parents() const {
    return parents_;
  }

 private:
  Vertex& parent(Vertex vertex) {
    return parents_[static_cast<std::size_t>(vertex)];
  }
  std::vector<Claim>& box(int from, int to) {
    return boxes_[static_cast<std::size_t>(from) * static_cast<std::size_t>(threads_) +
                  static_cast<std::size_t>(to)];
  }
  int owner(Vertex vertex) const {
    int thread = static_cast<int>(static_cast<std::int64_t>(vertex) * threads_ / graph_.vertices());
    while (vertex >= owned(graph_.vertices(), thread, threads_).end) ++thread;
    return thread;
  }

  void run(Vertex root, int thread) {
    std::vector<Vertex> reached;
    if (owner(root) == thread) {
      parent(root) = root;
      reached.push_back(root);
    }
    bool more = true;
    while (more) {
      for (const Vertex vertex : reached) {
        for (const Vertex neighbour : graph_.neighbours(vertex)) {
          if (parent(neighbour) == nobody) box(thread, owner(neighbour)).push_back({neighbour, vertex});
        }
      }
#pragma omp barrier
#pragma omp single
      reached_by_all_ = 0;
      reached.clear();
      for (int from = 0; from < threads_; ++from) empty_box(box(from, thread), reached);
#pragma omp atomic
      reached_by_all_ += reached.size();
#pragma omp barrier
      more = reached_by_all_ > 0;
#pragma omp barrier
    }
  }

  void empty_box(std::vector<Claim>& claims, std::vector<Vertex>& reached) {
    for (const Claim& claim : claims) {
      if (parent(claim.vertex) != nobody) continue;
      parent(claim.vertex) = claim.parent;
      reached.push_back(claim.vertex);
    }
    claims.clear();
  }

  const Graph& graph_;
  int threads_;
  std::vector<Vertex> parents_;
  std::vector<std::vector<Claim>> boxes_;
  std::size_t reached_by_all_ = 0;
};

Vertex root_with_most_edges(const Graph& graph) {
  Vertex root = 0;
  for (Vertex vertex = 1; vertex < graph.vertices(); ++vertex) {
    if (graph.neighbours(vertex).size() > graph.neighbours(root).size()) root = vertex;
  }
  return root;
}

// By one thread.
std::vector<Vertex> levels_of(const Graph& graph, Vertex root) {
  std::vector<Vertex> levels(static_cast<std::size_t>(graph.vertices()), nobody);
  levels[static_cast<std::size_t>(root)] = 0;
  std::vector<Vertex> queue = {root};
  for (std::size_t at = 0; at < queue.size(); ++at) {
    const Vertex level = levels[static_cast<std::size_t>(queue[at])];
    for (const Vertex neighbour : graph.neighbours(queue[at])) {
      if (levels[static_cast<std::size_t>(neighbour)] != nobody) continue;
      levels[static_cast<std::size_t>(neighbour)] = level + 1;
      queue.push_back(neighbour);
    }
  }
  return levels;
}

// Whether the tree's edge is one of the graph, from one level to the next.
bool is_right(const Graph& graph, const std::vector<Vertex>& levels, Vertex root, Vertex vertex,
              Vertex parent) {
  const Vertex level = levels[static_cast<std::size_t>(vertex)];
  if (vertex == root) return parent == root;
  if (level == nobody || parent == nobody) return level == nobody && parent == nobody;
  const auto neighbours = graph.neighbours(vertex);
  return levels[static_cast<std::size_t>(parent)] == level - 1 &&
         std::find(neighbours.begin(), neighbours.end(), parent) != neighbours.end();
}

}  // namespace

int main(int argc, char** argv) {
  const long scale = program_size(argc, argv, 18, 2, 26);
  const Graph graph(static_cast<int>(scale));
  const Vertex root = root_with_most_edges(graph);

  const double start = omp_get_wtime();
  const Search search(graph, root);
  const double seconds = omp_get_wtime() - start;

  const std::vector<Vertex> levels = levels_of(graph, root);
  long wrong = 0;
  long reached = 0;
  std::int64_t edges = 0;
  for (Vertex vertex = 0; vertex < graph.vertices(); ++vertex) {
    const Vertex parent = search.parents()[static_cast<std::size_t>(vertex)];
    if (!is_right(graph, levels, root, vertex, parent)) ++wrong;
    if (parent == nobody) continue;
    ++reached;
    edges += static_cast<std::int64_t>(graph.neighbours(vertex).size());
  }
  std::printf("  root %d, %ld of %d vertices reached in %d levels; %ld parents are wrong\n", root, reached,
              graph.vertices(), *std::max_element(levels.begin(), levels.end()), wrong);
  return program_report("bfs", scale, seconds, static_cast<double>(edges) / 2 / seconds * 1e-6,
                        "million edges/s", wrong == 0);
}
