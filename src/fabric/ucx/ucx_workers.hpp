/// \file
/// The UCX workers of a rank: one for all its peers, or one for each of them. Needs the transport's lock but
/// where a member says otherwise.
///
/// A worker is where a rank receives. Over shared memory (posix, sysv; UCX 1.13) that is one queue in memory
/// which all senders share: a sender takes the next slot, fills it, then marks it as filled, and the receiver
/// reads no further than the first slot that is not. A sender that is killed in between leaves a slot that
/// nobody will ever fill, so that nothing that the others send is read any more, and the worker cannot be
/// slept on. Nor does UCX notice the death, or give back what it holds for the dead: such an endpoint cannot
/// be closed by force.
///
///     one for all                     one for each
///     rank 0 ──┐                      rank 0 ──▶ 1 2 3 4
///     rank 1 ──┼─▶ 1 2 _ 4 5 6        rank 1 ──▶ 1 2 _         died while it filled the third
///     rank 2 ──┘                      rank 2 ──▶ 1 2
///
/// So where there is no network each peer has a worker of its own. What a dying rank spoils was for that rank
/// only, and destroying the worker takes back from UCX all that it holds for it, whatever state it is in.
/// Over "posix,sysv" a worker costs 4 MB of shared memory, 6 descriptors, 2 segments of System V and 5 ms.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/unique_fd.hpp"
#include "fabric/types.hpp"
#include "fabric/ucx/ucp_library.hpp"

namespace craton::fabric::ucx {

/// How often progress() lets a worker go on while it has something to do.
inline constexpr unsigned max_progress_rounds = 64;

class UcxWorkers {
 public:
  /// \param context must outlive it
  /// \param one_each whether each of the `peers` ranks has its own worker; it must be the same at all ranks
  /// \throws Error out_of_resources, not_supported, system
  UcxWorkers(const UcpLibrary& ucp, ucp_context_h context, Rank peers, bool one_each);
  ~UcxWorkers();
  UcxWorkers(const UcxWorkers&) = delete;
  UcxWorkers& operator=(const UcxWorkers&) = delete;

  /// \throws Error system
  void set_handler(unsigned id, ucp_am_recv_callback_t callback, void* argument);
  /// Where UCX reaches them. For each worker the length of its address in 32 bits, then the address.
  /// \throws Error system
  std::string addresses() const;
  /// The address in a peer's addresses() that `rank` is to use; empty if they are malformed.
  std::string_view address_for(Rank rank, std::string_view addresses) const noexcept;

  bool one_each() const noexcept { return one_each_; }
  /// The worker that hears of a peer and speaks to it; null if it was destroyed.
  ucp_worker_h of(Rank peer) const noexcept { return workers_[one_each_ ? peer : 0]; }

  void progress() noexcept;
  /// Makes the descriptor readable when something arrives. \returns false if something has
  bool arm() noexcept;
  /// Makes the descriptor readable now.
  void wake() noexcept;
  /// Never changes. Needs no lock.
  int descriptor() const noexcept { return descriptor_; }

  /// UCX forgets a peer. It calls back for some of what it held, with UCS_ERR_CANCELED, before this returns,
  /// and for nothing afterwards; it has let go of all memory that it was given. Only with one worker each,
  /// and not inside UCX.
  void destroy(Rank peer) noexcept;

 private:
  int open(ucp_context_h context, ucp_worker_h& worker);
  void destroy_all() noexcept;

  const UcpLibrary& ucp_;
  const bool one_each_;
  std::vector<ucp_worker_h> workers_;
  std::vector<int> descriptors_;  ///< of the workers, owned by them
  UniqueFd set_;                  ///< epoll over `descriptors_` and `bell_`; only with one worker each
  UniqueFd bell_;                 ///< eventfd: what wake() writes, since no worker is sure to be there
  bool rung_ = false;
  int descriptor_ = -1;
};

}  // namespace craton::fabric::ucx
