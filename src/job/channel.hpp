/// \file
/// Frames both ways over a pair of pipes or a socket, inside an event loop.
#pragma once

#include <cstddef>
#include <functional>
#include <string>

#include "base/unique_fd.hpp"
#include "job/event_loop.hpp"
#include "job/frame.hpp"

namespace craton::job {

/// Never blocks: what cannot be written now waits in a queue, whose length the flow control above bounds.
/// The callbacks may close the channel but not destroy it.
class Channel {
 public:
  using Received = std::function<void(const Frame&)>;
  /// \param why empty if the other side closed or died
  using Closed = std::function<void(const std::string& why)>;

  /// \param in read from; \param out written to, or empty if `in` is a socket for both
  /// \param max_body_bytes what a frame from there may have
  Channel(EventLoop& loop, UniqueFd in, UniqueFd out, std::size_t max_body_bytes, Received received,
          Closed closed);
  ~Channel();
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  /// Sends a frame or queues it. After the channel has closed it does nothing.
  void send(FrameKind kind, std::string_view body = {});
  /// Reads what has arrived without waiting for the loop, as far as it comes without blocking.
  void receive_available();
  /// Closes without a callback. Idempotent.
  void close() noexcept;
  /// Calls `sent` once everything queued is written, at once if it is.
  void finish_sending(std::function<void()> sent);
  bool is_open() const noexcept { return static_cast<bool>(in_); }

 private:
  int out_fd() const noexcept { return out_ ? out_.get() : in_.get(); }
  void write_queue();
  void want_to_write(bool wanted);
  void fail(const std::string& why);

  EventLoop& loop_;
  UniqueFd in_;
  UniqueFd out_;
  FrameReader reader_;
  Received received_;
  Closed closed_;
  std::function<void()> all_sent_;
  std::string queue_;
  std::size_t sent_ = 0;  ///< bytes of queue_ that are written
  bool waits_to_write_ = false;
  bool write_broken_ = false;  ///< the other side reads no more; the end of its writing tells why
};

}  // namespace craton::job
