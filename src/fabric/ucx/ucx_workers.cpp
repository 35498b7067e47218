#if defined(CRATON_HAVE_UCX)

#include "fabric/ucx/ucx_workers.hpp"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <utility>

#include "base/assert.hpp"
#include "base/error.hpp"

namespace craton::fabric::ucx {

namespace {

void watch(int set, int descriptor) {
  epoll_event event{};
  event.events = EPOLLIN;
  if (::epoll_ctl(set, EPOLL_CTL_ADD, descriptor, &event) != 0) {
    throw Error::from_errno("cannot watch a UCX worker", errno, "ulimit -n");
  }
}

}  // namespace

UcxWorkers::UcxWorkers(const UcpLibrary& ucp, ucp_context_h context, Rank peers, bool one_each)
    : ucp_(ucp),
      one_each_(one_each),
      workers_(one_each ? peers : 1, nullptr),
      descriptors_(workers_.size(), -1) {
  try {
    for (std::size_t at = 0; at < workers_.size(); ++at) descriptors_[at] = open(context, workers_[at]);
    descriptor_ = descriptors_[0];
    if (!one_each_) return;
    set_.reset(::epoll_create1(EPOLL_CLOEXEC));
    bell_.reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!set_ || !bell_) {
      throw Error::from_errno("cannot sleep until UCX has something to do", errno, "ulimit -n");
    }
    for (const int descriptor : descriptors_) watch(set_.get(), descriptor);
    watch(set_.get(), bell_.get());
    descriptor_ = set_.get();
  } catch (...) {
    destroy_all();
    throw;
  }
}

UcxWorkers::~UcxWorkers() {
  destroy_all();
}

/// \returns the worker's descriptor
int UcxWorkers::open(ucp_context_h context, ucp_worker_h& worker) {
  ucp_worker_params_t parameters{};
  parameters.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE | UCP_WORKER_PARAM_FIELD_FLAGS;
  parameters.thread_mode = UCS_THREAD_MODE_SERIALIZED;
  parameters.flags = UCP_WORKER_FLAG_IGNORE_REQUEST_LEAK;  // what a dead peer never answered
  ucs_status_t status = ucp_.ucp_worker_create(context, &parameters, &worker);
  if (status != UCS_OK) {
    worker = nullptr;
    fail(ucp_, ErrorCode::out_of_resources, "cannot make a UCX worker", status,
         "check ulimit -n, ulimit -l, df /dev/shm and ipcs -lm");
  }
  int descriptor = -1;
  status = ucp_.ucp_worker_get_efd(worker, &descriptor);
  if (status != UCS_OK) {
    fail(ucp_, ErrorCode::not_supported, "cannot sleep until UCX has something to do", status,
         "choose other transports with UCX_TLS");
  }
  return descriptor;
}

void UcxWorkers::set_handler(unsigned id, ucp_am_recv_callback_t callback, void* argument) {
  ucp_am_handler_param_t parameters{};
  parameters.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_FLAGS |
                          UCP_AM_HANDLER_PARAM_FIELD_CB | UCP_AM_HANDLER_PARAM_FIELD_ARG;
  parameters.id = id;
  parameters.flags = UCP_AM_FLAG_WHOLE_MSG;
  parameters.cb = callback;
  parameters.arg = argument;
  for (ucp_worker_h worker : workers_) {
    const ucs_status_t status = ucp_.ucp_worker_set_am_recv_handler(worker, &parameters);
    if (status != UCS_OK) fail(ucp_, ErrorCode::system, "cannot receive messages over UCX", status, {});
  }
}

std::string UcxWorkers::addresses() const {
  std::string all;
  for (ucp_worker_h worker : workers_) {
    ucp_address_t* address = nullptr;
    std::size_t address_bytes = 0;
    const ucs_status_t status = ucp_.ucp_worker_get_address(worker, &address, &address_bytes);
    if (status != UCS_OK) fail(ucp_, ErrorCode::system, "cannot learn this rank's UCX address", status, {});
    const auto length = static_cast<std::uint32_t>(address_bytes);
    all.append(reinterpret_cast<const char*>(&length), sizeof length);
    all.append(reinterpret_cast<const char*>(address), address_bytes);
    ucp_.ucp_worker_release_address(worker, address);
  }
  return all;
}

std::string_view UcxWorkers::address_for(Rank rank, std::string_view addresses) const noexcept {
  for (Rank before = one_each_ ? rank : 0;; --before) {
    std::uint32_t length = 0;
    if (addresses.size() < sizeof length) return {};
    std::memcpy(&length, addresses.data(), sizeof length);
    addresses.remove_prefix(sizeof length);
    if (addresses.size() < length) return {};
    if (before == 0) return addresses.substr(0, length);
    addresses.remove_prefix(length);
  }
}

void UcxWorkers::progress() noexcept {
  if (std::exchange(rung_, false)) {
    std::uint64_t rings = 0;
    [[maybe_unused]] const ssize_t taken = ::read(bell_.get(), &rings, sizeof rings);
  }
  for (ucp_worker_h worker : workers_) {
    if (worker == nullptr) continue;
    for (unsigned round = 0; round < max_progress_rounds && ucp_.ucp_worker_progress(worker) != 0; ++round) {
    }
  }
}

bool UcxWorkers::arm() noexcept {
  if (rung_) return false;
  for (ucp_worker_h worker : workers_) {
    if (worker != nullptr && ucp_.ucp_worker_arm(worker) != UCS_OK) return false;
  }
  return true;
}

void UcxWorkers::wake() noexcept {
  if (!one_each_) {
    ucp_.ucp_worker_signal(workers_[0]);
    return;
  }
  const std::uint64_t one = 1;
  // It can only fail when the counter is full, and then it is readable, which is all we want.
  [[maybe_unused]] const ssize_t written = ::write(bell_.get(), &one, sizeof one);
  rung_ = true;
}

void UcxWorkers::destroy(Rank peer) noexcept {
  CRATON_ASSERT(one_each_);
  ucp_worker_h const worker = std::exchange(workers_[peer], nullptr);
  if (worker == nullptr) return;
  // Before UCX closes it: the kernel drops a closed descriptor from the set only where nobody else has it.
  ::epoll_ctl(set_.get(), EPOLL_CTL_DEL, std::exchange(descriptors_[peer], -1), nullptr);
  ucp_.ucp_worker_destroy(worker);
}

void UcxWorkers::destroy_all() noexcept {
  for (ucp_worker_h& worker : workers_) {
    if (worker != nullptr) ucp_.ucp_worker_destroy(std::exchange(worker, nullptr));
  }
}

}  // namespace craton::fabric::ucx

#endif
