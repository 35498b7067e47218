/// \file
/// Ranks with a coherent space, and a page that they share outside it, by which rank 0 steers the others:
/// what is measured must not be what the measuring itself sends.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <new>
#include <string>
#include <string_view>

#include "frame/arguments.hpp"
#include "frame/measure.hpp"
#include "frame/report.hpp"
#include "frame/shared_ring.hpp"
#include "frame/two_ranks.hpp"
#include "space/space.hpp"

namespace craton::bench {

inline constexpr std::string_view space_kernel = "space";
inline constexpr const char* transports[] = {"shm", "tcp"};

/// Memory that this process and those that it will fork share; zero at first.
class ForkedMemory {
 public:
  /// \throws Error
  explicit ForkedMemory(std::size_t bytes);
  ForkedMemory(const ForkedMemory&) = delete;
  ForkedMemory& operator=(const ForkedMemory&) = delete;
  ~ForkedMemory();
  std::byte* data() const noexcept { return data_; }
  std::size_t bytes() const noexcept { return bytes_; }

 private:
  std::size_t bytes_;
  std::byte* data_;
};

/// What the target is to do next. Which orders there are each part knows.
using Order = std::uint32_t;
inline constexpr Order quit_order = 0;

/// Steers one target. In ForkedMemory, zero at first.
class Steering {
 public:
  // Rank 0.
  void order(Order what, std::uint64_t argument = 0) noexcept;
  /// Lets the target go on where it computes or sleeps.
  void let_go() noexcept { released_.publish(orders_.load()); }
  /// Until the target has done the last order.
  void wait_until_done() noexcept;

  // The target.
  /// The next order, for which it sleeps.
  Order next() noexcept;
  std::uint64_t argument() const noexcept { return argument_.load(std::memory_order_relaxed); }
  void done() noexcept { done_.publish(seen_); }
  /// Computes without a system call, or sleeps, until it is let go.
  void compute() const noexcept;
  void sleep() noexcept;

 private:
  alignas(64) SharedCounter orders_;
  alignas(64) SharedCounter released_;
  alignas(64) SharedCounter done_;
  std::atomic<Order> what_;
  std::atomic<std::uint64_t> argument_;
  std::uint32_t seen_;  // the target's
};

/// A T in memory that is shared with the ranks to come.
template <typename T>
class Forked {
 public:
  Forked() : memory_(sizeof(T)), object_(new (memory_.data()) T) {}
  T& operator*() const noexcept { return *object_; }
  T* operator->() const noexcept { return object_; }

 private:
  ForkedMemory memory_;
  T* object_;
};

/// A rank of run_space().
struct SpaceRank {
  fabric::WiredFabric& fabric;
  space::Space& space;

  fabric::Rank rank() const noexcept { return fabric.rank(); }
  fabric::Rank size() const noexcept { return fabric.size(); }
  void barrier(std::uint32_t site = 0) const { space.barrier().wait(site); }
};

/// Runs `body` on `size` ranks over "shm" or "tcp" (each a node of its own) and waits for all. \throws Error
void run_space(std::string_view transport, fabric::Rank size, const space::SpaceOptions& options,
               const std::function<void(SpaceRank&)>& body);

// The parts of the kernel; each prints its samples.
void measure_faults(const Arguments& arguments, std::string_view transport);
void measure_barrier(const Arguments& arguments);
void measure_merge(const Arguments& arguments);
void measure_fences(const Arguments& arguments, std::string_view transport);
void measure_computing(const Arguments& arguments, std::string_view transport);
void measure_remote_write(const Arguments& arguments, std::string_view transport);
void measure_dials(const Arguments& arguments, std::string_view transport);
void measure_notices(const Arguments& arguments, std::string_view transport);
void measure_reading(const Arguments& arguments, std::string_view transport);
void measure_false_sharing(const Arguments& arguments, std::string_view transport);
void measure_strong(const Arguments& arguments, std::string_view transport);

}  // namespace craton::bench
