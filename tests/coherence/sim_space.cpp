#include "sim_space.hpp"

#include "coherence/state_lock.hpp"

namespace craton::coherence::test {

namespace {
unsigned ranks = 0;  ///< that are there

constexpr fabric::RegionId regions_a_segment = 4;
constexpr fabric::RegionId board_region = 1000;
constexpr fabric::RegionId mutex_region = 1001;
constexpr fabric::RegionId barrier_region = 1002;
constexpr fabric::HandlerId barrier_handler = fabric::first_free_handler + 3;
constexpr fabric::HandlerId mutex_handler = barrier_handler + 1;
constexpr fabric::HandlerId exclusive_handler = mutex_handler + 1;
constexpr fabric::HandlerId board_handler = exclusive_handler + 1;
constexpr fabric::HandlerId bulletin_handler = board_handler + 1;
}  // namespace

SimRank::Memory::Memory(fabric::sim::SimFabric& fabric, SegmentId id, const SegmentShape& shape)
    : data("data", shape.block_bytes * shape.blocks),
      twins("twins", shape.block_bytes * shape.blocks),
      words("words", sizeof(BlockWords) * shape.blocks),
      home_bytes("home bytes", shape.dials.home == Home::fixed ? shape.block_bytes * shape.blocks : 1),
      pages(fabric, data.data(), shape.block_bytes, shape.blocks),
      first_region(id * regions_a_segment) {}

SimRank::SimRank(fabric::sim::SimFabric& fabric, const std::vector<SegmentShape>& shapes,
                 const SpaceDials& dials, unsigned threads, std::uint32_t mutexes, Releaser* releaser)
    : fabric_(fabric),
      board_(fabric, board_region, board_handler, dials.notice_capacity),
      bulletin_(fabric, bulletin_handler, dials.notice_capacity),
      protocol_(fabric, fabric::first_free_handler, board_, bulletin_, dials),
      exclusive_(fabric, exclusive_handler, protocol_, &SimRank::start_service, this),
      barrier_(fabric, protocol_, barrier_region, barrier_handler, threads, 0),
      mutexes_(fabric, protocol_, mutex_region, mutex_handler, mutexes) {
  Interleaving::context = &fabric.world();
  Interleaving::run = [](void* world) noexcept { static_cast<fabric::sim::World*>(world)->maybe_switch(); };
  ++ranks;
  if (releaser != nullptr) protocol_.set_releaser(*releaser);
  for (const SegmentShape& shape : shapes) {
    segments_.push_back(std::make_unique<Memory>(fabric, static_cast<SegmentId>(segments_.size()), shape));
    Memory& memory = *segments_.back();
    fabric.register_region(memory.first_region, memory.data);
    fabric.register_region(memory.first_region + 1, memory.twins);
    fabric.register_region(memory.first_region + 2, memory.words);
    fabric.register_region(memory.first_region + 3, memory.home_bytes);
    protocol_.add_segment({.pages = memory.pages,
                           .data = memory.first_region,
                           .twins = memory.first_region + 1,
                           .own_twins = memory.twins.data(),
                           .words = memory.first_region + 2,
                           .own_words = reinterpret_cast<BlockWords*>(memory.words.data()),
                           .home_bytes = memory.first_region + 3,
                           .own_home_bytes = memory.home_bytes.data(),
                           .initial_homes = shape.initial_homes,
                           .dials = shape.dials});
  }
}

SimRank::~SimRank() {
  if (--ranks == 0) Interleaving::run = nullptr;
}

void SimRank::start_service(void* self) noexcept {
  auto& rank = *static_cast<SimRank*>(self);
  if (rank.fabric_.world().left(rank.fabric_.rank())) return;
  rank.serving_ = true;
  rank.fabric_.world().spawn(rank.fabric_.rank(), [&rank](fabric::sim::SimFabric& fabric) {
    rank.exclusive_.serve();
    rank.serving_ = false;
    fabric.notify();
  });
}

void SimRank::stop_service() {
  exclusive_.stop();
  static_cast<void>(fabric_.wait_until([this] { return !serving_; }, no_deadline));
}

void SimRank::close() {
  stop_service();
  mutexes_.close();
  barrier_.close();
  board_.close();
  for (const auto& memory : segments_) {
    for (fabric::RegionId i = 0; i < regions_a_segment; ++i)
      fabric_.unregister_region(memory->first_region + i);
  }
}

}  // namespace craton::coherence::test
