/// \file
/// Synchronisation objects of the program (mutexes, conditions, semaphores, ...) that lie in memory which all
/// ranks share: each is a few words of state, in the object itself, that one thread of all ranks changes at a
/// time.
///
///     enter(object): a mutex of the space, by the object's page ─▶ look at the state, change it ─▶ leave
///     it does not hold yet: leave, sleep, and look again when somebody has said that the object changed
///     it is a matter of who comes when (conditions, barriers): leave with a number, sleep until somebody
///     lets it on, and go on without another look
///
/// The space's mutex is what orders the program's memory: what a thread wrote before it left, the next one to
/// enter sees. Costs two atomic instructions and a release where the rank had the mutex last, else a
/// hand-over; objects of a page have one mutex, since the page goes from rank to rank with them anyway.
/// Wake-ups are a message to each rank, only where somebody waits; there they wake who waits for that object.
/// While no other rank runs code of the program, nothing is released.
///
/// Threads: any of the program, not in signal handlers. Blocks.
#pragma once

#include <pthread.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>

#include "base/clock.hpp"
#include "base/function_ref.hpp"
#include "posix/waits/host.hpp"

namespace craton::posix {

class Monitor {
 public:
  /// Before the program starts. \param host must outlive it
  explicit Monitor(WaitHost& host) noexcept;
  Monitor(const Monitor&) = delete;
  Monitor& operator=(const Monitor&) = delete;

  /// Calls `step` while no other thread of any rank is inside for the same object.
  void inside(const void* object, FunctionRef<void()> step) { host_.inside(object, step); }
  /// Calls `step` likewise until it returns true, sleeping in between until it is woken.
  /// \param deadline_ns of the fabric's clock. \returns false if it has passed
  bool wait(const void* object, FunctionRef<bool()> step, TimeNs deadline_ns = no_deadline);
  enum class Slept { holds, woken, timed_out };
  /// As wait(), but sleeps at most once: until it is woken, or for no reason, for what is not only a matter
  /// of the object's state. Who does not come back after that looks whether another one is to.
  Slept wait_once(const void* object, FunctionRef<bool()> step, TimeNs deadline_ns);
  /// Ranks, a bit each; where there are more than 32, several have one.
  static constexpr std::uint32_t every_rank = ~std::uint32_t{0};
  /// Of those who wait for the object all look again, or one of each rank: of some ranks, after
  /// inside() has changed something that they wait for.
  void wake_all(const void* object, std::uint32_t ranks = every_rank);
  void wake_one(const void* object, std::uint32_t ranks);
  /// Those of which all are of this rank's node.
  std::uint32_t near_ranks() const noexcept { return near_ranks_; }
  std::uint32_t bit_here() const noexcept { return bit_of(host_.rank()); }
  /// In inside(), of ranks that have threads waiting for the object: those of which a thread is to look next,
  /// which lose their bits. One, the next after this rank that waits; all, where bits are of several ranks.
  std::uint32_t choose(std::uint32_t& waiting) const noexcept;
  /// In inside(): whether this rank has threads waiting for the object, beside the calling one.
  void mark_here(const void* object, std::uint32_t& waiting) noexcept;
  /// A thread of this rank that has been cancelled finds that out now if it sleeps.
  void stir(pthread_t thread) noexcept;

  /// A thread's place among those who are let on in their order.
  class Turn;
  /// The first of numbers that no other object or time has: those of a quarter of a billion turns after it as
  /// well.
  std::uint64_t fresh_number() noexcept;
  /// Who has entered a turn of the object with a number from `first` up to `end` goes on, of some ranks. Each
  /// number once: else who has one is let on that another one had, and was let on with.
  void let_on(const void* object, std::uint64_t first, std::uint64_t end, std::uint32_t ranks = every_rank);
  /// The same for those of this rank only. Also in handlers of messages.
  void let_on_here(const void* object, std::uint64_t first, std::uint64_t end) noexcept;

  /// A message has come. In handlers of the fabric.
  void arrived(const WaitMessage& message, fabric::Rank source) noexcept { wake_here(message, source); }

  TimeNs now_ns() const noexcept { return host_.now_ns(); }
  WaitHost& host() noexcept { return host_; }

 private:
  struct Sleeper;
  class Registered;
  using Kind = WaitMessage::Kind;
  /// Sleepers of objects whose addresses fall here.
  struct Bucket {
    std::mutex lock;  ///< in signal sections and handlers of messages, for moments
    Sleeper* first = nullptr;
  };

  Bucket& bucket_of(const void* object) noexcept;
  bool others_wait_here(const void* object) noexcept;
  /// Another of this rank's looks in place of a thread that has been woken and looks no more.
  void pass_on(const void* object) noexcept;
  void add(Sleeper& sleeper) noexcept;
  void remove(Sleeper& sleeper) noexcept;
  void wake_here(const WaitMessage& message, fabric::Rank by) noexcept;
  void tell(const WaitMessage& message, std::uint32_t ranks = every_rank);
  bool bits_are_shared() const noexcept { return host_.ranks() > bits; }
  static std::uint32_t bit_of(fabric::Rank rank) noexcept { return std::uint32_t{1} << (rank % bits); }
  static constexpr unsigned bits = 32;

  WaitHost& host_;
  std::uint32_t near_ranks_ = every_rank;
  std::array<Bucket, 256> buckets_;
  std::atomic<std::uint64_t> fresh_{0};
};

struct Monitor::Sleeper {
  enum : std::uint32_t { asleep, woken, stirred };

  const void* object;
  pthread_t thread;
  bool is_numbered = false;
  std::uint64_t number = 0;
  bool has_got_it = false;                   ///< it looks no more; in inside()
  std::atomic<std::uint32_t> state{asleep};  ///< a futex
  fabric::Rank by = 0;                       ///< who has woken it
  Sleeper* next = nullptr;
  Sleeper** link = nullptr;  ///< what points to it; null: it is in no list
};

class Monitor::Turn {
 public:
  Turn(Monitor& monitor, const void* object) noexcept
      : monitor_(monitor), sleeper_{.object = object, .thread = monitor.host().self()} {}
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;
  ~Turn() { monitor_.remove(sleeper_); }

  /// In inside().
  void enter(std::uint64_t number) noexcept;
  std::uint64_t number() const noexcept { return sleeper_.number; }
  bool is_let_on() const noexcept { return sleeper_.state.load() == Sleeper::woken; }
  /// Sleeps at most once. \returns holds: it has been let on
  Slept sleep(TimeNs deadline_ns);
  /// What who has let it on wrote is there to be seen.
  void learn();

 private:
  Monitor& monitor_;
  Sleeper sleeper_;
};

}  // namespace craton::posix
