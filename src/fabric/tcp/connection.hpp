/// \file
/// A tcp connection to one rank: what is in flight on it, what waits to be sent, and the serving of what
/// arrives.
///
/// Threads: any thread issues (under `lock_`); receive(), writable() and end() run in poll() only.
/// Completions are finished and handlers run without `lock_`, so they may issue again.
///
/// Batching: what is issued while many operations are in flight, or while arrivals are being served, is
/// gathered and sent with the next reply at the latest (Nagle's rule with replies as acknowledgements; RFC
/// 896). What a thread issues within a Batch is gathered as well.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "base/unique_fd.hpp"
#include "fabric/batch.hpp"
#include "fabric/tcp/handshake.hpp"
#include "fabric/tcp/link_model.hpp"
#include "fabric/tcp/send_queue.hpp"
#include "fabric/tcp/wire.hpp"
#include "fabric/transport.hpp"

namespace craton::fabric::tcp {

class Connection final : private HoldsBack {
 public:
  /// What connections of one transport share.
  struct Shared {
    TransportEvents& events;
    const Clock& clock;
    int epoll_fd;  ///< their set; event data is the Connection
    LinkModel link;
    int timer_fd;        ///< expires when a delayed frame is due; -1 without a link model
    bool gather = true;  ///< see TcpOptions
    /// A connection has proven who it is. Takes it into use, or says why not (a second one of a rank). In
    /// poll().
    std::function<const char*(Connection&)> proven;
  };
  enum class State : std::uint8_t { connecting, greeting, ready, ended };

  /// \param socket non-blocking; `connecting` if its connect is under way
  Connection(Shared& shared, UniqueFd socket, Handshake handshake, bool connecting, std::string remote);
  ~Connection() override;
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  State state() const noexcept { return state_.load(std::memory_order_acquire); }
  Rank peer() const noexcept { return handshake_.peer(); }
  const std::string& remote() const noexcept { return remote_; }
  /// The other side connected to us.
  bool accepted() const noexcept { return accepted_; }
  TimeNs born_ns() const noexcept { return born_ns_; }
  /// Why it ended; empty before.
  const std::string& cause() const noexcept { return cause_; }
  bool peer_left() const noexcept { return peer_left_; }

  // ---- Any thread, once ready. After the end they complete with peer_lost.

  void get(void* destination, RemoteAddress source, std::size_t bytes, Completion& completion);
  void put(RemoteAddress destination, const void* source, std::size_t bytes, Completion& completion);
  void atomic(AtomicOperation operation, RemoteAddress word, std::uint64_t* previous, Completion& completion);
  /// Several of these, of this peer, with one call of the kernel. \returns true if they completed within it
  bool issue(std::span<const Command> commands);
  bool message(HandlerId handler, const void* payload, std::size_t bytes, bool may_refuse);
  void announce(RegionId region, std::uint64_t bytes);
  /// \returns true once the farewell and all before it are with the kernel
  bool say_farewell();
  bool has_room() const noexcept { return in_flight_.load(std::memory_order_relaxed) < busy_operations; }
  bool idle() const noexcept { return in_flight_.load(std::memory_order_relaxed) == 0; }
  FlushCounter& flush_counter() noexcept { return flush_counter_; }
  /// Makes poll() end the connection soon.
  void hang_up() noexcept;

  // ---- In poll() only

  /// Reads and serves what has arrived. \returns true if there was anything
  bool receive();
  /// Sends what waits; finishes a connect that was under way.
  void writable();
  /// Sends delayed frames that are due. \returns true if there were any
  bool release_due();
  /// Ends it; everything in flight completes with peer_lost.
  void end(const std::string& cause);

 private:
  /// A thread that can wait does so when this many operations are in flight.
  static constexpr std::uint32_t busy_operations = 4096;
  /// Handlers and callbacks, which cannot wait, may go on until here.
  static constexpr std::uint32_t max_operations = 1U << 20;
  static constexpr unsigned chunks_under_way = 4;
  static constexpr std::size_t input_bytes = std::size_t{64} * 1024;
  static_assert(input_bytes >= sizeof(FrameHeader) + max_message_bytes);
  /// Senders of messages wait when this much is queued.
  static constexpr std::size_t busy_queue_bytes = std::size_t{1} << 20;

