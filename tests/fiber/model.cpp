#include "model.hpp"

#include <utility>

namespace craton::fiber::model {

namespace {
constexpr std::size_t thread_stack_bytes = 256 * 1024;
constexpr std::uint64_t max_steps = 400'000;
}  // namespace

World* World::running_world = nullptr;
std::vector<std::unique_ptr<Stack>> World::spare_stacks;

World::Thread::Thread(std::function<void()> run, void (*entry)(void*), std::unique_ptr<Stack> on)
    : body(std::move(run)), stack(std::move(on)), coroutine(*stack, entry, this) {}

World::World(std::uint64_t seed) : random_(seed * 0x9e3779b97f4a7c15U + 0x2545f4914f6cdd1dU) {
  constexpr std::array<std::uint64_t, 4> rates{2, 3, 6, 16};
  switch_one_in_ = rates[random(rates.size())];
  running_world = this;
}

World::~World() {
  for (const auto& thread : threads_) spare_stacks.push_back(std::move(thread->stack));
  running_world = nullptr;
}

std::uint64_t World::random(std::uint64_t below) noexcept {
  random_ += 0x9e3779b97f4a7c15U;  // splitmix64
  std::uint64_t value = random_;
  value = (value ^ (value >> 30U)) * 0xbf58476d1ce4e5b9U;
  value = (value ^ (value >> 27U)) * 0x94d049bb133111ebU;
  return (value ^ (value >> 31U)) % below;
}

void World::main(void* self) {
  auto& thread = *static_cast<Thread*>(self);
  thread.body();
  thread.body = nullptr;
  thread.finished = true;
  thread.coroutine.finish();
}

std::size_t World::start(std::function<void()> body) {
  if (threads_.size() == max_threads) fail("more threads than the model has");
  std::unique_ptr<Stack> stack;
  if (spare_stacks.empty()) {
    stack = std::make_unique<Stack>(thread_stack_bytes);
  } else {
    stack = std::move(spare_stacks.back());
    spare_stacks.pop_back();
  }
  const std::size_t number = threads_.size();
  threads_.push_back(std::make_unique<Thread>(std::move(body), &main, std::move(stack)));
  if (number != 0) {
    threads_[number]->clock = clock();
    stamp();  // what the starter does from here on is not known to the new thread
  }
  return number;
}

std::string World::run(std::function<void()> body) {
  start(std::move(body));
  while (failure_.empty()) {
    std::array<std::size_t, max_threads> ready{};
    std::size_t count = 0;
    bool all_finished = true;
    for (std::size_t i = 0; i < threads_.size(); ++i) {
      const Thread& thread = *threads_[i];
      all_finished = all_finished && thread.finished;
      if (!thread.finished && thread.waits_for == nullptr) ready[count++] = i;
    }
    if (all_finished) return {};
    if (count == 0) return "all threads wait for ever";
    if (++steps_ > max_steps) return "the schedule does not end";
    current_ = ready[random(count)];
    Thread& thread = *threads_[current_];
    thread.coroutine.resume();
    if (!thread.finished) continue;
    for (const auto& other : threads_) {
      if (other->waits_for == &thread) other->waits_for = nullptr;
    }
  }
  return failure_;
}

void World::step() {
  if (one_in(switch_one_in_)) give_way();
}

void World::give_way() {
  threads_[current_]->coroutine.suspend();
}

void World::fail(const std::string& what) {
  if (failure_.empty()) failure_ = "thread " + std::to_string(current_) + ": " + what;
  threads_[current_]->coroutine.suspend();  // for good: the schedule ends here
}

void World::block_on(const void* word) {
  threads_[current_]->waits_for = word;
  threads_[current_]->coroutine.suspend();
}

void World::wake(const void* word, int count) {
  std::array<std::size_t, max_threads> waiting{};
  std::size_t waiters = 0;
  for (std::size_t i = 0; i < threads_.size(); ++i) {
    if (threads_[i]->waits_for == word) waiting[waiters++] = i;
  }
  for (; count > 0 && waiters > 0; --count) {
    const std::size_t chosen = random(waiters);
    threads_[waiting[chosen]]->waits_for = nullptr;
    waiting[chosen] = waiting[--waiters];
  }
}

void World::join(std::size_t thread) {
  if (!threads_[thread]->finished) block_on(threads_[thread].get());
  clock().join(threads_[thread]->clock);
}

std::string explore(std::uint64_t schedules, const std::function<void()>& body) {
  std::uint64_t first = 1;
  if (const char* seed = std::getenv("FIBER_MODEL_SEED")) {
    first = std::strtoull(seed, nullptr, 10);
    schedules = 1;
  } else if (const char* wanted = std::getenv("FIBER_MODEL_SCHEDULES")) {
    schedules = std::strtoull(wanted, nullptr, 10);
  }
  for (std::uint64_t seed = first; seed < first + schedules; ++seed) {
    World world(seed);
    const std::string failure = world.run(body);
    if (!failure.empty())
      return "seed " + std::to_string(seed) + ": " + failure +
             "; replay: FIBER_MODEL_SEED=" + std::to_string(seed);
  }
  return {};
}

}  // namespace craton::fiber::model
