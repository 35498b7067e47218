/// \file
/// A rank's end of the control channel: the launcher as its rendezvous, and what the two tell each other
/// afterwards.
#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/unique_fd.hpp"
#include "fabric/bootstrap.hpp"
#include "job/frame.hpp"
#include "job/messages.hpp"

namespace craton::job {

/// What a rank exits with when its launcher has gone: nobody is left to see it but a debugger or a wrapper
/// script.
inline constexpr int launcher_gone_exit_code = 113;

/// First one thread uses it as a Bootstrap; then the agent calls serve() while any thread may call the
/// senders.
class ControlChannel final : public fabric::Bootstrap {
 public:
  /// Joins the job: blocks for the node's answer.
  /// \param socket from the environment; made close-on-exec
  /// \param timeout_ns for each step
  /// \throws Error timed_out, peer_lost, protocol
  ControlChannel(const Clock& clock, UniqueFd socket, Rank rank, Rank size, TimeNs timeout_ns);

  Rank rank() const noexcept override { return rank_; }
  Rank size() const noexcept override { return size_; }
  const fabric::JobSecret& secret() const noexcept override { return secret_; }
  std::vector<std::string> exchange(const std::string& mine) override;

  int fd() const noexcept { return socket_.get(); }

  /// What serve() does with what comes.
  struct Handlers {
    std::function<RankActivity()> activity;  ///< what is this rank doing? Any field but the rank
    std::function<void(Rank)> lost;          ///< another rank has died
    std::function<RankLook()> look;          ///< as activity, for who watches
  };
  /// Handles what has come, without blocking. If the launcher has gone, ends the process: nobody would end it
  /// otherwise, and its application may compute for ever. \returns true
  bool serve(const Handlers& handlers);

  // One frame each; none blocks for longer than the node takes to empty its socket.
  void send_ready() { send(FrameKind::ready, {}); }
  void send_finalized() { send(FrameKind::finalized, {}); }
  void send_ended(std::uint8_t exit_code) { send(FrameKind::ended, encode_number(exit_code)); }
  /// Drops the report if the socket is full: it is a hint, the node sees the death itself. Does not block.
  void report_peer_lost(Rank peer) noexcept;

 private:
  void send(FrameKind kind, std::string_view body);
  bool send_at_once(FrameKind kind, std::string_view body) noexcept;
  Frame receive(FrameKind wanted, TimeNs deadline_ns);
  bool fill_reader();
  [[noreturn]] void fail(ErrorCode code, const std::string& happened) const;

  const Clock& clock_;
  UniqueFd socket_;
  const Rank rank_;
  const Rank size_;
  const TimeNs timeout_ns_;
  fabric::JobSecret secret_{};
  FrameReader reader_;
  std::mutex send_lock_;
};

}  // namespace craton::job
