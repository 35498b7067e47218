/// \file
/// Several transports of one kind as one, with executors before them: parallel software offloading after
/// chapter 4 of the dissertation (4.3.2, 4.4.1; MECOM).
///
///                        ┌─▶ queue ─▶ executor ─▶ endpoint 0 ─▶ peers
///   get, put, atomic ────┤   ...                  ...                  round-robin, as in listing 4.3
///                        └─▶ queue ─▶ executor ─▶ endpoint k ─▶ peers
///   messages, which have an order ───────────────▶ endpoint 0
///   handlers and callbacks, which must not wait ─▶ any endpoint, past its queue
///
/// An endpoint is a whole transport: its own sockets or UCX worker, its own lock. Each of them is polled by
/// the fabric as if it were alone.
///
/// Where it departs from the paper: an endpoint reaches all peers (there: a queue a peer and endpoint), so
/// that what goes to several peers shares a batch, and a job of many ranks needs no more executors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "fabric/offload/executor.hpp"
#include "fabric/offload/options.hpp"
#include "fabric/progress.hpp"
#include "fabric/transport.hpp"
#include "fiber/fiber.hpp"

namespace craton::fabric::offload {

class OffloadTransport final : public Transport {
 public:
  /// Makes one endpoint, which tells `events` what happens.
  using MakeEndpoint = std::function<std::unique_ptr<Transport>(TransportEvents& events)>;

  /// \throws Error invalid_argument, and what make_endpoint throws
  OffloadTransport(OffloadOptions options, Rank size, TransportEvents& events,
                   const MakeEndpoint& make_endpoint);
  /// Issues what is queued, ends the executors, then the endpoints. Not inside poll().
  ~OffloadTransport() override;
  OffloadTransport(const OffloadTransport&) = delete;
  OffloadTransport& operator=(const OffloadTransport&) = delete;

  /// Has the endpoints polled by `progress`, which outlives this object's executors, and starts these. Once,
  /// before anything is issued. \param linger_ns see Executor \throws Error out_of_resources
  void start(Progress& progress, TimeNs linger_ns);

  const char* name() const noexcept override { return endpoints_[0]->transport->name(); }
  Capabilities capabilities() const noexcept override { return endpoints_[0]->transport->capabilities(); }
  std::string address() const override;
  void connect(Rank peer, const std::string& address) override;
  bool connected(Rank peer) const noexcept override;
  void announce_region(Rank peer, RegionId region, const RegionMemory& memory) override;
  void withdraw_region(RegionId region) override;
  void get(void* destination, RemoteAddress source, std::size_t bytes, Completion& completion) override;
  void put(RemoteAddress destination, const void* source, std::size_t bytes, Completion& completion) override;
  void atomic(AtomicOperation operation, RemoteAddress word, std::uint64_t* previous,
              Completion& completion) override;
  bool send(Rank target, HandlerId handler, const void* payload, std::size_t bytes,
            bool may_refuse) override {
    return endpoints_[0]->transport->send(target, handler, payload, bytes, may_refuse);
  }
  FlushCounter* flush_counter(Rank peer) noexcept override {
    return endpoints_[0]->transport->flush_counter(peer);
  }
  std::size_t endpoints() const noexcept override { return endpoints_.size(); }
  Transport& endpoint(std::size_t index) noexcept override { return *endpoints_[index]->transport; }
  std::uint64_t queued(std::size_t index) const noexcept override;
  bool issued(std::size_t index, std::uint64_t count) noexcept override;
  bool say_farewell(Rank peer) override;
  void disconnect(Rank peer) noexcept override;
  bool has_room(Rank peer) const noexcept override;
  std::string last_failure() const override;
  /// Does nothing: the endpoints are polled.
  bool poll() override { return false; }

 private:
  /// Puts together what the endpoints say. In poll() but for room_made() and local_part().
  class Endpoint final : public TransportEvents {
   public:
    explicit Endpoint(OffloadTransport& of) : of_(of) {}
    std::unique_ptr<Transport> transport;
    std::unique_ptr<Executor> executor;  ///< none if requesters issue by themselves

    void message_arrived(Rank source, HandlerId handler, const std::byte* payload,
                         std::size_t bytes) override {
      of_.events_.message_arrived(source, handler, payload, bytes);
    }
    void region_announced(Rank source, RegionId region, std::uint64_t bytes, std::byte* direct) override;
    void peer_lost(Rank peer, const char* cause) override { of_.events_.peer_lost(peer, cause); }
    void room_made() noexcept override { of_.events_.room_made(); }
    void peer_left(Rank peer) override;
    LocalPart local_part(RegionId region) const noexcept override { return of_.events_.local_part(region); }

   private:
    OffloadTransport& of_;
  };

  void take(const Command& command);
  void start_executors();

  const OffloadOptions options_;
  TransportEvents& events_;
  std::vector<std::unique_ptr<Endpoint>> endpoints_;            ///< never changes
  std::map<std::pair<Rank, RegionId>, std::size_t> announced_;  ///< by how many endpoints, if not by all
  std::vector<std::size_t> left_;                               ///< by rank: at how many endpoints it has
  std::optional<fiber::Runtime> runtime_;                       ///< dynamic only
  std::vector<fiber::Join> fibers_;
  std::vector<std::thread> threads_;  ///< static only
};

}  // namespace craton::fabric::offload
