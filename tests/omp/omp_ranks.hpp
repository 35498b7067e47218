/// \file
/// The OpenMP runtime over real processes, for tests. Code compiled with -fopenmp calls it, since the tests
/// are linked without libgomp. Globals and stacks are not shared here: what threads share lies in the shared
/// heap, and they reach it by pointers that each rank has set to the same address.
#pragma once

#include <cstddef>
#include <functional>
#include <ostream>
#include <string>
#include <vector>

#include "fabric/types.hpp"
#include "omp/settings.hpp"
#include "space_ranks.hpp"

namespace craton::omp::test {

/// A job: ranks, threads a rank, how they are joined.
struct Shape {
  fabric::Rank ranks;
  std::uint32_t threads;
  const space::test::Machine* machine;

  std::uint32_t size() const noexcept { return ranks * threads; }
  friend std::ostream& operator<<(std::ostream& out, const Shape& shape) {
    return out << shape.ranks << "x" << shape.threads << " " << *shape.machine;
  }
};

/// One to four ranks of one to four threads, in shared memory and over tcp.
extern const std::vector<Shape> shapes;
/// A name for each, for GoogleTest.
std::string name_of(const Shape& shape);

/// What the master's code has. Checks that fail end the job with their text.
struct Job {
  fabric::Rank rank;

  /// \throws std::runtime_error if it does not hold
  void check(bool holds, const std::string& otherwise) const;
};

/// This rank, and the job's shape, for code of the program in regions, which must not capture anything:
/// stacks are not shared.
fabric::Rank here() noexcept;
const Shape& shape() noexcept;

/// Runs `body` as the program's main at rank 0. \param shared gets, on each rank before, `bytes` zero bytes
/// that all ranks share; null: none \returns what failed; empty if nothing did
std::string run_program(const Shape& of, Settings settings, void** shared, std::size_t bytes,
                        const std::function<void(const Job&)>& body, int limit_s = 300);

}  // namespace craton::omp::test
