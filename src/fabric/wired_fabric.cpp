#include "fabric/wired_fabric.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstring>
#include <filesystem>

#include "base/assert.hpp"
#include "base/cancellation.hpp"
#include "base/error.hpp"
#include "base/events.hpp"
#include "base/futex.hpp"
#include "base/kept_errno.hpp"
#include "base/ring_log.hpp"
#include "base/signal_section.hpp"
#include "fabric/batch.hpp"
#include "fabric/offload/offload_transport.hpp"
#include "fabric/packed_texts.hpp"
#include "fabric/shm/fd_message.hpp"
#include "fabric/tcp/addresses.hpp"
#include "fabric/tcp/tcp_transport.hpp"

namespace craton::fabric {

namespace {

/// While ranks are being wired, peers that did not answer are tried again this often.
constexpr TimeNs wiring_look_ns = 50'000'000;
/// Where ranks share processors, a wait polls for so small a part of the time that it polls elsewhere: what
/// it waits for may need the processor that it polls on.
constexpr TimeNs crowded_spin_part = 10;

bool machine_has_rdma() {
  std::error_code ignored;
  return std::filesystem::exists("/sys/class/infiniband", ignored) &&
         !std::filesystem::is_empty("/sys/class/infiniband", ignored);
}

}  // namespace

// ---- Wiring

WiredFabric::WiredFabric(Bootstrap& bootstrap, const WiredOptions& options, const Clock& clock)
    : Fabric(bootstrap.rank(), bootstrap.size()),
      clock_(clock),
      flush_locks_(bootstrap.size()),
      lost_(bootstrap.size()),
      left_(bootstrap.size()) {
  if (size() == 0 || size() > max_ranks || rank() >= size()) {
    throw Error(ErrorCode::invalid_argument, {.asked = fmt::format("cannot be rank {} of {}", rank(), size()),
                                              .happened = "that is no place in a job",
                                              .limit = fmt::format("at most {} ranks", max_ranks),
                                              .remedy = {}});
  }
  find_nodes(bootstrap, options);
  try {
    make_transports(bootstrap, options);
  } catch (...) {
    network_.reset();  // before what its executors poll
    throw;
  }
  barrier_ = std::make_unique<Barrier>(*this, fabric_barrier_handler);
  try {
    connect_all(bootstrap, options);
  } catch (...) {
    closing_.store(true);
    progress_->stop();
    network_.reset();  // its executors poll
    throw;
  }
}

WiredFabric::~WiredFabric() {
  closing_.store(true);
  progress_->stop();
  network_.reset();
  shm_.reset();
}

void WiredFabric::find_nodes(Bootstrap& bootstrap, const WiredOptions& options) {
  const std::string network = tcp::network_identity();
  std::string node =
      options.node_name.empty() ? fmt::format("{}/{}", network, ::geteuid()) : options.node_name;
  if (options.isolate_nodes) node += fmt::format("/rank {}", rank());
  const std::vector<std::string> all = bootstrap.exchange(pack({node, network, HostShare::own_processors()}));
  std::map<std::string, Node> numbers;
  nodes_.resize(size());
  for (Rank each = 0; each < size(); ++each) {
    const std::vector<std::string> texts = unpack(all[each], 3);
    nodes_[each] = numbers.try_emplace(texts[0], static_cast<Node>(numbers.size())).first->second;
    if (texts[0] == node) neighbours_.push_back(each);
    if (texts[1] == network) host_.add(texts[2]);
  }
}

/// The transport between nodes, or one endpoint of it.
std::unique_ptr<Transport> WiredFabric::make_network(Bootstrap& bootstrap, const WiredOptions& options,
                                                     TransportEvents& events) {
  std::string network = options.network;
  if (network == "auto") network = machine_has_rdma() && ucx::ucx_availability().available() ? "ucx" : "tcp";
  if (network == "tcp") {
    return std::make_unique<tcp::TcpTransport>(rank(), size(), bootstrap.secret(),
                                               tcp::TcpOptions{.interface = options.tcp_interface,
                                                               .loopback_only = host_.ranks() == size(),
                                                               .link = options.tcp_link,
                                                               .gather = options.tcp_gather},
                                               events, clock_);
  }
  if (network == "ucx") {
    return ucx::make_ucx_transport(rank(), size(), bootstrap.secret(), events, options.ucx);
  }
  throw Error(ErrorCode::invalid_argument,
              {.asked = fmt::format("cannot connect the ranks by transport \"{}\"", network),
               .happened = fmt::format("the job has {} ranks and only {} of them share this node", size(),
                                       neighbours_.size()),
               .limit = "between nodes there are tcp and ucx",
               .remedy = "use --transport=tcp, ucx or auto"});
}

void WiredFabric::make_transports(Bootstrap& bootstrap, const WiredOptions& options) {
  TransportEvents& events = *this;
  if (neighbours_.size() > shm::max_neighbours) {
    throw Error(ErrorCode::out_of_resources,
                {.asked = fmt::format("cannot connect the {} ranks of this node", neighbours_.size()),
                 .happened = "they are too many to share memory",
                 .limit = fmt::format("{} ranks a node", shm::max_neighbours),
                 .remedy = "start fewer on a node"});
  }
  if (neighbours_.size() > 1) {
    shm_ = std::make_unique<shm::ShmTransport>(rank(), neighbours_, bootstrap.secret(), options.ring_bytes,
                                               events);
  }
  if (neighbours_.size() < size()) {
    // One endpoint without an executor is the transport itself.
    if (options.offload.mode == offload::OffloadMode::direct && options.offload.endpoints == 1) {
      network_ = make_network(bootstrap, options, events);
    } else {
      auto offloading = std::make_unique<offload::OffloadTransport>(
          options.offload, size(), events,
          [&](TransportEvents& told) { return make_network(bootstrap, options, told); });
      offloading_ = offloading.get();
      network_ = std::move(offloading);
    }
    nic_atomics_ = network_->capabilities().atomic_domain == AtomicDomain::nic;
  }
  links_.resize(size(), network_.get());
  for (const Rank each : neighbours_) links_[each] = shm_.get();
  links_[rank()] = nullptr;
  // A word has one atomic domain. Where the NIC executes atomics between nodes, it does within them as well.
  atomic_links_ = links_;
  if (nic_atomics_) std::fill(atomic_links_.begin(), atomic_links_.end(), network_.get());

  // Ranks that share processors all the time have their agents wait for whole slices of each other.
  const bool is_crowded = host_.is_crowded();
  // And where each computes on one of its own, none is free for an agent that spins.
  const bool is_full = host_.is_full();
  const TimeNs spin_ns = is_crowded ? options.spin_ns / crowded_spin_part : options.spin_ns;
  progress_ = std::make_unique<Progress>(
      clock_,
      ProgressOptions{
          .spin_ns = spin_ns, .agent_spin_ns = is_full ? 0 : options.spin_ns, .courteous = !is_crowded},
      shm_ != nullptr ? shm_->doorbell() : private_doorbell_);
  progress_->add(handlers_, false);
  if (shm_ != nullptr) {
    shm_->set_wake_fd(progress_->wake_fd());
    progress_->add(*shm_, false);
  }
  if (offloading_ != nullptr) {
    offloading_->start(*progress_, options.spin_ns);
  } else if (network_ != nullptr) {
    progress_->add(*network_, true);
  }
}

void WiredFabric::connect_all(Bootstrap& bootstrap, const WiredOptions& options) {
  const shm::ManyDescriptorsUnderWay allowed;
  const std::vector<std::string> all = bootstrap.exchange(
      pack({shm_ != nullptr ? shm_->address() : "", network_ != nullptr ? network_->address() : ""}));
  for (Rank peer = 0; peer < size(); ++peer) {
    const std::vector<std::string> addresses = unpack(all[peer], 2);
    if (links_[peer] != nullptr) links_[peer]->connect(peer, addresses[links_[peer] == shm_.get() ? 0 : 1]);
    if (atomic_links_[peer] != links_[peer]) atomic_links_[peer]->connect(peer, addresses[1]);
  }
  progress_->start();  // not before: connect() and poll() do not go together
  const auto reachable = [&](Rank peer) {
    return (links_[peer] == nullptr || links_[peer]->connected(peer)) &&
           (atomic_links_[peer] == nullptr || atomic_links_[peer]->connected(peer));
  };
  const auto wired = [&] {
    for (Rank peer = 0; peer < size(); ++peer) {
      if (!reachable(peer)) return false;
    }
    return true;
  };
  const TimeNs deadline_ns = clock_.now_ns() + options.connect_timeout_ns;
  while (wait_until(wired, std::min(deadline_ns, clock_.now_ns() + wiring_look_ns)) != Status::ok) {
    if (lost_ranks() != 0) throw_lost("cannot wire the ranks of the job");
    if (clock_.now_ns() < deadline_ns) continue;
    std::string missing;
    for (Rank peer = 0; peer < size(); ++peer) {
      if (!reachable(peer)) missing += fmt::format("{}{}", missing.empty() ? "" : ", ", peer);
    }
    const std::string failure = network_ != nullptr ? network_->last_failure() : "";
    const std::string cause = failure.empty() ? "" : "; " + failure;
    throw Error(ErrorCode::timed_out,
                {.asked = fmt::format("rank {} cannot reach rank {}", rank(), missing),
                 .happened = fmt::format("no connection within {} s{}",
                                         options.connect_timeout_ns / 1'000'000'000, cause),
                 .limit = "--connect-timeout",
                 .remedy = "check that the hosts reach each other (--tcp-interface names the way)"});
  }
}

void WiredFabric::throw_lost(const char* asked) const {
  std::string who;
  for (Rank peer = 0; peer < size(); ++peer) {
    if (lost_[peer].load()) who += fmt::format("{}rank {}", who.empty() ? "" : ", ", peer);
  }
  throw Error(ErrorCode::peer_lost, {.asked = asked, .happened = who + " died", .limit = {}, .remedy = {}});
}

void WiredFabric::barrier_or_throw(const char* asked) {
  if (barrier_->wait() != Status::ok) throw_lost(asked);
}

Capabilities WiredFabric::capabilities(Rank peer) const noexcept {
  CRATON_ASSERT(peer < size());
  Capabilities found{.load_store = true,
                     .native_one_sided = true,
                     .atomic_domain = AtomicDomain::cpu,
                     .max_message_bytes = fabric::max_message_bytes,
                     .transport = "self"};
  if (links_[peer] != nullptr) found = links_[peer]->capabilities();
  found.atomic_domain = nic_atomics_ ? AtomicDomain::nic : AtomicDomain::cpu;
  return found;
}

// ---- Regions

void WiredFabric::register_region(RegionId id, const RegionMemory& memory) {
  if (id >= max_regions || local_regions_[id].data.load() != nullptr) {
    throw Error(ErrorCode::invalid_argument,
                {.asked = fmt::format("cannot register region {}", id),
                 .happened = id >= max_regions ? "its id is out of range" : "it is registered already",
                 .limit = fmt::format("ids are below {}", max_regions),
                 .remedy = {}});
  }
  LocalRegion& local = local_regions_[id];
  local.bytes.store(memory.bytes());
  local.data.store(memory.data());
  try {
    regions().publish(id, exchange_parts(id, memory));
  } catch (...) {
    local.data.store(nullptr);
    local.bytes.store(0);
    throw;
  }
}

/// Announces this rank's part of a region to all ranks, and waits for theirs.
std::vector<RegionPart> WiredFabric::exchange_parts(RegionId id, const RegionMemory& memory) {
  constexpr const char* asked = "cannot register a region";
  if (lost_ranks() != 0) throw_lost(asked);
  std::vector<unsigned> expected(size(), 0);
  for (Rank peer = 0; peer < size(); ++peer) {
    Transport* const link = links_[peer];
    Transport* const atomic_link = atomic_links_[peer];
    if (link != nullptr) link->announce_region(peer, id, memory);
    if (atomic_link != link) atomic_link->announce_region(peer, id, memory);
    expected[peer] = (link != nullptr ? 1U : 0U) + (atomic_link != link ? 1U : 0U);
  }
  const auto all_announced = [&] {
    const std::lock_guard lock(announcement_lock_);
    const auto found = announcements_.find(id);
    if (found == announcements_.end()) return size() == 1 && !nic_atomics_;
    for (Rank peer = 0; peer < size(); ++peer) {
      if (found->second[peer].received < expected[peer]) return false;
    }
    return true;
  };
  const Status waited = wait_until([&] { return all_announced() || lost_ranks() != 0; }, no_deadline);
  if (waited != Status::ok || lost_ranks() != 0) throw_lost(asked);

  std::vector<RegionPart> parts(size());
  {
    const std::lock_guard lock(announcement_lock_);
    if (const auto found = announcements_.find(id); found != announcements_.end()) {
      for (Rank peer = 0; peer < size(); ++peer) {
        const Announcement& announcement = found->second[peer];
        parts[peer] = {.direct = announcement.direct,
                       .direct_atomics = nic_atomics_ ? nullptr : announcement.direct,
                       .bytes = announcement.bytes};
      }
      announcements_.erase(found);
    }
  }
  parts[rank()] = {.direct = memory.data(),
                   .direct_atomics = nic_atomics_ ? nullptr : memory.data(),
                   .bytes = memory.bytes()};
  return parts;
}

void WiredFabric::unregister_region(RegionId id) {
  CRATON_ASSERT(id < max_regions);
  CRATON_ASSERT(local_regions_[id].data.load() != nullptr);
  for (Rank peer = 0; peer < size(); ++peer) {
    if (flush(peer) != Status::ok) throw_lost("cannot unregister a region");
  }
  // Nobody uses it after the first barrier; nobody announces its successor before the second.
  barrier_or_throw("cannot unregister a region");
  regions().withdraw(id);
  if (shm_ != nullptr) shm_->withdraw_region(id);
  if (network_ != nullptr) network_->withdraw_region(id);
  local_regions_[id].data.store(nullptr);
  local_regions_[id].bytes.store(0);
  barrier_or_throw("cannot unregister a region");
}

void WiredFabric::region_announced(Rank source, RegionId region, std::uint64_t bytes, std::byte* direct) {
  const std::lock_guard lock(announcement_lock_);
  std::vector<Announcement>& announced = announcements_[region];
  announced.resize(size());
  ++announced[source].received;
  announced[source].bytes = bytes;
  if (direct != nullptr) announced[source].direct = direct;
}

TransportEvents::LocalPart WiredFabric::local_part(RegionId region) const noexcept {
  if (region >= max_regions) return {.data = nullptr, .bytes = 0};
  const LocalRegion& local = local_regions_[region];
  std::byte* const data = local.data.load(std::memory_order_acquire);
  return {.data = data, .bytes = data == nullptr ? 0 : local.bytes.load(std::memory_order_relaxed)};
}

// ---- One-sided operations that are not plain copies

/// Checks an operation and starts its completion. \returns null if it has been completed here: its rank is
/// dead
Transport* WiredFabric::admit(Transport* transport, RemoteAddress address, std::size_t bytes,
                              Completion& completion) {
  check_range(address, bytes);
  if (lost_[address.rank].load(std::memory_order_relaxed)) {
    completion.finish_inline(Status::peer_lost);
    return nullptr;
  }
  CRATON_ASSERT(transport != nullptr);
  if (!transport->has_room(address.rank) && !Progress::inside_poll()) {
    const Status waited = wait_until([&] { return transport->has_room(address.rank); }, no_deadline);
    CRATON_ASSERT(waited == Status::ok);
  }
  completion.start();
  return transport;
}

void WiredFabric::start_get(void* destination, RemoteAddress source, std::size_t bytes,
                            Completion& completion) {
  const SignalSection section;
  const NoCancellation uncancelled;
  const KeptErrno kept;
  CRATON_ASSERT(source.rank < size());
  if (Transport* link = admit(links_[source.rank], source, bytes, completion)) {
    link->get(destination, source, bytes, completion);
  }
}

void WiredFabric::start_put(RemoteAddress destination, const void* source, std::size_t bytes,
                            Completion& completion) {
  const SignalSection section;
  const NoCancellation uncancelled;
  const KeptErrno kept;
  CRATON_ASSERT(destination.rank < size());
  if (Transport* link = admit(links_[destination.rank], destination, bytes, completion)) {
    link->put(destination, source, bytes, completion);
  }
}

void WiredFabric::start_atomic(AtomicOperation operation, RemoteAddress word, std::uint64_t* previous,
                               Completion& completion) {
  const SignalSection section;
  const NoCancellation uncancelled;
  const KeptErrno kept;
  CRATON_ASSERT(word.rank < size());
  CRATON_ASSERT(word.offset % 8 == 0U);
  events::count_message(sizeof(std::uint64_t));
  if (Transport* link = admit(atomic_links_[word.rank], word, 8, completion)) {
    link->atomic(operation, word, previous, completion);
  }
}

Status WiredFabric::flush(Rank target) {
  const SignalSection section;
  const NoCancellation uncancelled;
  const KeptErrno kept;
  CRATON_ASSERT(target < size());
  for (Transport* link : {links_[target], atomic_links_[target]}) {
    for (std::size_t i = 0; link != nullptr && i < link->endpoints(); ++i) {
      if (const Status flushed = flush_endpoint(target, *link, i); flushed != Status::ok) return flushed;
    }
  }
  std::atomic_thread_fence(std::memory_order_seq_cst);
  return alive(target) ? Status::ok : Status::peer_lost;
}

Status WiredFabric::flush_endpoint(Rank target, Transport& link, std::size_t index) {
  FlushCounter* const counter = link.endpoint(index).flush_counter(target);
  if (counter == nullptr) return Status::ok;
  if (const std::uint64_t queued = link.queued(index); !link.issued(index, queued)) {
    const Status waited = wait_until([&] { return link.issued(index, queued); }, no_deadline);
    if (waited != Status::ok) return waited;
  }
  if (counter->idle()) return Status::ok;
  const std::lock_guard lock(flush_locks_[target]);
  const FlushCounter::Epoch epoch = counter->close();
  return wait_until([&] { return counter->drained(epoch); }, no_deadline);
}

// ---- Messages

void WiredFabric::set_handler(HandlerId id, Handler handler, void* context) {
  handlers_.set(id, handler, context);
  // Messages that waited for it are delivered by the next poll.
  if (progress_ != nullptr) wake_agent();
}

void WiredFabric::wake_agent() noexcept {
  ring(shm_ != nullptr ? shm_->doorbell() : private_doorbell_, progress_->wake_fd());
}

Status WiredFabric::send(Rank target, HandlerId handler, const void* payload, std::size_t bytes) {
  const SignalSection section;
  const NoCancellation uncancelled;
  const KeptErrno kept;
  CRATON_ASSERT(target < size());
  CRATON_ASSERT(handler < max_handlers);
  CRATON_ASSERT(bytes <= fabric::max_message_bytes);
  handlers_.sending();
  if (target == rank()) {
    handlers_.queue(rank(), handler, static_cast<const std::byte*>(payload), bytes);
    wake_agent();
    return Status::ok;
  }
  if (!alive(target)) return Status::peer_lost;
  events::count_message(bytes);
  Transport* const link = links_[target];
  const bool can_wait = !Progress::inside_poll();
  if (link->send(target, handler, payload, bytes, can_wait)) return Status::ok;
  const Status waited = wait_until(
      [&] { return !alive(target) || link->send(target, handler, payload, bytes, true); }, no_deadline);
  if (waited != Status::ok) return waited;
  return alive(target) ? Status::ok : Status::peer_lost;
}

Status WiredFabric::wake(Rank target) {
  // Where there is a network, one waiter may sleep where the agent does.
  if (network_ != nullptr || links_[target] == nullptr) return send(target, wake_handler, nullptr, 0);
  if (!alive(target)) return Status::peer_lost;
  shm_->wake_waiters(target);
  return Status::ok;
}

void WiredFabric::message_arrived(Rank source, HandlerId handler, const std::byte* payload,
                                  std::size_t bytes) {
  handlers_.deliver(source, handler, payload, bytes);
}

// ---- Waiting

Status WiredFabric::wait_until(FunctionRef<bool()> condition, TimeNs deadline_ns, unsigned patience) {
  Batch::send_held();
  return progress_->wait_until(condition, deadline_ns, patience);
}

void WiredFabric::sleep_while(const std::atomic<std::uint32_t>& word, std::uint32_t seen,
                              TimeNs deadline_ns) {
  Batch::send_held();
  futex_wait(word, seen, deadline_ns);
}

void WiredFabric::wake_sleepers(const std::atomic<std::uint32_t>& word) noexcept {
  futex_wake(word, INT_MAX);
}

void WiredFabric::notify() noexcept {
  progress_->notify();
}

// ---- Ends

bool WiredFabric::alive(Rank peer) const noexcept {
  return !lost_[peer].load(std::memory_order_acquire);
}

void WiredFabric::set_peer_lost_handler(PeerLostHandler handler, void* context) {
  peer_lost_context_.store(context);
  peer_lost_handler_.store(handler);
}

void WiredFabric::peer_lost(Rank peer, const char* cause) {
  if (closing_.load()) return;
  process_log().write({"lost rank ", peer, ": ", cause});
  declare_lost(peer);
}

void WiredFabric::peer_left(Rank peer) {
  left_[peer].store(true);
}

void WiredFabric::declare_lost(Rank peer) noexcept {
  CRATON_ASSERT(peer < size());
  if (peer == rank() || closing_.load() || left_[peer].load() || lost_[peer].exchange(true)) return;
  regions().sever(peer);
  count_lost_rank();
  if (links_[peer] != nullptr) links_[peer]->disconnect(peer);
  if (atomic_links_[peer] != links_[peer]) atomic_links_[peer]->disconnect(peer);
  if (const PeerLostHandler handler = peer_lost_handler_.load()) handler(peer_lost_context_.load(), peer);
  notify();
}

Status WiredFabric::farewell(TimeNs deadline_ns) {
  if (const Status met = barrier_->wait(deadline_ns); met != Status::ok) return met;
  const auto parted = [&] {
    bool all = true;
    for (Rank peer = 0; peer < size(); ++peer) {
      if (peer == rank() || !alive(peer)) continue;
      const bool said = links_[peer]->say_farewell(peer);
      all = all && said && left_[peer].load();
    }
    return all;
  };
  return wait_until(parted, deadline_ns);
}

}  // namespace craton::fabric
