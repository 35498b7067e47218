// A graph with a few vertices of very many edges: a Kronecker graph as in the Graph500 specification, with
// 2^scale vertices and 16 times as many edges, each in both directions, duplicates and loops included.
//
// Each thread owns a block of vertices and writes only their adjacency; it looks at all edges for that.
#ifndef CRATON_BENCH_APPS_GRAPH_HPP
#define CRATON_BENCH_APPS_GRAPH_HPP

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "program.h"

using Vertex = std::int32_t;

struct Range {
  Vertex first, end;
};

// The block of a thread of `threads`; the threads' blocks follow each other.
inline Range owned(Vertex vertices, int thread, int threads) {
  const auto bound = [=](int t) {
    return static_cast<Vertex>(static_cast<std::int64_t>(vertices) * t / threads);
  };
  return {bound(thread), bound(thread + 1)};
}

class Graph {
 public:
  explicit Graph(int scale)
      : vertices_(Vertex{1} << scale), starts_(static_cast<std::size_t>(vertices_) + 1) {
    const std::vector<Edge> edges = draw_edges(scale);
#pragma omp parallel
    count_own(edges, omp_get_thread_num(), omp_get_num_threads());
    for (std::size_t vertex = 1; vertex < starts_.size(); ++vertex) starts_[vertex] += starts_[vertex - 1];
    targets_.resize(static_cast<std::size_t>(starts_.back()));
#pragma omp parallel
    fill_own(edges, omp_get_thread_num(), omp_get_num_threads());
  }

  Vertex vertices() const {
    return vertices_;
  }
  std::int64_t edges() const {
    return starts_.back();
  }
  std::span<const Vertex> neighbours(Vertex vertex) const {
    const auto at = static_cast<std::size_t>(vertex);
    return {targets_.data() + starts_[at], targets_.data() + starts_[at + 1]};
  }

 private:
  struct Edge {
    Vertex ends[2];
  };

  // Scatters vertices that would otherwise have most edges the smaller they are; one to one.
  static Vertex scatter(std::uint64_t vertex, int scale) {
    const std::uint64_t mask = (UINT64_C(1) << scale) - 1;
    vertex = (vertex * UINT64_C(0x9e3779b97f4a7c15)) & mask;
    vertex ^= vertex >> (scale / 2 + 1);
    vertex = (vertex * UINT64_C(0xbf58476d1ce4e5b9)) & mask;
    return static_cast<Vertex>(vertex);
  }

  static std::vector<Edge> draw_edges(int scale) {
    const std::int64_t count = INT64_C(16) << scale;
    std::vector<Edge> edges(static_cast<std::size_t>(count));
#pragma omp parallel for schedule(static)
    for (std::int64_t edge = 0; edge < count; ++edge) {
      std::uint64_t from = 0;
      std::uint64_t to = 0;
      for (int bit = 0; bit < scale; ++bit) {  // a quadrant of the adjacency matrix: 0.57, 0.19, 0.19, 0.05
        const double drawn = program_fraction(program_mix(static_cast<std::uint64_t>(edge * 64 + bit)));
        from = 2 * from + (drawn >= 0.76 ? 1 : 0);
        to = 2 * to + ((drawn >= 0.57 && drawn < 0.76) || drawn >= 0.95 ? 1 : 0);
      }
      edges[static_cast<std::size_t>(edge)] = {{scatter(from, scale), scatter(to, scale)}};
    }
    return edges;
  }

  template <typename Take>
  void for_own(const std::vector<Edge>& edges, int thread, int threads, Take take) const {
    const Range own = owned(vertices_, thread, threads);
    for (const Edge& edge : edges) {
      for (int end = 0; end < 2; ++end) {
        const Vertex from = edge.ends[end];
        if (from >= own.first && from < own.end) take(static_cast<std::size_t>(from), edge.ends[1 - end]);
      }
    }
  }

  void count_own(const std::vector<Edge>& edges, int thread, int threads) {
    for_own(edges, thread, threads, [this](std::size_t from, Vertex) { ++starts_[from + 1]; });
  }

  void fill_own(const std::vector<Edge>& edges, int thread, int threads) {
    const Range own = owned(vertices_, thread, threads);
    std::vector<std::int64_t> places(starts_.begin() + own.first, starts_.begin() + own.end);
    for_own(edges, thread, threads, [&](std::size_t from, Vertex to) {
      targets_[static_cast<std::size_t>(places[from - static_cast<std::size_t>(own.first)]++)] = to;
    });
  }

  Vertex vertices_;
  std::vector<std::int64_t>
      starts_;  // vertex v's neighbours are targets_[starts_[v]] to before targets_[starts_[v + 1]]
  std::vector<Vertex> targets_;
};

#endif
