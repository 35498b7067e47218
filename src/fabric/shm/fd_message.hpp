/// \file
/// What travels over the Unix sockets between neighbours: fixed-size messages with up to two descriptors
/// (SOCK_SEQPACKET keeps their boundaries).
#pragma once

#include <sys/resource.h>

#include <array>
#include <cstdint>
#include <optional>

#include "base/keyed_hash.hpp"
#include "base/unique_fd.hpp"
#include "fabric/types.hpp"

namespace craton::fabric::shm {

enum class FdMessageKind : std::uint32_t {
  hello = 1,     ///< descriptors: control memory, wake eventfd
  region = 2,    ///< descriptor: region memory
  farewell = 3,  ///< none
};

struct FdMessage {
  static constexpr std::uint32_t expected_magic = 0x43523031;  // "CR01"
  std::uint32_t magic = expected_magic;
  FdMessageKind kind = FdMessageKind::farewell;
  std::uint32_t rank = 0;    ///< sender
  std::uint32_t region = 0;  ///< kind region
  std::uint64_t bytes = 0;   ///< of the memory passed
  Mac proof{};               ///< kind hello
};

struct ReceivedFdMessage {
  FdMessage message;
  std::array<UniqueFd, 2> fds;
};

enum class ReceiveOutcome : std::uint8_t { received, nothing, ended, malformed };

/// Blocks for room for at most 10 s. \returns false, and why in errno, if it could not be sent
bool send_fd_message(int socket, const FdMessage& message, int first_fd = -1, int second_fd = -1) noexcept;

/// Never blocks.
ReceiveOutcome receive_fd_message(int socket, ReceivedFdMessage& received) noexcept;

/// Of a user without privileges, no more descriptors may be under way between processes than the sender may
/// have open, and the ranks of a host greet each other with two for each pair, before any of them receives
/// some. While this lives, the limit is the hard one; the program never sees it.
class ManyDescriptorsUnderWay {
 public:
  ManyDescriptorsUnderWay() noexcept;
  ~ManyDescriptorsUnderWay();
  ManyDescriptorsUnderWay(const ManyDescriptorsUnderWay&) = delete;
  ManyDescriptorsUnderWay& operator=(const ManyDescriptorsUnderWay&) = delete;

 private:
  rlimit before_{};
  bool is_raised_ = false;
};

}  // namespace craton::fabric::shm
