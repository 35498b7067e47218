/// \file
/// The conformance suite of the fabric's contract (src/fabric/fabric.hpp). A case is a function that every
/// rank of a job runs; it is written once and instantiated over the simulator (conformance_sim.cpp) and over
/// every real wiring (conformance_wired.cpp). A case reports by throwing, or from handlers by
/// RankContext::fail.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "fabric/barrier.hpp"
#include "fabric/fabric.hpp"
#include "fabric/region_memory.hpp"
#include "fabric/sim/random.hpp"
#include "fabric/types.hpp"

namespace craton::fabric::conformance {

/// Of the barrier that comes with a RankContext; cases have the ones above.
inline constexpr HandlerId barrier_handler = first_free_handler;
inline constexpr HandlerId first_case_handler = first_free_handler + 1;
/// The region that RankContext::start registers; cases have the ones above.
inline constexpr RegionId main_region = 1;

/// What a rank's body works with. The threads of run_threads may use it too, but `random` and barrier().
class RankContext {
 public:
  RankContext(Fabric& on, std::uint64_t seed, std::optional<Rank> who_dies);
  virtual ~RankContext() = default;
  RankContext(const RankContext&) = delete;
  RankContext& operator=(const RankContext&) = delete;

  Fabric& fabric;
  sim::Random random;
  const std::optional<Rank> victim;  ///< the rank that calls die_soon, in cases where one does
  Rank rank() const noexcept { return fabric.rank(); }
  Rank size() const noexcept { return fabric.size(); }
  Rank next() const noexcept { return (rank() + 1) % size(); }

  /// A count that fits: the simulator runs each case with hundreds of seeds, the real wirings once.
  virtual std::uint64_t count(std::uint64_t simulated, std::uint64_t real) const noexcept = 0;
  /// What a program does between its own loads and stores: in the simulator, others may run.
  virtual void compute() = 0;
  /// Runs `body(0)` to `body(threads - 1)`, each in a thread of this rank, and waits for all.
  virtual void run_threads(unsigned threads, const std::function<void(unsigned)>& body) = 0;
  /// This rank will be killed, at a moment that nobody knows. Returns at once.
  virtual void die_soon() = 0;
  /// Reports a failure where nothing can be thrown. The first one counts.
  virtual void fail(const std::string& what) noexcept = 0;

  /// When a wait that begins now has failed.
  TimeNs deadline() const noexcept { return fabric.clock().now_ns() + limit_ns; }
  static constexpr TimeNs limit_ns = 120'000'000'000;

  /// After the handlers have been set: registers `bytes` zero bytes of this rank as main_region, and a
  /// barrier. \returns them
  std::byte* start(std::size_t bytes);
  /// Ends the main region. Only if no rank has died.
  void stop();
  /// \throws if not every rank comes in time
  void barrier();
  /// A barrier that may fail: it is the last one then.
  Status try_barrier() { return barrier_.wait(deadline()); }

  /// wait_until with a limit. \throws if it passes
  void wait_for(const char* what, FunctionRef<bool()> condition);
  /// Waits for one operation or several, with a limit. \returns their status
  Status finish(Completion& completion);
  /// The same, and they must have gone well.
  void finish_ok(Completion& completion);

  /// Makes something that lives as long as the fabric: for handlers that may run after the case, since in
  /// jobs in which a rank has died the others cannot part in order.
  template <typename T, typename... Arguments>
  T& keep(Arguments&&... arguments) {
    auto made = std::make_shared<T>(std::forward<Arguments>(arguments)...);
    kept_.push_back(made);
    return *made;
  }

  // One operation, and its completion.
  Status get(void* destination, RemoteAddress source, std::size_t bytes);
  Status put(RemoteAddress destination, const void* source, std::size_t bytes);
  /// These must go well. \returns what the word was before
  std::uint64_t fetch_add(RemoteAddress word, std::uint64_t addend);
  std::uint64_t compare_exchange(RemoteAddress word, std::uint64_t expected, std::uint64_t desired);
  std::uint64_t swap(RemoteAddress word, std::uint64_t value);

 private:
  Barrier barrier_;
  std::optional<RegionMemory> memory_;
  std::vector<std::shared_ptr<void>> kept_;
};

struct Case {
  const char* name;
  void (*body)(RankContext&);
  Rank ranks_at_least = 2;
  Rank ranks_at_most = 4;
  bool victim = false;  ///< the last rank dies

  friend std::ostream& operator<<(std::ostream& out, const Case& one) { return out << one.name; }
};

/// All cases. Each file of cases gives its own.
std::vector<Case> all_cases();
std::vector<Case> one_sided_cases();
std::vector<Case> batch_cases();
std::vector<Case> atomic_cases();
std::vector<Case> message_cases();
std::vector<Case> waiting_cases();
std::vector<Case> death_cases();

// ---- Bytes that tell where they come from

/// The byte at `position` of the sequence named `key`.
constexpr std::byte pattern_byte(std::uint64_t key, std::uint64_t position) noexcept {
  return static_cast<std::byte>(sim::Random::mix(key * 0x9e3779b97f4a7c15U + position / 8) >>
                                (position % 8 * 8));
}
std::vector<std::byte> pattern(std::uint64_t key, std::size_t bytes);
/// \throws naming the first byte that differs
void check_pattern(const char* what, std::uint64_t key, const std::byte* bytes, std::size_t count);
/// \returns the first position that differs, or `count`
std::size_t first_difference(std::uint64_t key, const std::byte* bytes, std::size_t count) noexcept;

// ---- Checks: throw a line that says what was seen

template <typename T>
std::string shown(const T& value) {
  std::ostringstream out;
  if constexpr (std::is_enum_v<T>) {
    out << static_cast<std::uint64_t>(value);
  } else {
    out << value;
  }
  return out.str();
}

/// Throws; and keeps the line for last_failed_check.
[[noreturn]] void check_failed(const char* file, int line, const std::string& what);
/// The last line that check_failed threw, for a signal handler: what unwinds a case may end it with an
/// assertion (a Completion must not go while operations are in flight), and then the line is what matters.
const char* last_failed_check() noexcept;
void forget_failed_check() noexcept;

template <typename Seen, typename Expected>
void check_equal(const char* file, int line, const char* text, const Seen& seen, const Expected& expected) {
  if (!(seen == expected))
    check_failed(file, line, std::string(text) + ": saw " + shown(seen) + ", not " + shown(expected));
}

}  // namespace craton::fabric::conformance

#define CHECK(...)                                                                                     \
  do {                                                                                                 \
    if (!(__VA_ARGS__)) ::craton::fabric::conformance::check_failed(__FILE__, __LINE__, #__VA_ARGS__); \
  } while (false)
#define CHECK_EQUAL(seen, ...) \
  ::craton::fabric::conformance::check_equal(__FILE__, __LINE__, #seen, (seen), (__VA_ARGS__))
