#include "conformance.hpp"

#include <cstring>

namespace craton::fabric::conformance {

RankContext::RankContext(Fabric& on, std::uint64_t seed, std::optional<Rank> who_dies)
    : fabric(on),
      random(sim::Random::mix(seed * 4096 + on.rank())),
      victim(who_dies),
      barrier_(on, barrier_handler) {}

std::byte* RankContext::start(std::size_t bytes) {
  memory_.emplace("conformance", bytes);
  fabric.register_region(main_region, *memory_);
  return memory_->data();
}

void RankContext::stop() {
  if (!memory_) return;
  barrier();
  fabric.unregister_region(main_region);
  memory_.reset();
}

void RankContext::barrier() {
  CHECK_EQUAL(try_barrier(), Status::ok);
}

void RankContext::wait_for(const char* what, FunctionRef<bool()> condition) {
  const Status status = fabric.wait_until(condition, deadline());
  if (status == Status::timed_out) throw std::runtime_error(std::string("waited too long for ") + what);
}

Status RankContext::finish(Completion& completion) {
  if (fabric.wait_until([&completion] { return completion.done(); }, deadline()) == Status::timed_out) {
    // The completion cannot be given up, so neither can this wait: who hears of the failure ends this rank.
    fail("waited too long for a completion");
    return fabric.wait(completion);
  }
  return completion.status();
}

void RankContext::finish_ok(Completion& completion) {
  CHECK_EQUAL(finish(completion), Status::ok);
}

Status RankContext::get(void* destination, RemoteAddress source, std::size_t bytes) {
  Completion completion;
  fabric.get(destination, source, bytes, completion);
  return finish(completion);
}

Status RankContext::put(RemoteAddress destination, const void* source, std::size_t bytes) {
  Completion completion;
  fabric.put(destination, source, bytes, completion);
  return finish(completion);
}

std::uint64_t RankContext::fetch_add(RemoteAddress word, std::uint64_t addend) {
  std::uint64_t previous = 0;
  Completion completion;
  fabric.fetch_add(word, addend, &previous, completion);
  finish_ok(completion);
  return previous;
}

std::uint64_t RankContext::compare_exchange(RemoteAddress word, std::uint64_t expected,
                                            std::uint64_t desired) {
  std::uint64_t previous = 0;
  Completion completion;
  fabric.compare_exchange(word, expected, desired, &previous, completion);
  finish_ok(completion);
  return previous;
}

std::uint64_t RankContext::swap(RemoteAddress word, std::uint64_t value) {
  std::uint64_t previous = 0;
  Completion completion;
  fabric.swap(word, value, &previous, completion);
  finish_ok(completion);
  return previous;
}

std::vector<std::byte> pattern(std::uint64_t key, std::size_t bytes) {
  std::vector<std::byte> made(bytes);
  for (std::size_t i = 0; i < bytes; i += 8) {
    const std::uint64_t word = sim::Random::mix(key * 0x9e3779b97f4a7c15U + i / 8);
    std::memcpy(made.data() + i, &word, bytes - i < 8 ? bytes - i : 8);
  }
  return made;
}

std::size_t first_difference(std::uint64_t key, const std::byte* bytes, std::size_t count) noexcept {
  for (std::size_t i = 0; i < count; i += 8) {
    const std::uint64_t word = sim::Random::mix(key * 0x9e3779b97f4a7c15U + i / 8);
    const std::size_t here = count - i < 8 ? count - i : 8;
    if (std::memcmp(bytes + i, &word, here) == 0) continue;
    for (std::size_t j = i; j < i + here; ++j) {
      if (bytes[j] != pattern_byte(key, j)) return j;
    }
  }
  return count;
}

void check_pattern(const char* what, std::uint64_t key, const std::byte* bytes, std::size_t count) {
  const std::size_t wrong = first_difference(key, bytes, count);
  if (wrong == count) return;
  throw std::runtime_error(std::string(what) + ": byte " + std::to_string(wrong) + " of " +
                           std::to_string(count) + " is " +
                           std::to_string(std::to_integer<int>(bytes[wrong])) + ", not " +
                           std::to_string(std::to_integer<int>(pattern_byte(key, wrong))));
}

std::vector<Case> all_cases() {
  std::vector<Case> cases;
  for (const auto& some :
       {one_sided_cases(), batch_cases(), atomic_cases(), message_cases(), waiting_cases(), death_cases()}) {
    cases.insert(cases.end(), some.begin(), some.end());
  }
  return cases;
}

}  // namespace craton::fabric::conformance
