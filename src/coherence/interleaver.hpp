/// \file
/// Several pieces of straight-line code at a time on one thread: while one waits for the network, another
/// goes on. What fences that publish many blocks are made of (DESIGN, decision 9): each block costs three
/// round trips one after the other, all blocks together hardly more. Faults that fetch blocks ahead do the
/// same.
///
///   run() ─▶ strand 0: action 0 ... waits │ action 3 ...
///            strand 1: action 1 ...... waits │ ...           the thread sleeps when all of them wait
///            strand 2: action 2 . waits │ ...
///
/// A strand is a coroutine with a stack of its own. By the stack that it is on wait() tells whether it
/// suspends a strand or has to block the thread, so the code in between knows nothing of this.
#pragma once

#include <atomic>
#include <cstddef>
#include <exception>
#include <memory>
#include <vector>

#include "base/clock.hpp"
#include "base/function_ref.hpp"
#include "fabric/completion.hpp"
#include "fabric/fabric.hpp"

namespace craton::coherence {

class Interleaver {
 public:
  /// \param width how many strands there are at most; 0 or 1: none, actions run one after the other
  Interleaver(fabric::Fabric& fabric, unsigned width);
  ~Interleaver();
  Interleaver(const Interleaver&) = delete;
  Interleaver& operator=(const Interleaver&) = delete;

  /// Calls `action` with 0 to `count` - 1, several at a time, in this order but for their waits; one after
  /// the other while another thread's run is under way. Any thread. An action must not block but by wait()
  /// and wait_until(); takes locks that another action may hold only if they are free. After the first
  /// exception nothing more is begun. \throws that exception, Error out_of_resources, what Fabric::wait_until
  /// throws
  void run(std::size_t count, FunctionRef<void(std::size_t)> action);

  /// For whoever may be on a strand: any thread. Block. As Fabric::wait, but \throws Error peer_lost
  void wait(fabric::Completion& completion);
  /// As Fabric::wait_until.
  fabric::Status wait_until(FunctionRef<bool()> condition, TimeNs deadline_ns = no_deadline);

 private:
  struct Strand;
  using Actions = FunctionRef<void(std::size_t)>;

  void make_strands();
  static void main(void* strand);
  void work_off(Strand& strand);
  void resume_all(std::size_t used);
  bool is_ready(const Strand& strand) const;
  /// The strand on whose stack the caller is; null if on none.
  Strand* current() const noexcept;

  fabric::Fabric& fabric_;
  const unsigned width_;
  std::vector<std::unique_ptr<Strand>> strands_;  ///< made by the first run that needs them
  std::atomic<bool> in_use_{false};
  std::atomic<bool> running_{false};
  // Of the run.
  Actions* action_ = nullptr;
  std::size_t count_ = 0;
  std::size_t next_ = 0;
  std::exception_ptr failure_;  ///< the first of an action
  bool unwinding_ = false;      ///< waiting itself has failed: strands end at once
};

}  // namespace craton::coherence
