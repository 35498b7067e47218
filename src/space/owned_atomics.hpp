/// \file
/// Atomic instructions on memory of which each rank has a part (owned_segment.hpp), stacks that is. It is not
/// coherent: who changes a word there hands nothing on, and who finds it changed has learnt nothing. Here is
/// what makes threads synchronise by such words as they do by others.
///
///     any of them    each line of 64 bytes has a strong block (coherence/exclusive.hpp), that of its number:
///                    who runs an instruction there has this block before and after. So what those know who
///                    were there before goes along with it, and nothing is sent while one rank alone comes.
///     an exchange    may be a store that others look for by plain loads, which nobody sees: so before it can
///                    be seen, all other ranks have acquired what this one knows. A message to each, whose
///                    thread acquires, and an answer. Not where it leaves the word as it is, as that of a
///                    thread does which waits for a lock.
///     to zero        what leaves zero on another rank's part (the last decrement of a count of who is left)
///                    is told likewise: whose count it is may look at it by plain loads.
///     a look         of a thread that waits may find a plain store, which nobody saw: so all others publish
///                    what they know after it was made and before it counts, and this rank acquires that.
///
/// Where the segments of the job are causal, these two as well:
///
///     a change       that one of them finds, to what the last one on these bytes left (line_notes.hpp), was
///     a
///                    plain store, as by who frees a lock: it is treated as what a look finds.
///     an address     of memory that ranks share, left by one of them, is likely to be followed by who loads
///                    it, as the head of a list is: it is told as what an exchange leaves.
///
/// Not ordered: plain loads but looks that find other changes than those that are told.
///
/// Threads: any that may fault; not in handlers of messages. Errors: peer_lost, not_supported as
/// OwnedSegment::run_atomic, out_of_resources where a rank cannot start its thread.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "base/clock.hpp"
#include "base/function_ref.hpp"
#include "fabric/fabric.hpp"
#include "space/line_notes.hpp"
#include "space/owned_segment.hpp"
#include "space/space.hpp"

namespace craton::space {

class OwnedAtomics {
 public:
  /// Of the strong blocks.
  static constexpr std::size_t address_bytes = std::size_t{1} << 20U;

  enum class Order { flushed, causal };

  /// Collective; blocks. \param handler the same on all ranks \throws Error
  OwnedAtomics(fabric::Fabric& fabric, Space& space, OwnedSegment& memory, fabric::HandlerId handler,
               Order order);
  OwnedAtomics(const OwnedAtomics&) = delete;
  OwnedAtomics& operator=(const OwnedAtomics&) = delete;
  ~OwnedAtomics() { stop(); }
  /// When no rank uses it any more; the caller sees to a barrier. By one thread.
  void stop() noexcept;

  /// As OwnedSegment::run_atomic. Blocks while another rank has the block.
  void run(void* address, std::size_t bytes, FunctionRef<void(void* target)> instruction);
  /// The same of an exchange. Blocks until all others have answered, too.
  void exchange(void* address, std::size_t bytes, FunctionRef<void(void* target)> instruction);

  /// What a thread makes of what it has found.
  struct Judgement {
    TimeNs wait_ns = 0;     ///< for so long it is worth while to wait for something else to be there
    bool is_known = false;  ///< it has found that before, and learnt what goes with it
  };
  /// A load of at most 8 bytes, by a thread that looks for what others write there. Blocks until all others
  /// have answered, unless what is found is known. \param judge is asked what to do about what is found at
  /// first \param load does it, perhaps on a copy. On another node's part bytes of two words of 8 are loaded
  /// as they are in this rank's copy.
  void look(void* address, std::size_t bytes, FunctionRef<Judgement(std::span<const std::byte> found)> judge,
            FunctionRef<void(void* target)> load);

  /// The strong blocks: nothing for the program.
  const std::byte* order() const noexcept { return order_; }

 private:
  enum class Kind : std::uint32_t { learn, show, renew, answer, refusal };
  struct Asked {
    std::atomic<bool> to_learn{false};  ///< by this rank
    std::atomic<bool> to_show{false};
  };

  /// Whether all others must know what this rank does before they can see that an instruction left `after`.
  using MustBeTold = bool (OwnedAtomics::*)(const void* address, std::uint64_t before,
                                            std::uint64_t after) const;
  bool may_be_looked_for(const void* address, std::uint64_t before, std::uint64_t after) const;
  bool is_changed(const void* /*address*/, std::uint64_t before, std::uint64_t after) const {
    return after != before;
  }

  void in_order(const void* address, FunctionRef<void()> instruction);
  void with_notes(const void* address, FunctionRef<void(LineNotes& notes)> body);
  void run_on_word(void* address, std::size_t bytes, FunctionRef<void(void* target)> instruction,
                   MustBeTold must_be_told);
  void tell_all();
  void ask_all();
  void question_all(Kind kind);
  void tell_those_with_copies(const void* address);
  void send(fabric::Rank rank, Kind kind) noexcept;
  static void arrived(void* self, fabric::Rank source, const std::byte* payload, std::size_t bytes) noexcept;
  void start_thread();
  void serve();
  void serve_once(std::vector<fabric::Rank>& sources);

  Space& space_;
  fabric::Fabric& fabric_;
  OwnedSegment& memory_;
  const fabric::HandlerId handler_;
  const Order order_of_plain_stores_;
  std::byte* order_;
  coherence::SegmentId order_id_;
  std::mutex telling_;  ///< one thread of this rank at a time
  std::atomic<std::uint32_t> answers_{0};
  std::atomic<bool> has_refused_{false};
  // What others have asked this rank for.
  std::unique_ptr<Asked[]> asked_;  ///< by rank
  std::atomic<bool> to_renew_{false};
  std::atomic<bool> stopping_{false};
  std::atomic<std::uint32_t> questions_{0};  ///< a futex: the thread sleeps on it
  std::mutex thread_lock_;
  std::thread thread_;
};

}  // namespace craton::space
