#include "fabric/offload/offload_transport.hpp"

#include <fmt/format.h>
#include <pthread.h>

#include <algorithm>
#include <system_error>

#include "base/assert.hpp"
#include "base/error.hpp"
#include "base/signals_blocked.hpp"
#include "fabric/packed_texts.hpp"

namespace craton::fabric::offload {

namespace {

/// Handlers and callbacks run on the executors too, and are not made for the small stacks of fibers.
constexpr std::size_t executor_stack_bytes = std::size_t{1} << 20;

}  // namespace

OffloadTransport::OffloadTransport(OffloadOptions options, Rank size, TransportEvents& events,
                                   const MakeEndpoint& make_endpoint)
    : options_(options), events_(events), left_(size) {
  if (options.endpoints == 0 || options.endpoints > max_endpoints || options.workers == 0 ||
      options.workers > max_workers) {
    throw Error(ErrorCode::invalid_argument,
                {.asked = fmt::format("cannot offload with {} endpoints and {} workers", options.endpoints,
                                      options.workers),
                 .happened = "there must be one of each at least",
                 .limit = fmt::format("{} endpoints, {} workers", max_endpoints, max_workers),
                 .remedy = {}});
  }
  for (unsigned i = 0; i < options.endpoints; ++i) {
    endpoints_.push_back(std::make_unique<Endpoint>(*this));
    endpoints_.back()->transport = make_endpoint(*endpoints_.back());
  }
}

OffloadTransport::~OffloadTransport() {
  // The executors that run: if starting them failed half-way, not all.
  for (std::size_t i = 0; i < std::max(fibers_.size(), threads_.size()); ++i) endpoints_[i]->executor->stop();
  for (fiber::Join& one : fibers_) one.join();
  for (std::thread& one : threads_) one.join();
}

void OffloadTransport::start(Progress& progress, TimeNs linger_ns) {
  for (const auto& endpoint : endpoints_) {
    progress.add(*endpoint->transport, true);
    if (options_.mode != OffloadMode::direct) {
      endpoint->executor = std::make_unique<Executor>(*endpoint->transport, progress, linger_ns,
                                                      options_.mode == OffloadMode::dynamic);
    }
  }
  if (options_.mode == OffloadMode::direct) return;
  const SignalsBlocked blocked;
  try {
    start_executors();
  } catch (const std::system_error& failure) {
    throw Error::from_errno("cannot start the executors of offloaded communication", failure.code().value(),
                            "ulimit -u");
  }
}

void OffloadTransport::start_executors() {
  if (options_.mode == OffloadMode::dynamic) {
    runtime_.emplace(fiber::RuntimeOptions{.workers = options_.workers,
                                           .stacks = {.stack_bytes = executor_stack_bytes},
                                           .report_overruns = false,  // SIGSEGV is the program's
                                           .stacks_kept = 1});
  }
  fibers_.reserve(endpoints_.size());
  threads_.reserve(endpoints_.size());
  for (const auto& endpoint : endpoints_) {
    const auto body = [executor = endpoint->executor.get()] {
      pthread_setname_np(pthread_self(), "craton-offload");
      executor->run();
    };
    if (runtime_) {
      fibers_.push_back(runtime_->spawn(body, "executor"));
    } else {
      threads_.emplace_back(body);
    }
  }
}

// ---- Wiring

std::string OffloadTransport::address() const {
  std::vector<std::string> addresses;
  for (const auto& endpoint : endpoints_) addresses.push_back(endpoint->transport->address());
  return pack(addresses);
}

void OffloadTransport::connect(Rank peer, const std::string& address) {
  const std::vector<std::string> addresses = unpack(address, endpoints_.size());
  for (std::size_t i = 0; i < endpoints_.size(); ++i) endpoints_[i]->transport->connect(peer, addresses[i]);
}

bool OffloadTransport::connected(Rank peer) const noexcept {
  return std::all_of(endpoints_.begin(), endpoints_.end(),
                     [peer](const auto& endpoint) { return endpoint->transport->connected(peer); });
}

std::string OffloadTransport::last_failure() const {
  for (const auto& endpoint : endpoints_) {
    if (std::string failure = endpoint->transport->last_failure(); !failure.empty()) return failure;
  }
  return {};
}

void OffloadTransport::announce_region(Rank peer, RegionId region, const RegionMemory& memory) {
  for (const auto& endpoint : endpoints_) endpoint->transport->announce_region(peer, region, memory);
}

void OffloadTransport::withdraw_region(RegionId region) {
  for (const auto& endpoint : endpoints_) endpoint->transport->withdraw_region(region);
}

void OffloadTransport::Endpoint::region_announced(Rank source, RegionId region, std::uint64_t bytes,
                                                  std::byte* direct) {
  // A rank announces the next region of an id when the last one is gone at all of its endpoints.
  const auto key = std::pair(source, region);
  if (++of_.announced_[key] < of_.endpoints_.size()) return;
  of_.announced_.erase(key);
  of_.events_.region_announced(source, region, bytes, direct);
}

// ---- Operations

void OffloadTransport::take(const Command& command) {
  static thread_local std::size_t next = 0;
  const std::size_t index = next++ % endpoints_.size();
  Endpoint& endpoint = *endpoints_[index];
  if (endpoint.executor != nullptr && !Progress::inside_poll()) {
    endpoint.executor->delegate(command);
  } else {
    endpoint.transport->issue_alone(command);
  }
}

void OffloadTransport::get(void* destination, RemoteAddress source, std::size_t bytes,
                           Completion& completion) {
  take({.rank = static_cast<std::uint16_t>(source.rank),
        .region = static_cast<std::uint16_t>(source.region),
        .kind = CommandKind::get,
        .atomic = {},
        .offset = source.offset,
        .local = destination,
        .completion = &completion,
        .first = bytes,
        .second = 0});
}

void OffloadTransport::put(RemoteAddress destination, const void* source, std::size_t bytes,
                           Completion& completion) {
  take({.rank = static_cast<std::uint16_t>(destination.rank),
        .region = static_cast<std::uint16_t>(destination.region),
        .kind = CommandKind::put,
        .atomic = {},
        .offset = destination.offset,
        .local = const_cast<void*>(source),
        .completion = &completion,
        .first = bytes,
        .second = 0});
}

void OffloadTransport::atomic(AtomicOperation operation, RemoteAddress word, std::uint64_t* previous,
                              Completion& completion) {
  take({.rank = static_cast<std::uint16_t>(word.rank),
        .region = static_cast<std::uint16_t>(word.region),
        .kind = CommandKind::atomic,
        .atomic = operation.kind,
        .offset = word.offset,
        .local = previous,
        .completion = &completion,
        .first = operation.first,
        .second = operation.second});
}

bool OffloadTransport::has_room(Rank peer) const noexcept {
  return std::all_of(endpoints_.begin(), endpoints_.end(),
                     [peer](const auto& endpoint) { return endpoint->transport->has_room(peer); });
}

std::uint64_t OffloadTransport::queued(std::size_t index) const noexcept {
  const Executor* const executor = endpoints_[index]->executor.get();
  return executor == nullptr ? 0 : executor->queued();
}

bool OffloadTransport::issued(std::size_t index, std::uint64_t count) noexcept {
  Executor* const executor = endpoints_[index]->executor.get();
  return executor == nullptr || executor->issued(count);
}

// ---- Ends

void OffloadTransport::Endpoint::peer_left(Rank peer) {
  if (++of_.left_[peer] == of_.endpoints_.size()) of_.events_.peer_left(peer);
}

bool OffloadTransport::say_farewell(Rank peer) {
  // What is queued may be for this peer, and goes before the farewell.
  for (std::size_t i = 0; i < endpoints_.size(); ++i) {
    if (!issued(i, queued(i))) return false;
  }
  bool all = true;
  for (const auto& endpoint : endpoints_) all = endpoint->transport->say_farewell(peer) && all;
  return all;
}

void OffloadTransport::disconnect(Rank peer) noexcept {
  for (const auto& endpoint : endpoints_) endpoint->transport->disconnect(peer);
}

}  // namespace craton::fabric::offload
