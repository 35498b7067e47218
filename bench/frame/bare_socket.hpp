/// \file
/// The bare baseline of tcp: one connected socket pair over the loopback interface, a thread that serves it
/// in the target, and nothing between the program and the kernel. It waits as the fabric does: 20 us of
/// non-blocking receives, then a blocking one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <thread>

#include "base/clock.hpp"
#include "base/unique_fd.hpp"

namespace craton::bench {

/// Two ends of one TCP connection, made before the ranks are forked.
class TcpPair {
 public:
  /// \throws Error
  TcpPair();
  /// Keeps one end and closes the other; each rank calls it once with its number.
  UniqueFd keep(unsigned rank) noexcept;

 private:
  UniqueFd ends_[2];
};

/// What the initiator asks of the server. As long as the header of a request of Craton's tcp transport.
struct BareRequest {
  enum class Kind : std::uint32_t {
    get,         ///< answer: `bytes` bytes of the target's memory
    put,         ///< `bytes` bytes follow; answer: 8 bytes once they are in the target's memory
    fetch_add,   ///< answer: the 8 bytes that the word was before
    stream_in,   ///< `count` times `bytes` bytes follow; one answer of 8 bytes after all of them
    stream_out,  ///< answer: `count` times `bytes` bytes
    messages,  ///< frames of `bytes` bytes follow, up to one whose first byte is not 0; answer: 8 bytes, how
               ///< many
    quit,      ///< no answer; the server ends
  };
  Kind kind;
  std::uint32_t window;  ///< stream: pieces of memory that are used in turn
  std::uint64_t bytes;
  std::uint64_t count;
  std::uint64_t unused;
};
static_assert(sizeof(BareRequest) == 32);

/// The initiator's end. Not for several threads.
class BareSocket {
 public:
  explicit BareSocket(UniqueFd fd);
  BareSocket(const BareSocket&) = delete;
  BareSocket& operator=(const BareSocket&) = delete;
  /// Tells the server to end.
  ~BareSocket();

  // Each returns when the operation is complete at the target. \throws Error
  void get(void* destination, std::size_t bytes);
  void put(const void* source, std::size_t bytes);
  std::uint64_t fetch_add();
  /// Streams `count` pieces of `bytes` bytes, taken from (put into) `window` pieces of local memory in turn.
  void stream_put(const void* source, std::size_t bytes, std::uint32_t window, std::uint64_t count);
  void stream_get(void* destination, std::size_t bytes, std::uint32_t window, std::uint64_t count);
  /// For kernels that send in their own way.
  int fd() const noexcept { return fd_.get(); }

 private:
  UniqueFd fd_;
};

/// Serves the target's end on a thread of its own until the initiator's BareSocket goes.
class BareServer {
 public:
  /// \param memory what gets and puts touch; at least as large as any of them
  BareServer(UniqueFd fd, std::byte* memory, std::size_t memory_bytes);
  BareServer(const BareServer&) = delete;
  BareServer& operator=(const BareServer&) = delete;
  /// Waits for the initiator's BareSocket to go.
  ~BareServer();

 private:
  void serve();
  void serve_messages(std::size_t frame_bytes);

  UniqueFd fd_;
  std::byte* memory_;
  std::size_t memory_bytes_;
  std::thread thread_;
};

/// Receives exactly `bytes` bytes: non-blocking for `bare_spin_ns` without an arrival, then blocking.
/// \returns false at the end of the stream before the first byte \throws Error
bool receive_all(int fd, void* to, std::size_t bytes);
/// Sends exactly `bytes` bytes. Blocks. \throws Error
void send_all(int fd, const void* from, std::size_t bytes);
/// Sends two pieces of memory with one system call where the socket takes them whole. \throws Error
void send_both(int fd, const void* head, std::size_t head_bytes, const void* body, std::size_t body_bytes);

inline constexpr TimeNs bare_spin_ns = 20'000;

}  // namespace craton::bench