  /// A get or put; it is kept if it takes more than a chunk.
  struct Transfer {
    bool is_put;
    std::byte* local;
    RegionId region;
    std::uint64_t offset;
    std::size_t bytes;
    std::size_t issued_bytes = 0;
    unsigned chunks_in_flight = 0;
    Completion* completion;
    FlushCounter::Epoch epoch = 0;
  };
  /// A request that has not been answered.
  struct Operation {
    FrameKind answer;  ///< the kind of frame that answers it; `farewell` if the slot is free
    std::uint32_t generation;
    std::uint32_t bytes;
    FlushCounter::Epoch epoch;
    std::byte* destination;
    std::uint64_t* previous;
    Completion* completion;
    Transfer* transfer;  ///< of which it is a chunk, or null
  };
  struct Delayed {
    TimeNs due_ns;
    std::vector<std::byte> bytes;
  };
  /// An arriving payload that goes straight to where it belongs.
  struct Stream {
    std::byte* to = nullptr;
    std::size_t missing_bytes = 0;
    FrameHeader header;
  };

  void start(const Transfer& transfer);
  void send_held() noexcept override;

  // Under lock_:
  void issue(Transfer transfer);
  void issue(AtomicOperation operation, RemoteAddress word, std::uint64_t* previous, Completion& completion);
  std::uint64_t open_operation(const Operation& operation);
  void transmit(const FrameHeader& header, std::span<const std::byte> payload, bool may_borrow);
  void delay(const FrameHeader& header, std::span<const std::byte> payload);
  void expire_at(TimeNs due_ns);
  void flush_queue();
  void judge_failed_send(int errno_value);
  void want_writable(bool want);
  void issue_chunk(Transfer& transfer);
  void request(const Transfer& transfer, std::size_t bytes, Transfer* chunk_of);

  // In poll():
  bool greet(std::size_t available);
  bool parse();
  bool serve(const FrameHeader& header, const std::byte* payload);
  bool begin_stream(const FrameHeader& header, const std::byte* arrived, std::size_t bytes);
  bool serve_put(const FrameHeader& header, const std::byte* payload);
  bool serve_get(const FrameHeader& header);
  bool serve_atomic(const FrameHeader& header, const std::byte* payload);
  void reply(const FrameHeader& header, std::span<const std::byte> payload, bool may_borrow);
  Operation* find_operation(const FrameHeader& header, Operation& copy);
  bool answered(const FrameHeader& header, const std::byte* payload);
  void close_operation(const FrameHeader& header);
  std::byte* served_range(const FrameHeader& header, std::uint64_t bytes) const noexcept;
  bool violated(const char* what);

  Shared& shared_;
  const std::string remote_;
  const TimeNs born_ns_;
  const bool accepted_;
  std::atomic<State> state_;
  Handshake handshake_;
  std::string cause_;
  bool peer_left_ = false;
  FlushCounter flush_counter_;

  std::mutex lock_;  ///< guards the socket's sending side and all down to the blank line
  UniqueFd socket_;
  SendQueue queue_;
  bool corked_ = false;    ///< arrivals are being served: gather, they flush
  bool batching_ = false;  ///< several are being issued: gather, issue() flushes
  bool wants_writable_ = false;
  bool refused_ = false;  ///< a sender of messages waits for room
  bool broken_ = false;   ///< sending failed: receiving will tell why
  bool farewell_said_ = false;
  std::vector<Operation> operations_;
  std::vector<std::uint32_t> free_operations_;
  std::vector<std::unique_ptr<Transfer>> transfers_;
  std::deque<Delayed> delayed_;
  TimeNs link_free_ns_ = 0;

  std::atomic<std::uint32_t> in_flight_{0};
  std::unique_ptr<std::byte[]> input_;
  std::size_t input_begin_ = 0;
  std::size_t input_end_ = 0;
  Stream stream_;
  bool after_stream_ = false;  ///< the last payload was large
  alignas(8) std::byte aligned_message_[max_message_bytes];
};

}  // namespace craton::fabric::tcp
