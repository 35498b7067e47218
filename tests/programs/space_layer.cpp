// The C++ layer: threads of all ranks count, fill arrays and make lists in the shared heap. Prints "ok" on
// each rank if all adds up.
#include <craton/space.hpp>

#include <cstdio>
#include <list>
#include <mutex>
#include <numeric>
#include <thread>
#include <vector>

namespace {

constexpr unsigned threads = 2;
constexpr unsigned rounds = 50;

struct Tally {
  std::uint64_t count;
  std::uint64_t last_rank;
};

using SharedList = std::list<std::uint64_t, craton::HeapAllocator<std::uint64_t>>;

int failures = 0;
void expect(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "not so: %s\n", what);
  ++failures;
}

craton_space_options two_threads() {
  craton_space_options options = CRATON_SPACE_OPTIONS_INIT;
  options.threads = threads;
  return options;
}

void work(unsigned thread, craton::Mutex mutex, const craton::Array<Tally>& tallies,
          const craton::Array<craton::AtomicWord<std::uint32_t>>& words) {
  const craton::ThreadScope scope;
  const auto rank = static_cast<std::uint64_t>(craton_rank());
  for (unsigned round = 0; round < rounds; ++round) {
    {
      const std::lock_guard<craton::Mutex> lock(mutex);
      ++tallies[0].count;
      tallies[0].last_rank = rank;
    }
    words[0].fetch_add(1);
    tallies[1 + rank * threads + thread].count += round;
    craton::barrier();
  }
}

void run() {
  craton::Session session(two_threads());
  const auto ranks = static_cast<std::size_t>(session.size());
  const auto rank = static_cast<std::size_t>(session.rank());
  const craton::Array<Tally> tallies(1 + ranks * threads);
  const craton::Array<craton::AtomicWord<std::uint32_t>> words(1);
  const craton::Array<SharedList*> lists(ranks);
  craton::Mutex mutex = craton::Mutex::create_together();

  std::vector<std::thread> running;
  for (unsigned thread = 0; thread < threads; ++thread)
    running.emplace_back([&, thread] { work(thread, mutex, tallies, words); });
  for (std::thread& each : running) each.join();

  expect(tallies[0].count == rounds * threads * ranks, "the mutex keeps additions apart");
  expect(words[0].load() == rounds * threads * ranks, "atomic additions are not lost");
  for (std::size_t i = 1; i < tallies.size(); ++i)
    expect(tallies[i].count == rounds * (rounds - 1) / 2, "each thread's own tally is seen by all");

  // A list made by each rank, read and freed by the next one.
  const auto meet = [] {
    std::thread other([] { craton::barrier(); });
    craton::barrier();
    other.join();
  };
  lists[rank] = new (craton_alloc(sizeof(SharedList))) SharedList;
  for (std::uint64_t i = 0; i < 100; ++i) lists[rank]->push_back(i * (rank + 1));
  meet();
  SharedList& others = *lists[(rank + 1) % ranks];
  expect(std::accumulate(others.begin(), others.end(), std::uint64_t{0}) == 4950 * ((rank + 1) % ranks + 1),
         "another rank's list is as it was made");
  others.~SharedList();
  craton::check(craton_free(&others));
  meet();

  std::uint32_t expected = rounds * threads * static_cast<std::uint32_t>(ranks);
  if (rank == 0) {
    expect(words[0].compare_exchange(expected, 9), "a compare-exchange that fits exchanges");
    expect(!words[0].compare_exchange(expected, 10) && expected == 9, "one that does not says what is there");
    expect(words[0].exchange(11) == 9, "an exchange gives what was there");
    words[0].store(12);
    const craton::Pin pin(tallies.data(), sizeof(Tally));
    auto* const object = craton::make_shared_object<Tally>({5, 6});
    expect(object->count == 5 && object->last_rank == 6, "an object of the heap is what it was made of");
    craton::check(craton_free(object));
    try {
      craton::check(craton_free(object));
      expect(false, "freeing twice throws");
    } catch (const craton::StatusError& error) {
      expect(error.status() == CRATON_INVALID_ARGUMENT, "freeing twice is an invalid argument");
    }
    std::unique_lock<craton::Mutex> lock(mutex, std::try_to_lock);
    expect(lock.owns_lock(), "a free mutex can be tried");
  }
  meet();
  expect(words[0].load() == 12, "a stored word is seen by all");
  meet();
}

}  // namespace

int main() {
  try {
    run();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "space_layer: %s\n", error.what());
    return 1;
  }
  if (failures == 0) std::puts("ok");
  return failures == 0 ? 0 : 1;
}
