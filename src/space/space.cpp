#include "space/space.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstring>
#include <exception>
#include <system_error>
#include <utility>

#include "base/assert.hpp"
#include "base/error.hpp"
#include "base/events.hpp"
#include "base/fingerprint.hpp"
#include "base/line_writer.hpp"
#include "base/processors.hpp"
#include "base/signals_blocked.hpp"
#include "fabric/lost_peer.hpp"
#include "vm/fault_state.hpp"

namespace craton::space {

namespace {

// Regions and handlers, counted from the space's first.
constexpr fabric::RegionId agreement_region = 0;
constexpr fabric::RegionId board_region = 1;
constexpr fabric::RegionId mutex_region = 2;
constexpr fabric::RegionId barrier_region = 3;
constexpr fabric::RegionId owned_region = 4;
constexpr fabric::RegionId first_segment_region = 5;
constexpr fabric::RegionId regions_a_segment = 4;
constexpr fabric::HandlerId agreement_handler = 0;
constexpr fabric::HandlerId protocol_handler = 1;
constexpr fabric::HandlerId barrier_handler = 2;
constexpr fabric::HandlerId mutex_handler = 3;
constexpr fabric::HandlerId exclusive_handler = 4;
constexpr fabric::HandlerId board_handler = 5;
constexpr fabric::HandlerId bulletin_handler = 6;
static_assert(bulletin_handler + 1 == SpaceOptions::handlers);

/// Fewer addresses than this are not worth a try.
constexpr std::size_t least_address_bytes = std::size_t{8} << 30U;

fabric::HandlerId handler(const SpaceOptions& options, fabric::HandlerId number) {
  return static_cast<fabric::HandlerId>(options.first_handler + number);
}

std::uint64_t fingerprint(const SegmentOptions& options) {
  const coherence::Dials& dials = options.dials;
  return Fingerprint()
      .add(options.name)
      .add(options.bytes)
      .add(options.block_bytes)
      .add(options.address)
      .add(static_cast<std::uint64_t>(options.initial_homes.kind))
      .add(options.initial_homes.rank)
      .add(static_cast<std::uint64_t>(dials.home))
      .add(static_cast<std::uint64_t>(dials.invalidation))
      .add(static_cast<std::uint64_t>(dials.release))
      .add(dials.lease)
      .add(std::uint64_t{dials.hot_blocks})
      .add(std::uint64_t{dials.causal})
      .add(static_cast<std::uint64_t>(dials.strength))
      .value();
}

}  // namespace

// ---- Segment

Segment::Memory::Memory(vm::AddressRange range, const SegmentOptions& options, vm::Mechanism mechanism,
                        const vm::Mechanisms& mechanisms, vm::MapBudget& budget)
    : views(options.name, std::move(range), options.block_bytes),
      twins("craton twins", views.bytes()),
      words("craton words", views.blocks() * sizeof(coherence::BlockWords)),
      home_bytes("craton home bytes",
                 options.dials.home == coherence::Home::fixed ? views.bytes() : std::size_t{1}),
      pages(vm::make_page_table(mechanism, mechanisms, views, budget)) {}

Segment::Segment(fabric::Fabric& fabric, coherence::LeaseRelease& protocol, std::unique_ptr<Memory> memory,
                 const SegmentOptions& options, fabric::RegionId first_region)
    : first_region_(first_region),
      memory_(std::move(memory)),
      protocol_(
          protocol.add_segment({.pages = *memory_->pages,
                                .data = first_region,
                                .twins = first_region + 1,
                                .own_twins = memory_->twins.data(),
                                .words = first_region + 2,
                                .own_words = reinterpret_cast<coherence::BlockWords*>(memory_->words.data()),
                                .home_bytes = first_region + 3,
                                .own_home_bytes = memory_->home_bytes.data(),
                                .initial_homes = options.initial_homes,
                                .dials = options.dials,
                                .application_view = memory_->views.application_view()})),
      faults_(protocol_, fabric.clock(), protocol_.counters()),
      caught_(*memory_->pages, faults_, static_cast<int>(fabric.rank())) {
  fabric.register_region(first_region_, memory_->views.region_memory());
  fabric.register_region(first_region_ + 1, memory_->twins);
  fabric.register_region(first_region_ + 2, memory_->words);
  fabric.register_region(first_region_ + 3, memory_->home_bytes);
}

Segment::~Segment() = default;

void Segment::close(fabric::Fabric& fabric) {
  for (fabric::RegionId i = regions_a_segment; i > 0; --i) fabric.unregister_region(first_region_ + i - 1);
}

void Segment::Faults::fault(vm::BlockIndex block, bool write) {
  const vm::FaultRecord* const record = vm::thread_faults().current;
  const events::Span span(write ? events::Kind::write_fault : events::Kind::read_fault,
                          record != nullptr ? record->address : nullptr,
                          record != nullptr ? record->instruction : nullptr);
  try {
    const TimeNs start_ns = clock_.now_ns();
    protocol_.fault(block, write);
    coherence::Counters::add(counters_.fault_ns, static_cast<std::uint64_t>(clock_.now_ns() - start_ns));
  } catch (const Error& error) {
    fabric::wait_for_the_end_if_lost(error);
    vm::refuse_fault(error.what());
  }
}

// ---- Space

Space::Space(fabric::Fabric& fabric, const SpaceOptions& options)
    : fabric_(fabric),
      options_(options),
      mechanisms_(vm::probe()),
      mechanism_(vm::choose_mechanism(options.mechanism, mechanisms_)),
      budget_(vm::MapBudget::kernel_limit_here()),
      agreement_(fabric, options.first_region + agreement_region, handler(options, agreement_handler)),
      reservation_(reserve(options.address_bytes)),
      board_(fabric, options.first_region + board_region, handler(options, board_handler),
             options.notice_capacity),
      bulletin_(fabric, handler(options, bulletin_handler), options.notice_capacity),
      protocol_(fabric, handler(options, protocol_handler), board_, bulletin_,
                {.notice_capacity = options.notice_capacity, .parallel_releases = options.parallel_releases}),
      exclusive_(fabric, handler(options, exclusive_handler), protocol_, &Space::start_service, this),
      barrier_(fabric, protocol_, options.first_region + barrier_region, handler(options, barrier_handler),
               options.threads),
      mutexes_(fabric, protocol_, options.first_region + mutex_region, handler(options, mutex_handler),
               options.mutexes),
      heartbeat_(fabric, protocol_, board_, options.heartbeat_ns) {
  agree(Fingerprint().add(options.notice_capacity).add(options.mutexes).add(options.address_bytes).value(),
        "cannot make a coherent space", "its options");
}

Space::~Space() {
  heartbeat_.stop();
  end_service();
  protocol_.set_fence_listener(nullptr);
  owned_.reset();
  segments_.clear();
}

/// Signals are for the program's own threads.
void Space::start_service(void* self) noexcept {
  auto& space = *static_cast<Space*>(self);
  const std::lock_guard lock(space.service_lock_);
  if (space.service_ended_) return;
  try {
    const SignalsBlocked blocked;
    space.service_ = std::thread([&space]() noexcept {
      use_all_processors();
      space.exclusive_.serve();
    });
  } catch (const std::system_error& failure) {
    const Error error = Error::from_errno("cannot start the thread that serves strong blocks",
                                          failure.code().value(), "ulimit -u, ulimit -d");
    // Whoever needs it waits in a fault, here or on another rank: nobody could be told of it but by this.
    write_fully(STDERR_FILENO, fmt::format("craton: rank {}: {}\n", space.fabric_.rank(), error.what()));
    ::_exit(1);
  }
}

void Space::end_service() {
  exclusive_.stop();
  {
    const std::lock_guard lock(service_lock_);
    service_ended_ = true;
  }
  if (service_.joinable()) service_.join();
}

/// Tries the bases in turn until one is free on all ranks; then the same with less, where little is free
/// (under the thread sanitizer for one).
std::unique_ptr<vm::Reservation> Space::reserve(std::size_t wanted) {
  std::string last;
  for (std::size_t bytes = wanted; bytes == wanted || bytes >= least_address_bytes; bytes /= 8) {
    for (const std::uintptr_t base : vm::Reservation::candidate_bases()) {
      std::unique_ptr<vm::Reservation> reservation;
      try {
        reservation = std::make_unique<vm::Reservation>(base, bytes);
      } catch (const Error& error) {
        last = error.what();
      }
      const std::vector<std::uint64_t> had = agreement_.gather(reservation != nullptr ? 1 : 0);
      const auto without = std::find(had.begin(), had.end(), 0);
      if (without == had.end()) return reservation;
      if (reservation != nullptr)
        last = fmt::format("rank {} cannot have the addresses from {:#x} on", without - had.begin(), base);
    }
  }
  throw Error(
      ErrorCode::out_of_resources,
      {.asked = fmt::format("cannot reserve {} GiB of addresses for the coherent space", wanted >> 30U),
       .happened = "no range is free on all ranks; " + last,
       .limit = "ulimit -v",
       .remedy = "ask for fewer addresses"});
}

void Space::agree(std::uint64_t own, const char* asked, const char* what) {
  const std::vector<std::uint64_t> all = agreement_.gather(own);
  for (fabric::Rank rank = 1; rank < all.size(); ++rank) {
    if (all[rank] == all[0]) continue;
    throw Error(ErrorCode::invalid_argument,
                {.asked = asked,
                 .happened = fmt::format("rank {} and rank 0 do not agree on {}", rank, what),
                 .limit = {},
                 .remedy = "make the same calls in the same order on all ranks"});
  }
}

vm::AddressRange Space::take_addresses(const SegmentOptions& options) {
  if (options.address == 0) return reservation_->take(options.bytes, std::bit_ceil(options.block_bytes));
  claimed_.push_back(
      std::make_unique<vm::Reservation>(options.address, options.bytes, vm::Reservation::Claim::replace));
  return claimed_.back()->take_at(0, options.bytes);
}

/// On all ranks or on none: who lacks something for it says so before anybody relies on the others.
std::unique_ptr<Segment::Memory> Space::make_memory(const SegmentOptions& options) {
  std::unique_ptr<Segment::Memory> memory;
  std::exception_ptr own;
  const std::size_t claims = claimed_.size();
  try {
    memory =
        std::make_unique<Segment::Memory>(take_addresses(options), options, mechanism_, mechanisms_, budget_);
  } catch (...) {
    own = std::current_exception();
  }
  const std::vector<std::uint64_t> had = agreement_.gather(memory != nullptr ? 1 : 0);
  const auto without = std::find(had.begin(), had.end(), 0);
  if (without == had.end()) return memory;
  memory.reset();
  claimed_.resize(claims);
  if (own != nullptr) std::rethrow_exception(own);
  throw Error(ErrorCode::out_of_resources,
              {.asked = fmt::format("cannot make segment '{}'", options.name),
               .happened = fmt::format("rank {} lacks something for it", without - had.begin()),
               .limit = {},
               .remedy = "see what that rank says"});
}

Segment& Space::create_segment(const SegmentOptions& options) {
  constexpr const char* asked = "cannot make a segment";
  vm::check_block_bytes(options.block_bytes);
  if (options.bytes == 0) {
    throw Error(ErrorCode::invalid_argument,
                {.asked = asked, .happened = "it would have no bytes", .limit = {}, .remedy = {}});
  }
  agree(fingerprint(options), asked, "its options");
  SegmentOptions rounded = options;
  rounded.bytes = (options.bytes + options.block_bytes - 1) / options.block_bytes * options.block_bytes;
  const auto first_region = static_cast<fabric::RegionId>(options_.first_region + first_segment_region +
                                                          segments_.size() * regions_a_segment);
  segments_.append(
      std::unique_ptr<Segment>(new Segment(fabric_, protocol_, make_memory(rounded), rounded, first_region)));
  agree(reinterpret_cast<std::uintptr_t>(segments_.back().data()), asked, "its address");
  return segments_.back();
}

OwnedSegment& Space::create_owned_segment(const std::string& name, std::size_t part_bytes,
                                          vm::Contents contents) {
  CRATON_ASSERT(owned_ == nullptr);
  agree(Fingerprint().add(name).add(part_bytes).value(), "cannot make memory of each rank's own",
        "its options");
  owned_ = std::make_unique<OwnedSegment>(
      fabric_, name, reservation_->take(part_bytes * fabric_.size(), 4096), part_bytes,
      options_.first_region + owned_region, mechanism_, mechanisms_, budget_, contents);
  agree(reinterpret_cast<std::uintptr_t>(owned_->data()), "cannot make memory of each rank's own",
        "its address");
  protocol_.set_fence_listener(owned_.get());
  return *owned_;
}

void Space::close() {
  agreement_.meet();  // until then others may wait for a release of this rank
  heartbeat_.stop();
  agreement_.meet();  // and until then a beat may ask others
  end_service();
  if (owned_ != nullptr) owned_->close();
  for (std::size_t i = segments_.size(); i > 0; --i) segments_[i - 1].close(fabric_);
  mutexes_.close();
  barrier_.close();
  board_.close();
  agreement_.close();
}

Segment* Space::find(const void* address) noexcept {
  for (const auto& segment : segments_) {
    if (segment->contains(address)) return segment.get();
  }
  return nullptr;
}

Segment& Space::segment_of_word(const void* word, std::size_t bytes, std::uint64_t& offset) {
  Segment* const segment = find(word);
  const bool sized = bytes == 1 || bytes == 2 || bytes == 4 || bytes == 8;
  if (segment == nullptr || !sized || reinterpret_cast<std::uintptr_t>(word) % bytes != 0) {
    throw Error(ErrorCode::invalid_argument,
                {.asked = fmt::format("cannot use {} bytes at {} atomically", bytes, word),
                 .happened = segment == nullptr ? "they are in no segment" : "they are no aligned word",
                 .limit = "words of 1, 2, 4 or 8 bytes",
                 .remedy = {}});
  }
  offset = static_cast<std::uint64_t>(static_cast<const std::byte*>(word) - segment->data());
  return *segment;
}

void Space::update(void* word, std::size_t bytes, FunctionRef<void(std::byte* value)> modify) {
  std::uint64_t offset = 0;
  const Segment& segment = segment_of_word(word, bytes, offset);
  protocol_.update(segment.protocol_.id(), offset, bytes, modify);
}

void Space::load(const void* word, std::size_t bytes, void* value) {
  std::uint64_t offset = 0;
  const Segment& segment = segment_of_word(word, bytes, offset);
  // Not into `value` at once, which may be shared: a fault there would find locks of the word's block held.
  std::array<std::byte, sizeof(std::uint64_t)> found{};
  const auto load_word = [&]<typename Word>(Word /*type*/) {
    const Word loaded = std::atomic_ref(*const_cast<Word*>(static_cast<const Word*>(word))).load();
    std::memcpy(found.data(), &loaded, sizeof loaded);
  };
  const auto load_here = [&] {
    switch (bytes) {
      case 1:
        return load_word(std::uint8_t{});
      case 2:
        return load_word(std::uint16_t{});
      case 4:
        return load_word(std::uint32_t{});
      default:
        return load_word(std::uint64_t{});
    }
  };
  if (!exclusive_.run_atomic(segment.protocol_.id(), offset, load_here)) {
    protocol_.update(segment.protocol_.id(), offset, bytes,
                     [&](const std::byte* newest) { std::memcpy(found.data(), newest, bytes); });
  }
  std::memcpy(value, found.data(), bytes);
}

void Space::publish() {
  protocol_.release();
}

bool Space::flush() {
  return protocol_.flush();
}

void Space::learn(fabric::Rank rank) {
  if (rank != fabric_.rank()) protocol_.acquire(rank, coherence::no_site);
}

void Space::learn(std::vector<fabric::Rank> ranks) {
  std::erase(ranks, fabric_.rank());
  if (!ranks.empty()) protocol_.acquire(ranks, coherence::no_site);
}

void Space::learn_from_all() {
  protocol_.acquire(protocol_.others(), coherence::no_site);
}

void Space::for_blocks(const void* begin, std::size_t bytes, const char* asked,
                       FunctionRef<void(coherence::LeaseSegment&, std::uint64_t)> action) {
  Segment* const segment = find(begin);
  const auto* const first = static_cast<const std::byte*>(begin);
  const std::uint64_t offset = segment == nullptr ? 0 : static_cast<std::uint64_t>(first - segment->data());
  if (segment == nullptr || bytes == 0 || bytes > segment->bytes() - offset) {
    throw Error(ErrorCode::invalid_argument, {.asked = fmt::format("{} {} bytes at {}", asked, bytes, begin),
                                              .happened = "they are not in one segment",
                                              .limit = {},
                                              .remedy = {}});
  }
  const std::uint64_t last = (offset + bytes - 1) / segment->block_bytes();
  for (std::uint64_t block = offset / segment->block_bytes(); block <= last; ++block)
    action(segment->blocks(), block);
}

void Space::pin(const void* begin, std::size_t bytes) {
  for_blocks(begin, bytes, "cannot pin",
             [](coherence::LeaseSegment& segment, std::uint64_t block) { segment.pin(block); });
}

void Space::unpin(const void* begin, std::size_t bytes) {
  for_blocks(begin, bytes, "cannot unpin",
             [](coherence::LeaseSegment& segment, std::uint64_t block) { segment.unpin(block); });
}

void Space::set_strength(const void* begin, std::size_t bytes, coherence::Strength strength) {
  for_blocks(begin, bytes, "cannot set the strength of",
             [&](coherence::LeaseSegment& segment, std::uint64_t block) {
               exclusive_.set_strength(segment.id(), block, 1, strength);
             });
}

}  // namespace craton::space
