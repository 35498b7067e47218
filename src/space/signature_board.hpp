/// \file
/// Where a rank puts what an acquirer must know: who takes a mutex, or the lock of a block, fetches it from
/// the rank that had it before.
///
///     head   where what is shown begins, and its size                          one word
///     turn   whether a release is under way                                    one word
///     ring   ... older │ all that is known │ more │ more │ oldest ...          written round and round
///
/// A reader takes the head, then the bytes, then the head again: if the writer has not come round meanwhile,
/// they are whole. What it gets may be newer than what it needs: that is only more to know. Of what it has
/// seen before it gets only what has been added since: threads that hand each other one thing after the other
/// would else copy, and sort, all that either knows each time.
///
/// That is three round trips, which cost nobody anything where memory, or the network's hardware, answers.
/// Where the other rank's agent would have to serve each of them (tcp), it is asked by one message instead,
/// and answers with the head and all that is new, if that fits into one.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "coherence/signature_exchange.hpp"
#include "fabric/fabric.hpp"
#include "fabric/questions.hpp"
#include "fabric/region_memory.hpp"
#include "fiber/fiber.hpp"

namespace craton::space {

class SignatureBoard final : public coherence::SignatureExchange {
 public:
  /// Collective: registers `region`, sets `handler`. \param notice_capacity of the signatures
  /// \param shown_bytes as if so many had been shown before
  SignatureBoard(fabric::Fabric& fabric, fabric::RegionId region, fabric::HandlerId handler,
                 std::size_t notice_capacity, std::uint64_t shown_bytes = 0);
  /// Collective. Instead of the destructor's doing it, which could not tell of a dead rank. \throws Error
  /// peer_lost
  void close();

  void show(const coherence::Signature& signature) override;
  bool show_more(coherence::Timestamp min_write_ts, std::uint64_t barriers,
                 std::span<const coherence::WriteNotice> news) override;
  bool look(std::span<View> views) override;
  std::uint64_t encode_news(std::uint64_t version, std::span<std::byte> room,
                            std::size_t& bytes) noexcept override;
  bool decode_news(View& view, std::span<const std::byte> news) override;
  void set_turn(std::uint64_t turn) override;
  void get_turns(std::span<std::uint64_t> turns) override;
  /// The versions alone. Blocks. \throws Error peer_lost
  void get_heads(std::span<View> views);

 private:
  struct Reading;
  struct Look;
  struct Message;

  void set_head() noexcept;
  std::atomic_ref<std::uint64_t> own_word(std::size_t offset) noexcept;
  void get_head(View& view, fabric::Completion& completion);
  void ask(Look& look);
  void read(std::vector<Reading>& readings);
  static void arrived(void* self, fabric::Rank source, const std::byte* payload, std::size_t bytes) noexcept;
  void answer(fabric::Rank source, const Message& question) noexcept;
  void take_answer(fabric::Rank source, const Message& answer, std::span<const std::byte> news) noexcept;
  /// What is shown in a version, and was not in one before.
  static std::size_t news_bytes(std::uint64_t head, std::uint64_t version) noexcept;
  /// What the writer, whose head is `now`, has not written over since it was shown.
  bool is_whole(std::uint64_t head, std::uint64_t now) const noexcept;
  void decode(View& view, std::span<const std::byte> news) const;
  std::size_t offset_of_news(std::uint64_t head, std::uint64_t version) const noexcept;

  fabric::Fabric& fabric_;
  const fabric::RegionId region_;
  const fabric::HandlerId handler_;
  const std::size_t notice_capacity_;
  const std::size_t max_bytes_;  ///< of a signature, and of what is added to it
  const std::size_t ring_bytes_;
  fabric::RegionMemory memory_;

  // Counted without wrapping.
  std::uint64_t first_;  ///< where what is shown begins
  std::uint64_t next_;   ///< and where it ends

  const std::vector<bool> asked_;  ///< by rank: whether by messages

  fabric::Questions<Look> looks_;  ///< of threads that wait for answers
};

}  // namespace craton::space
