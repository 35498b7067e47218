/// \file
/// An unmodified program on the ranks of a job: its data, heap and stacks become the space's, and the
/// program's first thread runs on rank 0.
///
///     rank 0                                    other ranks
///     first thread   main, on a stack in the    first thread   OpenMP regions, likewise
///                    space
///     initial thread (the kernel's stack)       initial thread
///                    waits for the end, and ends the job: no thread on a shared stack could
///
/// Threads: made by the initial thread of each rank before the program has started; then any.
#pragma once

#include <sys/types.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/function_ref.hpp"
#include "capi/open_space.hpp"
#include "job/job.hpp"
#include "omp/platform.hpp"
#include "omp/settings.hpp"
#include "posix/image.hpp"
#include "posix/stacks.hpp"
#include "space/owned_atomics.hpp"

namespace craton::posix {

struct DataPart;

class SharedProgram final : public omp::Platform {
 public:
  /// Joins the job and shares the program's memory. Collective; blocks. \throws Error, also where ranks are
  /// not the same program at the same addresses
  SharedProgram();
  ~SharedProgram() override;

  fabric::Rank rank() const noexcept { return job_->rank(); }
  space::Heap& heap() noexcept override { return open_->heap(); }
  std::uint32_t mutexes() override { return omp_mutexes_; }
  const char* remedy_for_more_mutexes() const noexcept override { return "craton run --omp-locks"; }
  /// For what the program allocates: large memory from a heap of its own, and either from the other where it
  /// is full. Any thread; blocks. \throws Error out_of_resources, peer_lost
  space::Heap::Fresh allocate(std::size_t bytes);
  /// The program has limited what it may have: of both heaps, all ranks together; and of addresses that the
  /// kernel maps for it, each rank. Called on every rank; in handlers, too. \param heap_bytes, address_bytes
  /// unlimited_bytes: no more
  void limit_memory(std::uint64_t heap_bytes, std::uint64_t address_bytes) noexcept;
  bool is_memory_limited() const noexcept { return open_->are_heaps_limited(); }
  std::uint64_t address_limit() const noexcept { return address_limit_.load(std::memory_order_relaxed); }
  static constexpr std::uint64_t unlimited_bytes = space::HeapBudget::unlimited_bytes;
  /// The heap that an address lies in; null: none.
  space::Heap* heap_of(const void* address) noexcept;
  Stacks& stacks() noexcept { return *stacks_; }
  space::OwnedSegment& stack_segment() noexcept { return *stack_segment_; }
  space::OwnedAtomics& stack_atomics() noexcept { return *stack_atomics_; }
  /// All memory that ranks share.
  std::vector<AddressSpan> shared_spans();
  /// A mutex for what has no room for one of its own. Different addresses may have the same.
  space::MutexId mutex_of(const void* address) const noexcept;
  /// Others, that the program itself holds for a while. \param key below 16
  space::MutexId mutex_of_key(std::uint32_t key) const noexcept;
  /// One of these two. Publishes where another rank may take it. \throws Error
  void unlock(space::MutexId mutex);
  /// omp::Platform: outside of regions only rank 0 runs the program's code, unless a rank has ever started a
  /// thread.
  bool others_may_run() noexcept override { return threads_elsewhere_.load(std::memory_order_relaxed); }
  void note_threads_elsewhere() noexcept { threads_elsewhere_.store(true); }
  /// Another rank's thread may run the program's code now.
  bool others_run() noexcept;
  const Image& image() const noexcept { return image_; }
  /// Whether what a caller at this address allocates stays private: the C library and the loader.
  bool allocates_privately(const void* caller) const noexcept { return holds(private_callers_, caller); }
  /// Whether it is code of the program or of its own libraries, not of the system's.
  bool is_own_code(const void* address) const noexcept;
  /// Whether it is the C++ library's.
  bool is_cpp_library_code(const void* address) const noexcept { return holds(cpp_library_code_, address); }
  /// Whether threads that the program starts run on all ranks (--spread-threads).
  bool spreads_threads() const noexcept { return job_->options().flag(Option::spread_threads); }
  /// In the part of the heap, data or stacks that all ranks see.
  bool is_shared(const void* address) noexcept;
  /// Whether the kernel may find a page there that is not accessible: shared, and no stack of this rank's
  /// own.
  bool may_fault(const void* address) noexcept;

  /// Runs the program: `body` on its first thread, at rank 0; elsewhere what OpenMP regions need. Blocks the
  /// initial thread to the end of the job. Does not return.
  [[noreturn]] void run(Stacks::Body body);
  /// The program ends with `status`, its handlers have run: tells the initial thread, and waits for ever.
  [[noreturn]] void finish(int status);
  /// Ends the job with `status` whatever the other threads are doing. From any rank.
  [[noreturn]] void end_at_once(int status) noexcept;
  /// _exit(status): the same, but first the ranks tell what they have counted, if they are to. Waits for
  /// ever.
  [[noreturn]] void end_without_exit(int status) noexcept;
  /// Before the C library's exit() and quick_exit(): a second thread there would find no handler left, and
  /// end the process while the first one's run. Those of this rank that come later wait for ever.
  void begin_exit() noexcept;
  /// exit(status) on a rank other than 0: it is rank 0 that does it. Waits for ever.
  [[noreturn]] void exit_on_first(int status) noexcept;
  /// quick_exit(status): the handlers that the program has registered on this rank, then the end of the job.
  [[noreturn]] void end_after_quick_exit(int status);
  /// The last of those handlers. Those of rank 0, where main registers them, come after those of others.
  [[noreturn]] void end_quickly() noexcept;

