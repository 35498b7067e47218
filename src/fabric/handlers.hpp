/// \file
/// Who gets a rank's messages, and the messages that wait for it.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

#include "fabric/fabric.hpp"
#include "fabric/transport.hpp"
#include "fabric/types.hpp"

namespace craton::fabric {

/// The handlers of a rank. Messages that a rank sends itself, and those that come before their handler is
/// set, wait here for the next poll; those of one source and handler keep their order.
///
/// Threads: any may set and queue; one at a time delivers and polls, that which holds the poll.
class Handlers final : public Pollable {
 public:
  /// Once for each id; wake_handler is built in. Messages that waited for it are delivered by the next poll,
  /// of which the caller has to see to it that there is one.
  void set(HandlerId id, Handler handler, void* context);
  /// Has the next poll deliver a copy of the message.
  void queue(Rank source, HandlerId id, const std::byte* payload, std::size_t bytes);
  /// Calls the handler at once, unless it is not set or an earlier message waits for it: then as queue().
  void deliver(Rank source, HandlerId id, const std::byte* payload, std::size_t bytes);

  bool poll() override;
  bool ready_to_sleep() override;

  /// To be called by who sends a message to whichever rank: it may be the cause of one that comes here, by
  /// way of a rank in another process, where the thread sanitizer does not look. Without being told it takes
  /// what was written before a barrier and is read by a handler after it for a race. Does nothing in other
  /// builds.
  void sending() noexcept;

 private:
  struct Entry {
    std::atomic<Handler> handler{nullptr};
    void* context = nullptr;
    std::atomic<std::uint32_t> parked{0};  ///< messages in queue_ that later ones must not overtake
  };
  struct Queued {
    Rank source;
    HandlerId id;
    std::vector<std::byte> payload;
  };

  void run(Rank source, HandlerId id, const std::byte* payload, std::size_t bytes);
  bool is_deliverable(const Queued& message) const noexcept;

  std::array<Entry, max_handlers> entries_{};
  std::mutex lock_;
  std::vector<Queued> queue_;           ///< oldest first
  std::atomic<std::size_t> queued_{0};  ///< its size, so that most polls need no lock
  std::size_t queued_bytes_ = 0;
};

}  // namespace craton::fabric
