#if defined(CRATON_HAVE_UCX)

#include "fabric/ucx/ucx_transport.hpp"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <utility>

#include "base/assert.hpp"
#include "base/error.hpp"
#include "base/ring_log.hpp"
#include "base/signals_blocked.hpp"

namespace craton::fabric::ucx {

namespace {

/// What an address begins with. All ranks of a job must agree on it: atomics on one rank's words must not be
/// executed by CPUs and network cards, and UCX wants the same error handling at both ends.
struct AddressPrefix {
  char format = 2;
  char native;
  char reports_death;
};

/// How often UCX asks whether the peer of an idle connection is still there. Its own choice of 20 s is too
/// long for a job that ends when a rank dies.
constexpr const char* keepalive_interval = "1s";

/// UCX 1.13 has no call that says which transports a context uses, but it prints them: "... flags --
/// tcp/eth0".
UcxResources resources_of(const UcpLibrary& ucp, ucp_context_h context) {
  char* text = nullptr;
  std::size_t text_bytes = 0;
  std::FILE* const stream = ::open_memstream(&text, &text_bytes);
  if (stream == nullptr) throw Error::from_errno("cannot list the transports of UCX", errno);
  ucp.ucp_context_print_info(context, stream);
  std::fclose(stream);
  const std::string_view listing(text, text_bytes);
  UcxResources resources;
  constexpr std::string_view marker = " flags ";
  for (std::size_t at = listing.find(marker); at != std::string_view::npos;
       at = listing.find(marker, at + 1)) {
    // "-- tcp/eth0\n"
    const std::size_t end = listing.find('\n', at);
    const std::size_t name = listing.find(' ', at + marker.size()) + 1;
    const std::string_view transport = listing.substr(name, std::min(listing.find('/', name), end) - name);
    constexpr std::string_view inside_node[] = {"self", "posix", "sysv", "xpmem", "cma", "knem"};
    if (std::find(std::begin(inside_node), std::end(inside_node), transport) == std::end(inside_node)) {
      resources.network = true;
    }
    if (transport.starts_with("rc_") || transport.starts_with("dc_")) resources.rdma = true;
  }
  std::free(text);
  return resources;
}

}  // namespace

std::unique_ptr<Transport> make_ucx_transport(Rank rank, Rank size, const JobSecret& secret,
                                              TransportEvents& events, const UcxOptions& options) {
  return std::make_unique<UcxTransport>(rank, size, secret, events, options);
}

// ---- Set-up

UcxTransport::UcxTransport(Rank rank, Rank size, const JobSecret& secret, TransportEvents& events,
                           const UcxOptions& options)
    : ucp_(ucp_library()), rank_(rank), size_(size), secret_(secret), events_(events) {
  CRATON_ASSERT(rank < size);
  CRATON_ASSERT(size <= max_ranks);
  for (Rank peer = 0; peer < size; ++peer) peers_.push_back(std::make_unique<Peer>(*this, peer));
  const SignalsBlocked blocked;  // for the threads that UCX starts
  try {
    open_context(options);
    open_workers();
  } catch (...) {
    destroy_workers();
    throw;
  }
}

void UcxTransport::open_context(const UcxOptions& options) {
  const QuietEnvironment quiet;
  ucp_config_t* config = nullptr;
  ucs_status_t status = ucp_.ucp_config_read(nullptr, nullptr, &config);
  if (status != UCS_OK) {
    fail(ucp_, ErrorCode::invalid_argument, "cannot read the settings of UCX", status,
         "check the UCX_ variables");
  }
  const std::unique_ptr<ucp_config_t, decltype(ucp_.ucp_config_release)> owner(config,
                                                                               ucp_.ucp_config_release);
  const auto set = [this, config](const char* name, const std::string& value) {
    const ucs_status_t outcome = ucp_.ucp_config_modify(config, name, value.c_str());
    if (outcome != UCS_OK) {
      fail(ucp_, ErrorCode::invalid_argument, fmt::format("cannot set UCX_{} to '{}'", name, value), outcome,
           "see ucx_info -c -f");
    }
  };
  if (!options.transports.empty()) {
    set("TLS", options.transports);
  } else if (std::getenv("UCX_TLS") == nullptr) {
    // Copies between processes by the kernel may tear a word of 8 bytes. Ranks of a node have Craton's own
    // shm.
    set("TLS", "^cma,knem");
  }
  if (!options.devices.empty()) set("NET_DEVICES", options.devices);
  if (std::getenv("UCX_KEEPALIVE_INTERVAL") == nullptr) set("KEEPALIVE_INTERVAL", keepalive_interval);

  ucp_params_t parameters{};
  parameters.field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_ESTIMATED_NUM_EPS | UCP_PARAM_FIELD_NAME;
  parameters.features = UCP_FEATURE_AM | UCP_FEATURE_WAKEUP;
  parameters.estimated_num_eps = size_;
  parameters.name = "craton";
  const auto initialise = [&] {
    status = ucp_.ucp_init_version(UCP_API_MAJOR, UCP_API_MINOR, &parameters, config, &context_);
    if (status != UCS_OK) {
      context_ = nullptr;
      fail(ucp_, ErrorCode::not_found, "cannot start UCX", status,
           "check the names of transports and devices with ucx_info -d, or use the tcp transport");
    }
  };
  initialise();
  resources_ = resources_of(ucp_, context_);
  native_ = resources_.rdma || options.ucx_emulation;
  if (!native_) return;
  // Once more, with UCX's own operations, which would let anybody in where ranks serve them. Who executes
  // atomics must not be left to UCX's guess: the network card where there is one that can, and then all of
  // them go through UCX.
  ucp_.ucp_cleanup(std::exchange(context_, nullptr));
  parameters.features |= UCP_FEATURE_RMA | UCP_FEATURE_AMO64;
  set("ATOMIC_MODE", resources_.rdma ? "device" : "cpu");
  initialise();
}

void UcxTransport::open_workers() {
  workers_.emplace(ucp_, context_, size_, !resources_.network);
  workers_->set_handler(frame_message_id, &UcxTransport::frame_arrived, this);
  workers_->set_handler(service_message_id, &UcxTransport::service_arrived, this);
  workers_->set_handler(service_pack_id, &UcxTransport::pack_arrived, this);
  const AddressPrefix prefix{.native = native_, .reports_death = resources_.network};
  address_.assign(reinterpret_cast<const char*>(&prefix), sizeof prefix);
  address_ += workers_->addresses();
  address_digest_ = digest_of(address_);
}

Capabilities UcxTransport::capabilities() const noexcept {
  return {.load_store = false,
          .native_one_sided = resources_.rdma,
          .atomic_domain = resources_.rdma ? AtomicDomain::nic : AtomicDomain::cpu,
          .max_message_bytes = max_message_bytes,
          .transport = "ucx"};
}

void UcxTransport::connect(Rank rank, const std::string& address) {
  CRATON_ASSERT(rank < size_);
  const std::string asked = fmt::format("cannot connect to rank {} over UCX", rank);
  if (address.size() <= sizeof(AddressPrefix)) {
    throw Error(ErrorCode::protocol, {asked, "its address is too short", {}, {}});
  }
  if (address.compare(0, sizeof(AddressPrefix), address_, 0, sizeof(AddressPrefix)) != 0) {
    throw Error(
        ErrorCode::not_supported,
        {asked,
         "it uses another kind of network, so that atomics or the detection of dead ranks would not fit",
         {},
         "give all ranks the same UCX_TLS and UCX_NET_DEVICES"});
  }
  const std::string_view own =
      workers_->address_for(rank_, std::string_view(address).substr(sizeof(AddressPrefix)));
  if (own.empty()) {
    throw Error(ErrorCode::protocol,
                {asked, fmt::format("its address says nothing to rank {}", rank_), {}, {}});
  }
  // UCX reads the address where it lies, and wants it aligned.
  std::vector<std::uint64_t> aligned((own.size() + 7) / 8);
  std::memcpy(aligned.data(), own.data(), own.size());

  Peer& peer = *peers_[rank];
  const std::lock_guard lock(lock_);
  if (peer.dead) return;
  CRATON_ASSERT(peer.endpoint == nullptr);
  ucp_ep_params_t parameters{};
  parameters.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                          UCP_EP_PARAM_FIELD_ERR_HANDLER;
  parameters.address = reinterpret_cast<const ucp_address_t*>(aligned.data());
  parameters.err_mode = resources_.network ? UCP_ERR_HANDLING_MODE_PEER : UCP_ERR_HANDLING_MODE_NONE;
  parameters.err_handler.cb = &UcxTransport::endpoint_failed;
  parameters.err_handler.arg = &peer;
  const ucs_status_t status = ucp_.ucp_ep_create(workers_->of(rank), &parameters, &peer.endpoint);
  if (status != UCS_OK) {
    peer.endpoint = nullptr;
    fail(ucp_, ErrorCode::not_supported, asked, status,
         "choose transports that reach it with UCX_TLS, or use tcp");
  }
  peer.address_digest = digest_of(address);
  const FrameProof outgoing(secret_, rank_, address_digest_, rank, *peer.address_digest);
  const FrameProof incoming(secret_, rank, *peer.address_digest, rank_, address_digest_);
  peer.send_token = outgoing.token();
  peer.receive_token = incoming.token();
  const Hello hello = outgoing.hello();
  post(peer, FrameKind::hello, wake_handler, &hello, sizeof hello);
  if (peer.early_hello) greet(peer, *peer.early_hello);
  send_welcomes();
}

bool UcxTransport::connected(Rank peer) const noexcept {
  return peers_[peer]->connected.load(std::memory_order_acquire);
}

// ---- Progress

bool UcxTransport::poll() {
  bool worked = false;
  {
    const std::lock_guard lock(lock_);
    asleep_ = false;
    progress();
    worked = std::exchange(worked_, false);
    std::swap(arrivals_, delivery_);
  }
  deliver();
  return worked;
}

/// Lets UCX work. Needs the lock.
void UcxTransport::progress() {
  workers_->progress();
  send_welcomes();
  send_answers();
  issue_wanted_flushes();
  close_failed();
  if (!closing_.empty()) reap_closing();
}

/// Runs completions and handlers for what has come. Without the lock.
void UcxTransport::deliver() {
  for (const FinishedOperation& finished : delivery_.operations) finish(finished);
  for (const InboundFrame& frame : delivery_.frames) {
    deliver_frame(frame.header,
                  reinterpret_cast<const std::byte*>(delivery_.words.data() + frame.first_word));
  }
  for (const Rank rank : delivery_.lost) {
    // Nobody writes the cause any more: a peer dies once.
    if (!destroying_) events_.peer_lost(rank, peers_[rank]->cause.c_str());
  }
  delivery_.clear();
}

void UcxTransport::Arrivals::clear() noexcept {
  operations.clear();
  frames.clear();
  words.clear();
  lost.clear();
}

bool UcxTransport::ready_to_sleep() {
  const std::lock_guard lock(lock_);
  // A waiter may look at anything that UCX has reported, so it must look once more.
  progress();
  if (worked_ || !flush_wanted_.empty() || !failing_.empty()) return false;
  // While a dead peer's operations are being ended, time may be all that happens; it is short and bounded.
  if (!closing_.empty()) return false;
  if (!workers_->arm()) return false;
  asleep_ = true;
  return true;
}

/// Something was issued that needs progress. UCX promises to wake only for what arrives, and what waits for
/// room in a queue may not be moved by anything that arrives.
void UcxTransport::wake_sleeper() noexcept {
  if (!asleep_) return;
  asleep_ = false;
  workers_->wake();
}

// ---- Death and farewell

void UcxTransport::endpoint_failed(void* peer, ucp_ep_h /*endpoint*/, ucs_status_t status) {
  auto& failed = *static_cast<Peer*>(peer);
  failed.transport.worked_ = true;
  failed.transport.note_failure(failed, "the connection", status);
}

/// The way to a peer is broken. May run inside UCX, so the endpoint is closed by close_failed().
void UcxTransport::note_failure(Peer& peer, const char* what, ucs_status_t status) noexcept {
  if (peer.dead) return;
  peer.dead.store(true);
  peer.cause = fmt::format("UCX: {} failed: {}", what, ucp_.ucs_status_string(status));
  failing_.push_back(&peer);
  wake_sleeper();
}

void UcxTransport::close_failed() {
  for (Peer* peer : failing_) start_closing(*peer);
  failing_.clear();
}

void UcxTransport::disconnect(Rank rank) noexcept {
  Peer& peer = *peers_[rank];
  const std::lock_guard lock(lock_);
  peer.disconnected.store(true);
  if (peer.dead) return;
  peer.dead.store(true);
  start_closing(peer);
  wake_sleeper();
}

bool UcxTransport::say_farewell(Rank rank) {
  Peer& peer = *peers_[rank];
  const std::lock_guard lock(lock_);
  if (peer.dead || peer.endpoint == nullptr) return true;
  if (!peer.farewell_sent) {
    peer.farewell_sent = true;
    post(peer, FrameKind::farewell, wake_handler, nullptr, 0);
    // An operation that nobody waits for: UCX calls a message sent when it has copied it, only a flush moves
    // it out.
    Operation& last = take_operation(peer, nullptr, nullptr, 0);
    require_flush(last);
    settle(last, UCS_OK);
  }
  return peer.operations == nullptr && peer.backlog_bytes.load(std::memory_order_relaxed) == 0;
}

bool UcxTransport::has_room(Rank rank) const noexcept {
  const Peer& peer = *peers_[rank];
  return peer.operation_count.load(std::memory_order_relaxed) < enough_operations &&
         peer.backlog_bytes.load(std::memory_order_relaxed) < refuse_backlog_bytes;
}

/// Ends everything with a dead peer; reap_closing() goes on with it.
void UcxTransport::start_closing(Peer& peer) noexcept {
  part_from(peer);
  peer.close_deadline_ns = clock_.now_ns() + cancel_limit_ns;
  closing_.push_back(&peer);
}

/// Begins to take back from UCX all that it holds for a dead peer.
void UcxTransport::part_from(Peer& peer) noexcept {
  if (workers_->one_each()) {
    drop_worker(peer);
  } else {
    close_endpoint(peer);
    end_unanswered(peer);
  }
}

/// Takes it back at once, with the peer's worker.
void UcxTransport::drop_worker(Peer& peer) noexcept {
  peer.endpoint = nullptr;
  destroy_keys(peer);
  workers_->destroy(peer.rank);
  // UCX has called back for some of what follows; it will not for the rest.
  peer.flush_in_flight = false;
  peer.flushing.clear();
  peer.unflushed.clear();
  for (Operation* operation = peer.operations; operation != nullptr;) {
    Operation* const next = operation->after;
    operation->requests = 0;
    operation->failed = true;
    end_if_done(*operation);
    operation = next;
  }
  peer.frames.clear();
  peer.service_frames.clear();
  peer.packs.clear();
  peer.backlog_bytes = 0;
}

/// Makes UCX cancel what is in flight to a peer.
void UcxTransport::close_endpoint(Peer& peer) noexcept {
  if (peer.endpoint == nullptr) return;
  ucp_request_param_t parameters{};
  parameters.op_attr_mask =
      UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_FLAGS;
  parameters.cb.send = &UcxTransport::close_ended;
  parameters.user_data = &peer;
  parameters.flags = UCP_EP_CLOSE_FLAG_FORCE;
  peer.close_in_flight = true;
  const ucs_status_ptr_t request = ucp_.ucp_ep_close_nbx(std::exchange(peer.endpoint, nullptr), &parameters);
  if (request != nullptr && !UCS_PTR_IS_ERR(request)) return;
  peer.close_in_flight = false;
  if (request != nullptr) {
    process_log().write({"ucx: cannot close the connection to rank ", peer.rank, ": ",
                         ucp_.ucs_status_string(UCS_PTR_STATUS(request))});
  }
}

void UcxTransport::close_ended(void* request, ucs_status_t /*status*/, void* peer) {
  auto& closed = *static_cast<Peer*>(peer);
  closed.transport.worked_ = true;
  closed.close_in_flight = false;
  closed.transport.ucp_.ucp_request_free(request);
}

/// Reports peers that have nothing in flight any more, and takes from UCX what it keeps too long.
void UcxTransport::reap_closing() {
  const TimeNs now_ns = clock_.now_ns();
  std::erase_if(closing_, [this, now_ns](Peer* peer) {
    if (!closed(*peer)) {
      if (now_ns < peer->close_deadline_ns) return false;
      abandon_operations(*peer);
    }
    worked_ = true;
    // Without a cause it was disconnect() that said so. After a farewell the end of the connection is no
    // news.
    if (!peer->cause.empty() && !peer->farewell_received) arrivals_.lost.push_back(peer->rank);
    return true;
  });
}

UcxTransport::~UcxTransport() {
  destroying_ = true;
  // A peer that has not read our farewell must not find the connection closed.
  progress_until(farewell_limit_ns, [this] {
    return std::all_of(peers_.begin(), peers_.end(), [](const std::unique_ptr<Peer>& peer) {
      if (!peer->farewell_sent || peer->dead) return true;
      return peer->farewell_received && peer->operations == nullptr && peer->backlog_bytes == 0;
    });
  });
  {
    const std::lock_guard lock(lock_);
    for (const std::unique_ptr<Peer>& peer : peers_) {
      peer->dead.store(true);
      part_from(*peer);
    }
  }
  progress_until(cancel_limit_ns, [this] {
    return std::all_of(peers_.begin(), peers_.end(),
                       [this](const std::unique_ptr<Peer>& peer) { return closed(*peer); });
  });
  // Whoever still waits for an operation must not wait for ever.
  for (const std::unique_ptr<Peer>& peer : peers_) abandon_operations(*peer);
  std::swap(arrivals_, delivery_);
  deliver();
  destroy_workers();
}

/// Polls and sleeps until `condition`, which is looked at under the lock, or the limit.
void UcxTransport::progress_until(TimeNs limit_ns, FunctionRef<bool()> condition) {
  const TimeNs deadline_ns = clock_.now_ns() + limit_ns;
  for (;;) {
    poll();
    {
      const std::lock_guard lock(lock_);
      if (condition()) return;
    }
    const TimeNs left_ns = deadline_ns - clock_.now_ns();
    if (left_ns <= 0) return;
    if (!ready_to_sleep()) continue;
    pollfd waited{.fd = workers_->descriptor(), .events = POLLIN, .revents = 0};
    ::poll(&waited, 1, static_cast<int>(left_ns / 1'000'000) + 1);
  }
}

/// Before the peer's worker: UCX keeps them in its memory.
void UcxTransport::destroy_keys(Peer& peer) noexcept {
  for (auto& [region, parts] : peer.regions) {
    for (RemoteRegion& part : parts) {
      if (part.key != nullptr) ucp_.ucp_rkey_destroy(std::exchange(part.key, nullptr));
    }
  }
}

void UcxTransport::destroy_workers() noexcept {
  for (const std::unique_ptr<Peer>& peer : peers_) destroy_keys(*peer);
  for (OwnRegion& own : own_regions_) {
    if (own.handle != nullptr) ucp_.ucp_mem_unmap(context_, own.handle);
  }
  own_regions_.clear();
  workers_.reset();
  if (context_ != nullptr) ucp_.ucp_cleanup(context_);
}

}  // namespace craton::fabric::ucx

#endif
