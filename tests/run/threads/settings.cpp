/// \file
/// What the C++ library keeps for the whole process: threads get what the program set before they began.
#include <atomic>
#include <cstddef>
#include <cwchar>
#include <locale>
#include <memory_resource>
#include <new>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "check_threads.h"

namespace {

/// \returns the bytes of a text of one wide character, as a file's stream would write it; 0 if it cannot
int bytes_of(wchar_t character) {
  using Conversion = std::codecvt<wchar_t, char, std::mbstate_t>;
  std::mbstate_t state{};
  const wchar_t* read = nullptr;
  char* written = nullptr;
  char bytes[8];
  const auto& conversion = std::use_facet<Conversion>(std::locale());
  const auto result =
      conversion.out(state, &character, &character + 1, read, bytes, bytes + sizeof bytes, written);
  return result == Conversion::ok ? static_cast<int>(written - bytes) : 0;
}

/// Sums over the threads: how many have a locale of that name, and what each makes of a character.
void look(const char* what, const std::string& name) {
  const int n = thread_count();
  std::vector<int> named(static_cast<std::size_t>(n));
  std::vector<int> bytes(named.size());
  std::vector<std::thread> threads;
  for (std::size_t self = 0; self < named.size(); ++self) {
    threads.emplace_back([&, self, n] {
      meet(n);
      named[self] = std::locale().name() == name && std::ostringstream().getloc().name() == name ? 1 : 0;
      bytes[self] = bytes_of(L'\u00fc');
    });
  }
  int all_named = 0;
  int all_bytes = 0;
  for (std::size_t self = 0; self < named.size(); ++self) {
    threads[self].join();
    all_named += named[self];
    all_bytes += bytes[self];
  }
  check_int(what, all_named);
  check_int("bytes", all_bytes);
}

class Counting : public std::pmr::memory_resource {
 public:
  int times() const { return times_; }

 private:
  void* do_allocate(std::size_t bytes, std::size_t alignment) override {
    ++times_;
    return std::pmr::new_delete_resource()->allocate(bytes, alignment);
  }
  void do_deallocate(void* begin, std::size_t bytes, std::size_t alignment) override {
    std::pmr::new_delete_resource()->deallocate(begin, bytes, alignment);
  }
  bool do_is_equal(const memory_resource& other) const noexcept override { return this == &other; }

  std::atomic<int> times_{0};
};

void do_nothing() {}

void look_at_memory() {
  static Counting counting;
  std::pmr::set_default_resource(&counting);
  std::set_new_handler(&do_nothing);
  const int n = thread_count();
  std::atomic<int> have_handler{0};
  std::vector<std::thread> threads;
  for (int self = 0; self < n; ++self) {
    threads.emplace_back([&have_handler, n] {
      meet(n);
      const std::pmr::vector<int> numbers(100);
      if (std::get_new_handler() == &do_nothing) ++have_handler;
    });
  }
  for (std::thread& thread : threads) thread.join();
  check_int("allocations of the program's", counting.times());
  check_int("have the handler", have_handler);
  std::pmr::set_default_resource(nullptr);
  std::set_new_handler(nullptr);
}

}  // namespace

int main() {
  look_at_memory();
  look("have the classic one", "C");
  std::locale::global(std::locale("C.UTF-8"));
  look("have the one of UTF-8", "C.UTF-8");
  const std::locale mixed(std::locale::classic(), std::locale(), std::locale::ctype);
  std::locale::global(mixed);
  look("have a mixed one", mixed.name());
  std::locale::global(std::locale::classic());
  look("have the classic one again", "C");
  return finish();
}