  /// No thread of the program runs on this rank any more: main has called pthread_exit(). At rank 0 that is
  /// exit(0), once none runs on the others.
  void last_thread_ended() noexcept;
  /// Rank 0: the same, and none does.
  void exit_after_threads() noexcept { ask_for_exit(0, asked_in_order); }

  /// False in a child that shares this process's memory, until it executes another program.
  bool is_this_process() const noexcept { return ::getpid() == process_; }
  /// The process of rank 0, as its own node counts.
  std::uint64_t first_process() const noexcept { return processes_[0]; }
  /// Where strtok() goes on, of all ranks.
  char*& token() noexcept { return *token_; }
  /// Of a rank of this node; 0 of others.
  pid_t process_of(fabric::Rank rank) noexcept;

  // omp::Platform
  fabric::Fabric& fabric() override { return job_->fabric(); }
  space::Space& space() override { return open_->space(); }
  void start_thread(void (*body)(void*), void* argument) override;
  void run_atomically(void* address, std::size_t bytes, FunctionRef<void(void* target)> body) override;
  void flush_output() noexcept override;
  [[noreturn]] void fail(const std::string& message) noexcept override;
  bool stays_on_rank(const void* function) noexcept override;
  /// A thread that begins with it may run on any rank. Else the first time a line says what would have it so.
  bool thread_may_leave(const void* function) noexcept;
  fabric::RegionId first_region() override;
  fabric::HandlerId first_handler() override;

 private:
  static constexpr fabric::HandlerId end_handler = fabric::max_handlers - 2;

  void agree_on_image(space::Agreement& agreement);
  void share_data();
  void share_part(const LoadedObject& object, const DataPart& part);
  std::uint32_t threads_a_rank();
  void write_lines() noexcept;
  static void* work(void* self);
  static void hear(void* self, fabric::Rank source, const std::byte* payload, std::size_t bytes) noexcept;
  static void* exit_here(void* self);
  void tell_rank(fabric::Rank to, std::uint32_t what, int status) noexcept;
  void wait_for_end();
  bool comes_soon(FunctionRef<bool()> event);
  bool others_have_left();
  /// Once. \param what "threads"
  void tell_what_stays(const char* what, const void* function) noexcept;

  const Image image_;
  std::unique_ptr<job::Job> job_;
  const std::uint32_t omp_mutexes_;
  const omp::Settings settings_;
  std::vector<AddressSpan> private_callers_;
  std::vector<AddressSpan> own_code_;  ///< of the objects that share their data, the executable's first
  std::vector<AddressSpan> cpp_library_code_;
  std::once_flag staying_is_told_;
  std::optional<space::Agreement> agreement_;
  std::optional<capi::OpenSpace> open_;
  space::OwnedSegment* stack_segment_ = nullptr;
  std::optional<space::OwnedAtomics> stack_atomics_;
  std::optional<Stacks> stacks_;
  const pid_t process_;
  std::vector<std::uint64_t> processes_;  ///< of all ranks, as their nodes count
  char** token_ = nullptr;                ///< in the heap
  std::atomic<bool> writes_lines_{false};
  std::atomic<bool> threads_elsewhere_{false};  ///< a rank other than 0 has started some
  std::atomic<std::uint64_t> address_limit_{unlimited_bytes};
  std::atomic<std::uint32_t> finished_{0};  ///< a futex
  std::atomic<int> status_{0};
  std::atomic<pid_t> exiting_{0};  ///< the thread that begin_exit() let through
  // Rank 0, of an exit() that none of its threads can do: the status below these bits; 0: nobody asked.
  static constexpr std::uint64_t was_asked = std::uint64_t{1} << 32U;
  static constexpr std::uint64_t asked_in_order = std::uint64_t{1} << 33U;
  static constexpr std::uint64_t asked_quickly = std::uint64_t{1} << 34U;  ///< by quick_exit()
  std::atomic<std::uint64_t> asked_{0};
  void ask_for_exit(int status, std::uint64_t how) noexcept;
  void end_now(int status) noexcept;
  int asked_status() const noexcept { return static_cast<int>(static_cast<std::uint32_t>(asked_.load())); }
  std::atomic<bool> asker_has_written_{false};
  std::atomic<fabric::Rank> ranks_left_{0};  ///< rank 0: those that run nothing of the program any more
  std::atomic<fabric::Rank> ranks_stay_{0};  ///< rank 0: those where threads of the program still run
};

/// After another rank has died: that one is the cause, and whoever started the ranks says so and ends them.
/// Returns after ten seconds if nobody does.
void wait_for_whoever_ends_us() noexcept;

/// The program of this process; null where it is none of a job's, or not yet.
SharedProgram* shared_program() noexcept;
void set_shared_program(SharedProgram* program) noexcept;

/// Runs what may meet the end of another rank, which ends the job.
template <typename Body>
auto guarded(SharedProgram& program, const Body& body) noexcept {
  try {
    return body();
  } catch (const Error& error) {
    program.fail(error.what());
  }
}

}  // namespace craton::posix
