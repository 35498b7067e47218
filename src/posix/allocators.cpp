#include "posix/allocators.hpp"

#include <fmt/format.h>
#include <link.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "posix/allocation.hpp"
#include "posix/atomics/code_map.hpp"
#include "posix/atomics/instruction.hpp"
#include "posix/atomics/near_memory.hpp"
#include "posix/atomics/patch_plan.hpp"
#include "posix/dynamic_section.hpp"
#include "posix/pages.hpp"
#include "posix/real.hpp"
#include "posix/shared_program.hpp"

namespace craton::posix {

namespace {

constexpr std::uint8_t breakpoint = 0xcc;
constexpr std::uint8_t jump_opcode = 0xe9;

/// jmp *0(%rip), then the address: there from anywhere.
struct [[gnu::packed]] FarJump {
  std::array<std::uint8_t, 6> code{0xff, 0x25, 0, 0, 0, 0};
  std::uintptr_t to = 0;
};

/// C++'s operators, as compilers spell them. Those for arrays may be the very same functions, so all of a
/// kind go to one.
struct Operators {
  const char* to;  ///< of the C++ library, which calls malloc; null: to free(), which they may be themselves
  std::array<const char*, 12> names;
};
constexpr std::array all_operators{
    Operators{"_Znwm", {"_Znwm", "_Znam"}},
    Operators{"_ZnwmRKSt9nothrow_t", {"_ZnwmRKSt9nothrow_t", "_ZnamRKSt9nothrow_t"}},
    Operators{"_ZnwmSt11align_val_t", {"_ZnwmSt11align_val_t", "_ZnamSt11align_val_t"}},
    Operators{"_ZnwmSt11align_val_tRKSt9nothrow_t",
              {"_ZnwmSt11align_val_tRKSt9nothrow_t", "_ZnamSt11align_val_tRKSt9nothrow_t"}},
    Operators{
        nullptr,
        {"_ZdlPv", "_ZdaPv", "_ZdlPvm", "_ZdaPvm", "_ZdlPvRKSt9nothrow_t", "_ZdaPvRKSt9nothrow_t",
         "_ZdlPvSt11align_val_t", "_ZdaPvSt11align_val_t", "_ZdlPvmSt11align_val_t", "_ZdaPvmSt11align_val_t",
         "_ZdlPvSt11align_val_tRKSt9nothrow_t", "_ZdaPvSt11align_val_tRKSt9nothrow_t"}},
};

struct Candidate {
  std::string_view name;
  DynamicSection section;
  AddressRange image;
};

int collect_candidate(dl_phdr_info* info, std::size_t /*size*/, void* context) {
  Candidate object{.name = info->dlpi_name, .section = DynamicSection(*info), .image = {UINTPTR_MAX, 0}};
  object.name.remove_prefix(object.name.rfind('/') + 1);
  for (const ElfW(Phdr) & header : std::span(info->dlpi_phdr, info->dlpi_phnum)) {
    if (header.p_type != PT_LOAD) continue;
    const std::uintptr_t begin = info->dlpi_addr + header.p_vaddr;
    object.image.begin = std::min(object.image.begin, begin);
    object.image.end = std::max(object.image.end, begin + header.p_memsz);
  }
  static_cast<std::vector<Candidate>*>(context)->push_back(object);
  return 0;
}

struct Redirection {
  FunctionSymbol from;
  std::uintptr_t to;
};

/// An object with a malloc of its own, and what is to be overwritten in it.
struct Allocator {
  const Candidate& object;
  std::vector<Redirection> jumps;
};

/// Whether a jump has room at the function's beginning: in itself and in what lies before the next one.
bool has_room(const FunctionSymbol& function) noexcept {
  constexpr std::uintptr_t alignment = 16;
  if (function.bytes == 0 || function.bytes >= jump_bytes) return true;  // 0: the file does not tell
  return function.address % alignment == 0 &&
         is_filler({function.address + function.bytes, function.address + alignment});
}

/// Where it has such a function.
void add_jump(Allocator& allocator, const char* name, std::uintptr_t to) {
  const FunctionSymbol function = allocator.object.section.find_function(name);
  if (function.address == 0) return;
  if (!has_room(function)) {
    throw Error(ErrorCode::not_supported,
                {.asked = fmt::format("cannot replace {} of {} by one whose memory ranks share", name,
                                      allocator.object.name.empty() ? "the program" : allocator.object.name),
                 .happened = fmt::format("it is shorter than the {} bytes of a jump", jump_bytes),
                 .limit = {},
                 .remedy = "build the program without it, or compile it with -falign-functions=16"});
  }
  allocator.jumps.push_back({.from = function, .to = to});
}

void protect(std::uintptr_t begin, std::uintptr_t end, int protection) {
  begin = page_down(begin);
  if (::mprotect(reinterpret_cast<void*>(begin), page_up(end) - begin, protection) != 0)
    throw Error::from_errno("cannot replace the program's malloc", errno);
}

/// The C library's own allocator, of which others have taken the names.
template <typename Function>
void correct(Function*& own, const char* name, const Candidate& c_library) {
  if (const FunctionSymbol found = c_library.section.find_function(name); found.address != 0)
    own = reinterpret_cast<Function*>(found.address);
}

/// Nobody else runs, and nothing of the object has yet.
void write_jumps(const Allocator& allocator) {
  const std::size_t bytes = page_up(allocator.jumps.size() * sizeof(FarJump));
  std::uintptr_t at = map_near(allocator.object.image, bytes);
  const std::uintptr_t begin = at;
  for (const Redirection& jump : allocator.jumps) {
    const std::uintptr_t from = jump.from.address;
    const auto distance = static_cast<std::int64_t>(at - from - jump_bytes);
    if (distance < INT32_MIN || distance > INT32_MAX)
      throw Error::from_errno("cannot map memory within 2 GiB of the program's malloc", ENOMEM);
    const FarJump far{.to = jump.to};
    std::memcpy(reinterpret_cast<void*>(at), &far, sizeof far);
    at += sizeof far;
    const auto near = static_cast<std::int32_t>(distance);
    // The rest is nobody's any more; instructions that have been cut in two would not be understood there.
    const std::size_t overwritten = std::max(jump_bytes, jump.from.bytes);
    protect(from, from + overwritten, PROT_READ | PROT_WRITE | PROT_EXEC);
    auto* const code = reinterpret_cast<std::uint8_t*>(from);
    code[0] = jump_opcode;
    std::memcpy(code + 1, &near, sizeof near);
    std::memset(code + jump_bytes, breakpoint, overwritten - jump_bytes);
    protect(from, from + overwritten, PROT_READ | PROT_EXEC);
  }
  protect(begin, begin + bytes, PROT_READ | PROT_EXEC);
}

}  // namespace

void replace_allocators() {
  // Until all is written memory may come from one of them, and it cannot be freed then: to the end of the
  // process.
  auto& objects = *new std::vector<Candidate>;
  auto& allocators = *new std::vector<Allocator>;
  ::dl_iterate_phdr(&collect_candidate, &objects);
  const auto defines = [](const Candidate& object, const char* name) {
    return object.section.find_function(name).address != 0;
  };
  const auto holds = [](const Candidate& object, auto* function) {
    return object.image.holds(reinterpret_cast<std::uintptr_t>(function));
  };
  const Candidate* c_library = nullptr;
  const Candidate* cpp_library = nullptr;
  for (const Candidate& object : objects) {
    const bool has_malloc = defines(object, "malloc") || defines(object, "scalable_malloc");
    if (holds(object, &::dl_iterate_phdr)) {
      c_library = &object;
    } else if (has_malloc && !holds(object, &replace_allocators)) {
      allocators.push_back({.object = object, .jumps = {}});
    } else if (!has_malloc && cpp_library == nullptr && defines(object, all_operators.front().to)) {
      cpp_library = &object;
    }
  }
  if (allocators.empty() || c_library == nullptr) return;
  std::uintptr_t address_of_free = 0;
  for (const AllocatorFunction& ours : allocator_functions())
    if (std::string_view(ours.name) == "free") address_of_free = ours.address;
  for (Allocator& allocator : allocators) {
    for (const AllocatorFunction& ours : allocator_functions()) add_jump(allocator, ours.name, ours.address);
    for (const Operators& kind : all_operators) {
      if (cpp_library == nullptr) break;
      const std::uintptr_t to =
          kind.to == nullptr ? address_of_free : cpp_library->section.find_function(kind.to).address;
      for (const char* const name : kind.names)
        if (name != nullptr && to != 0) add_jump(allocator, name, to);
    }
  }
  correct(libc_allocator.malloc, "__libc_malloc", *c_library);
  correct(libc_allocator.calloc, "__libc_calloc", *c_library);
  correct(libc_allocator.realloc, "__libc_realloc", *c_library);
  correct(libc_allocator.memalign, "__libc_memalign", *c_library);
  correct(libc_allocator.free, "__libc_free", *c_library);
  for (const Allocator& allocator : allocators) write_jumps(allocator);
}

}  // namespace craton::posix

extern "C" {

/// TBB's library loads its allocator when it first allocates, on one rank, and takes malloc where there is
/// none.
[[gnu::visibility("hidden"), gnu::used]] bool craton_loads(const char* library) noexcept {
  if (library == nullptr || craton::posix::shared_program() == nullptr) return true;
  std::string_view name(library);
  name.remove_prefix(name.rfind('/') + 1);
  return !name.starts_with("libtbbmalloc.so") && !name.starts_with("libtbbmalloc_debug.so");
}

}  // extern "C"

// The C library looks for libraries where the caller's object says, and so must find that its caller.
asm(R"(
.text
.globl dlopen
.type dlopen, @function
dlopen:
  endbr64
  push %rdi
  push %rsi
  sub $8, %rsp
  call craton_loads
  add $8, %rsp
  pop %rsi
  pop %rdi
  test %al, %al
  je 1f
  jmp *craton_real_dlopen(%rip)
1:
  xor %eax, %eax
  ret
.size dlopen, .-dlopen
)");
