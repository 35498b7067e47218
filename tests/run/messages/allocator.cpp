/// \file
/// An executable with an allocator of its own, as programs have that are linked with one: malloc's family,
/// C++'s operators, of which some are the same functions, and the names by which the C library and TBB
/// call theirs. Prints how often it was called once main runs, and what ranks found of each other's memory.
#include <dlfcn.h>
#include <malloc.h>
#include <omp.h>
#include <stdlib.h>

#include <atomic>
#include <cstdio>
#include <cstring>
#include <memory>
#include <new>
#include <string>
#include <vector>

// As in a file of their own.
#define ELSEWHERE [[gnu::noipa]]

namespace {

alignas(64) char arena[1 << 22];
std::atomic<std::size_t> used;
std::atomic<long> calls;

void* take(std::size_t bytes, std::size_t alignment = 16) {
  ++calls;
  if (alignment < 16) alignment = 16;
  char* const begin = arena + used.fetch_add((bytes + 16 + 2 * alignment) / 16 * 16);
  if (begin + bytes > arena + sizeof arena) abort();
  auto at = reinterpret_cast<std::size_t>(begin) + 16;
  at = (at + alignment - 1) / alignment * alignment;
  std::memcpy(reinterpret_cast<void*>(at - 8), &bytes, sizeof bytes);
  return reinterpret_cast<void*>(at);
}

}  // namespace

extern "C" {

ELSEWHERE void* malloc(std::size_t bytes) noexcept {
  return take(bytes);
}
ELSEWHERE void free(void* pointer) noexcept {
  if (pointer != nullptr) ++calls;
}
ELSEWHERE void* calloc(std::size_t count, std::size_t bytes) noexcept {
  return take(count * bytes);
}
ELSEWHERE void* realloc(void* pointer, std::size_t bytes) noexcept {
  void* const moved = take(bytes);
  std::size_t before = 0;
  if (pointer != nullptr) std::memcpy(&before, static_cast<char*>(pointer) - 8, sizeof before);
  return std::memcpy(moved, pointer == nullptr ? moved : pointer, before < bytes ? before : bytes);
}
ELSEWHERE void* aligned_alloc(std::size_t alignment, std::size_t bytes) noexcept {
  return take(bytes, alignment);
}
ELSEWHERE std::size_t malloc_usable_size(void* pointer) noexcept {
  std::size_t bytes = 0;
  std::memcpy(&bytes, static_cast<char*>(pointer) - 8, sizeof bytes);
  ++calls;
  return bytes;
}
#define ANOTHER_NAME(mine, other) \
  asm(".globl " #other "\n.type " #other ", @function\n.set " #other ", " #mine);
ANOTHER_NAME(calloc, scalable_calloc)
ANOTHER_NAME(malloc, __libc_malloc)
ANOTHER_NAME(calloc, __libc_calloc)
ANOTHER_NAME(realloc, __libc_realloc)
ANOTHER_NAME(aligned_alloc, __libc_memalign)
ANOTHER_NAME(free, __libc_free)
ANOTHER_NAME(_Znwm, _Znam)
ANOTHER_NAME(free, _ZdlPv)
ANOTHER_NAME(free, _ZdlPvm)
ANOTHER_NAME(free, _ZdaPv)
ANOTHER_NAME(free, _ZdaPvm)

ELSEWHERE void* scalable_aligned_malloc(std::size_t bytes, std::size_t alignment) {
  return take(bytes, alignment);
}
ELSEWHERE void* scalable_aligned_realloc(void* pointer, std::size_t bytes, std::size_t alignment) {
  return pointer != nullptr ? nullptr : take(bytes, alignment);
}
void* scalable_calloc(std::size_t count, std::size_t bytes);
ELSEWHERE void scalable_aligned_free(void* /*pointer*/) {
  ++calls;
}
}

ELSEWHERE void* operator new(std::size_t bytes) {
  return take(bytes);
}

struct alignas(256) Wide {
  long value = 0;
};

int main() {
  constexpr int most = 64;
  calls = 0;
  std::vector<std::string> texts(most);
  std::vector<std::unique_ptr<Wide>> wide(most);
  std::vector<std::unique_ptr<int[]>> arrays(most);
  std::vector<char*> raw(most);
  std::vector<long*> aligned(most);
  int wrong = 0;
#pragma omp parallel for schedule(static)
  for (int i = 0; i < most; ++i) {
    texts[i].assign(100 + i, static_cast<char>('a' + i % 26));
    wide[i] = std::make_unique<Wide>();
    wide[i]->value = i;
    arrays[i] = std::make_unique<int[]>(50);
    arrays[i][49] = i;
    raw[i] = static_cast<char*>(reallocarray(nullptr, 50, 20));
    std::snprintf(raw[i], 1000, "text %d", i);
    raw[i] = static_cast<char*>(realloc(raw[i], 5000));
    aligned[i] = static_cast<long*>(scalable_aligned_malloc(64, 512));
    aligned[i][7] = i;
    aligned[i] = static_cast<long*>(scalable_aligned_realloc(aligned[i], 6000, 4096));
  }
  // What each has made is read, and freed, by another.
#pragma omp parallel for schedule(static) reduction(+ : wrong)
  for (int i = 0; i < most; ++i) {
    const int other = most - 1 - i;
    wrong += texts[other] != std::string(100 + other, static_cast<char>('a' + other % 26));
    wrong += wide[other]->value != other || reinterpret_cast<std::size_t>(wide[other].get()) % 256 != 0;
    wrong += arrays[other][49] != other;
    wrong += raw[other] != "text " + std::to_string(other);
    wrong += malloc_usable_size(raw[other]) < 5000;
    wrong += aligned[other][7] != other || reinterpret_cast<std::size_t>(aligned[other]) % 4096 != 0;
    scalable_aligned_free(aligned[other]);
    long* const zeros = static_cast<long*>(scalable_calloc(10, sizeof(long)));
    wrong += zeros[9] != 0;
    free(zeros);
    std::string().swap(texts[other]);
    wide[other].reset();
    arrays[other].reset();
    free(raw[other]);
  }
  char* line = nullptr;  // the C library allocates it, the program frees it
  std::size_t room = 0;
  FILE* const file = fopen("/proc/self/status", "r");
  wrong += file == nullptr || getline(&line, &room, file) <= 0;
  if (file != nullptr) fclose(file);
  free(line);
  // TBB's library is to find no allocator; others find theirs where the program's own path leads.
  wrong += dlopen("libtbbmalloc.so.2", RTLD_NOW) != nullptr || dlopen("libnumbers.so", RTLD_NOW) == nullptr;
  std::printf("%d wrong, %ld calls\n", wrong, calls.load());
  return 0;
}
