/// \file
/// Every atomic instruction in every form, patched, beside itself before it was patched: over random
/// registers, flags and memory the same must come out, wherever the operand lies and however it was patched.
#include <Zydis/Zydis.h>
#include <asm/prctl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <optional>

#include "code_buffer.hpp"
#include "machine.hpp"
#include "posix/atomics/patch.hpp"

namespace craton::posix {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool is_sanitized = true;  // and slow
#else
constexpr bool is_sanitized = false;
#endif
constexpr std::size_t region_bytes = 4096;
constexpr unsigned block_shift = 8;

alignas(64) thread_local std::array<std::byte, 512> private_of_thread;
alignas(64) thread_local std::array<std::byte, 512> shared_of_thread;

enum class Place {
  private_data,
  shared_data,
  blocks,
  private_stack,
  shared_stack,
  private_thread,
  shared_thread
};
constexpr std::array stack_places = {Place::private_stack, Place::shared_stack};

/// Memory of all kinds.
struct Memory {
  LowMemory private_data{region_bytes};
  LowMemory shared_data{region_bytes};
  LowMemory blocks{region_bytes};  // every other block of it is native
  LowMemory private_stack{256 << 10};
  LowMemory shared_stack{256 << 10};
  std::array<std::uint8_t, (region_bytes >> block_shift) + 1> native_blocks{};

  Memory() {
    for (std::size_t i = 0; i + 1 < native_blocks.size(); i += 2) native_blocks[i] = 1;
  }
  std::span<std::byte> at(Place place) const {
    const auto top = [](const LowMemory& stack) { return stack.bytes().last(region_bytes); };
    switch (place) {
      case Place::private_data:
        return private_data.bytes();
      case Place::shared_data:
        return shared_data.bytes();
      case Place::blocks:
        return blocks.bytes();
      case Place::private_stack:
        return top(private_stack);
      case Place::shared_stack:
        return top(shared_stack);
      case Place::private_thread:
        return private_of_thread;
      case Place::shared_thread:
        return shared_of_thread;
    }
    return {};
  }
  static SharedRange range(std::span<std::byte> bytes) {
    const auto begin = reinterpret_cast<std::uintptr_t>(bytes.data());
    return {.begin = begin, .end = begin + bytes.size()};
  }
  std::vector<SharedRange> ranges() const {
    SharedRange in_blocks = range(at(Place::blocks));
    in_blocks.native_blocks = native_blocks.data();
    in_blocks.block_shift = block_shift;
    return {range(at(Place::shared_data)), in_blocks, range(at(Place::shared_stack)),
            range(at(Place::shared_thread))};
  }
  /// Whether the hook must be called.
  bool is_hooked(Place place, std::uintptr_t address, std::size_t bytes) const {
    if (place == Place::shared_data || place == Place::shared_stack || place == Place::shared_thread)
      return true;
    if (place != Place::blocks) return false;
    const std::uintptr_t offset = address - blocks.begin();
    return native_blocks[offset >> block_shift] == 0 ||
           native_blocks[(offset + bytes - 1) >> block_shift] == 0;
  }
};

// What the hook saw. It is a plain function, so this is one for all.
struct Seen {
  int calls = 0;
  std::uintptr_t address = 0;
  std::size_t bytes = 0;
  bool on_copies = false;
  std::uint64_t mask = 0;
  std::uint16_t x87_tags = 0;
} seen;

std::uint64_t signal_mask() {
  std::uint64_t mask = 0;
  ::syscall(SYS_rt_sigprocmask, SIG_BLOCK, nullptr, &mask, sizeof mask);
  return mask;
}

/// Spoils what a function may spoil.
[[gnu::noinline]] void clobber() {
  __asm__ volatile(
      "fninit\n fldpi\n fldpi\n"
      "pcmpeqd %%xmm0, %%xmm0\n pcmpeqd %%xmm7, %%xmm7\n pcmpeqd %%xmm15, %%xmm15\n" ::
          : "xmm0", "xmm7", "xmm15");
  if (__builtin_cpu_supports("avx512bw"))
    __asm__ volatile(
        "kxnorq %%k1, %%k1, %%k1\n kxnorq %%k7, %%k7, %%k7\n vpternlogd $255, %%zmm3, %%zmm3, %%zmm3\n"
        "vpternlogd $255, %%zmm31, %%zmm31, %%zmm31\n" ::
            : "memory");
  if (__builtin_cpu_supports("avx")) __asm__ volatile("vzeroall" ::: "memory");
  __asm__ volatile("fninit");
  const unsigned mxcsr = 0x1fa0;
  __asm__ volatile("ldmxcsr %0" ::"m"(mxcsr));
  errno = ENOTTY;
}

/// 0xffff where none of the registers is in use, as functions expect.
std::uint16_t x87_tags() {
  std::array<std::uint16_t, 14> environment{};
  __asm__ volatile("fnstenv %0\n fldenv %0" : "+m"(environment));
  return environment[4];
}

void hook(void* address, std::size_t bytes, Perform perform, void* state) {
  ++seen.calls;
  seen.address = reinterpret_cast<std::uintptr_t>(address);
  seen.bytes = bytes;
  seen.mask = signal_mask();
  seen.x87_tags = x87_tags();
  if (!seen.on_copies) {
    perform(state, address);
  } else {
    alignas(64) std::array<std::byte, 64> copy;
    // Not aligned more than the operand is, and not less; first a try on what it does not hold.
    std::byte* const target = copy.data() + seen.address % 16;
    std::memset(target, 0x5a, bytes);
    perform(state, target);
    std::memcpy(target, address, bytes);
    perform(state, target);
    std::memcpy(address, target, bytes);
  }
  clobber();
}
void no_flush() {
  FAIL() << "a flush";
}

enum class Form {
  base,
  base_displacement,
  base_index,
  index_alone,
  absolute,
  distant,
  address32,
  stack,
  red_zone,
  thread_absolute,
  thread_base,
  thread_gs,
};
constexpr int forms = 12;

enum class Second { none, reg, imm };

struct Shape {
  ZydisMnemonic mnemonic;
  Second second;
  std::uint16_t bytes;
  bool is_xchg = false;
};

std::vector<Shape> all_shapes() {
  std::vector<Shape> shapes;
  const auto add = [&](std::initializer_list<ZydisMnemonic> mnemonics, std::initializer_list<Second> seconds,
                       std::initializer_list<int> sizes) {
    for (const ZydisMnemonic mnemonic : mnemonics)
      for (const Second second : seconds)
        for (const int bytes : sizes)
          shapes.push_back(
              {mnemonic, second, static_cast<std::uint16_t>(bytes), mnemonic == ZYDIS_MNEMONIC_XCHG});
  };
  add({ZYDIS_MNEMONIC_ADD, ZYDIS_MNEMONIC_ADC, ZYDIS_MNEMONIC_AND, ZYDIS_MNEMONIC_OR, ZYDIS_MNEMONIC_SBB,
       ZYDIS_MNEMONIC_SUB, ZYDIS_MNEMONIC_XOR},
      {Second::reg, Second::imm}, {1, 2, 4, 8});
  add({ZYDIS_MNEMONIC_BTC, ZYDIS_MNEMONIC_BTR, ZYDIS_MNEMONIC_BTS}, {Second::reg, Second::imm}, {2, 4, 8});
  add({ZYDIS_MNEMONIC_CMPXCHG, ZYDIS_MNEMONIC_XADD, ZYDIS_MNEMONIC_XCHG}, {Second::reg}, {1, 2, 4, 8});
  add({ZYDIS_MNEMONIC_DEC, ZYDIS_MNEMONIC_INC, ZYDIS_MNEMONIC_NEG, ZYDIS_MNEMONIC_NOT}, {Second::none},
      {1, 2, 4, 8});
  add({ZYDIS_MNEMONIC_CMPXCHG8B}, {Second::none}, {8});
  add({ZYDIS_MNEMONIC_CMPXCHG16B}, {Second::none}, {16});
  return shapes;
}

bool is_bit_operation(ZydisMnemonic mnemonic) {
  return mnemonic == ZYDIS_MNEMONIC_BTC || mnemonic == ZYDIS_MNEMONIC_BTR || mnemonic == ZYDIS_MNEMONIC_BTS;
}

/// An instruction with what it takes to run it.
struct Case {
  Shape shape;
  Form form;
  ZydisEncoderRequest request;
  std::vector<std::uint8_t> code;
  std::uintptr_t at = 0;
  std::uintptr_t function = 0;
  Register base = no_register;
  Register index = no_register;
  std::uint8_t scale = 0;
  std::int64_t displacement = 0;
  Register bits = no_register;
  bool may_misalign = true;

  std::string text() const {
    ZydisDisassembledInstruction shown;
    ZydisDisassembleIntel(ZYDIS_MACHINE_MODE_LONG_64, at, code.data(), code.size(), &shown);
    return fmt::format("{} (form {}, at {:x})", shown.text, static_cast<int>(form), at);
  }
};

class Instructions : public testing::TestWithParam<bool> {
 protected:
  static constexpr int variants = 3;

  std::uint64_t any() { return engine_(); }
  Register any_register(bool with_stack_pointer = false) {
    for (;;) {
      const auto got = static_cast<Register>(any() % general_registers);
      if (with_stack_pointer || got != rsp) return got;
    }
  }
  static ZydisRegister named(ZydisRegister first, Register number) {
    return static_cast<ZydisRegister>(static_cast<unsigned>(first) + number);
  }

  /// A register of a size; one byte may be that of ah to bh.
  ZydisRegister operand_register(std::size_t bytes, Register number, bool wants_high) {
    switch (bytes) {
      case 1: {
        if (wants_high && number < 4) return named(ZYDIS_REGISTER_AH, number);
        constexpr std::array low = {
            ZYDIS_REGISTER_AL,   ZYDIS_REGISTER_CL,   ZYDIS_REGISTER_DL,   ZYDIS_REGISTER_BL,
            ZYDIS_REGISTER_SPL,  ZYDIS_REGISTER_BPL,  ZYDIS_REGISTER_SIL,  ZYDIS_REGISTER_DIL,
            ZYDIS_REGISTER_R8B,  ZYDIS_REGISTER_R9B,  ZYDIS_REGISTER_R10B, ZYDIS_REGISTER_R11B,
            ZYDIS_REGISTER_R12B, ZYDIS_REGISTER_R13B, ZYDIS_REGISTER_R14B, ZYDIS_REGISTER_R15B};
        return low[number];
      }
      case 2:
        return named(ZYDIS_REGISTER_AX, number);
      case 4:
        return named(ZYDIS_REGISTER_EAX, number);
      default:
        return named(ZYDIS_REGISTER_RAX, number);
    }
  }

  static bool uses_stack(Form form) { return form == Form::stack || form == Form::red_zone; }

  /// The place of the operand is chosen when it is run; here only the displacement.
  void set_memory(Case& made, ZydisEncoderOperand& operand) {
    operand.type = ZYDIS_OPERAND_TYPE_MEMORY;
    operand.mem.size = made.shape.bytes;
    made.displacement = 0;
    made.scale = static_cast<std::uint8_t>(1U << any() % 4);
    const auto base = [&](ZydisRegister first, bool with_stack_pointer = false) {
      made.base = any_register(with_stack_pointer);
      operand.mem.base = named(first, made.base);
    };
    const auto index = [&](ZydisRegister first) {
      made.index = any_register();
      operand.mem.index = named(first, made.index);
      operand.mem.scale = made.scale;
    };
    switch (made.form) {
      case Form::base:
        base(ZYDIS_REGISTER_RAX);
        break;
      case Form::base_displacement:
        base(ZYDIS_REGISTER_RAX);
        made.displacement = static_cast<std::int64_t>(any() % 200) - 100;
        break;
      case Form::base_index:
        base(ZYDIS_REGISTER_RAX);
        index(ZYDIS_REGISTER_RAX);
        made.displacement = static_cast<std::int64_t>(any() % 2000) - 1000;
        break;
      case Form::index_alone:
        index(ZYDIS_REGISTER_RAX);
        made.displacement = 4096;
        break;
      case Form::absolute:
        made.displacement = static_cast<std::int64_t>(address_of_data(made));
        break;
      case Form::distant:
        operand.mem.base = ZYDIS_REGISTER_RIP;
        made.displacement = static_cast<std::int64_t>(address_of_data(made));
        break;
      case Form::address32:
        base(ZYDIS_REGISTER_EAX);
        made.displacement = -64;
        break;
      case Form::stack:
        made.base = rsp;
        operand.mem.base = ZYDIS_REGISTER_RSP;
        made.displacement = static_cast<std::int64_t>(any() % 16 * 16);
        break;
      case Form::red_zone:
        made.base = rsp;
        operand.mem.base = ZYDIS_REGISTER_RSP;
        made.displacement = -static_cast<std::int64_t>(16 + any() % 7 * 16);
        break;
      case Form::thread_absolute: {
        made.request.prefixes |= ZYDIS_ATTRIB_HAS_SEGMENT_FS;
        made.displacement =
            static_cast<std::int64_t>(address_of_thread() + 128 + any() % 8 * 16 - thread_pointer());
        break;
      }
      case Form::thread_base:
        made.request.prefixes |= ZYDIS_ATTRIB_HAS_SEGMENT_FS;
        base(ZYDIS_REGISTER_RAX);
        break;
      case Form::thread_gs:
        made.request.prefixes |= ZYDIS_ATTRIB_HAS_SEGMENT_GS;
        base(ZYDIS_REGISTER_RAX);
        break;
    }
    operand.mem.displacement = made.displacement;
  }

  std::uintptr_t address_of_data(const Case& made) {
    const std::array regions = {&memory_.private_data, &memory_.shared_data, &memory_.blocks};
    (void)made;
    return regions[any() % regions.size()]->begin() + 1024 + any() % 128 * 16;
  }
  std::uintptr_t address_of_thread() {
    return reinterpret_cast<std::uintptr_t>(any() % 2 != 0 ? private_of_thread.data()
                                                           : shared_of_thread.data());
  }
  static std::uintptr_t thread_pointer() {
    std::uintptr_t base = 0;
    __asm__("movq %%fs:0, %0" : "=r"(base));
    return base;
  }

  /// Some combinations cannot be encoded, those of ah to bh with r8 to r15 for instance: none then.
  std::optional<Case> make_case(const Shape& shape, Form form) {
    Case made{.shape = shape, .form = form, .request = {}, .code = {}};
    ZydisEncoderRequest& request = made.request;
    request.machine_mode = ZYDIS_MACHINE_MODE_LONG_64;
    request.mnemonic = shape.mnemonic;
    if (!shape.is_xchg || any() % 2 == 0) request.prefixes |= ZYDIS_ATTRIB_HAS_LOCK;
    request.operand_count = shape.second == Second::none ? 1 : 2;
    set_memory(made, request.operands[0]);
    ZydisEncoderOperand& second = request.operands[1];
    if (shape.second == Second::reg) {
      const Register number = any_register();
      second.type = ZYDIS_OPERAND_TYPE_REGISTER;
      second.reg.value = operand_register(shape.bytes, number, any() % 2 == 0);
      if (is_bit_operation(shape.mnemonic)) made.bits = number;
    } else if (shape.second == Second::imm) {
      second.type = ZYDIS_OPERAND_TYPE_IMMEDIATE;
      second.imm.s = static_cast<std::int8_t>(any());
      if (shape.bytes >= 4 && any() % 2 == 0 && !is_bit_operation(shape.mnemonic))
        second.imm.s = static_cast<std::int32_t>(any());
      if (is_bit_operation(shape.mnemonic)) second.imm.u = any() % 100;
    }
    if (shape.mnemonic == ZYDIS_MNEMONIC_CMPXCHG16B) {
      made.may_misalign = false;
      if (made.form == Form::base_index && made.base == made.index) return std::nullopt;
    }
    // The offset in bits is also the address: which word that means cannot be chosen then.
    if (made.bits != no_register && (made.bits == made.base || made.bits == made.index)) return std::nullopt;
    if (!encode(made, 0x10000000)) return std::nullopt;
    return made;
  }

  bool encode(Case& made, std::uintptr_t at) {
    std::array<std::uint8_t, ZYDIS_MAX_INSTRUCTION_LENGTH> code;
    ZyanUSize length = code.size();
    ZydisEncoderRequest request = made.request;  // which the encoder changes
    if (!ZYAN_SUCCESS(ZydisEncoderEncodeInstructionAbsolute(&request, code.data(), &length, at)))
      return false;
    made.code.assign(code.begin(), code.begin() + static_cast<std::ptrdiff_t>(length));
    made.at = at;
    return true;
  }

  std::vector<Case> make_cases(CodeBuffer& buffer) {
    std::vector<Case> cases;
    for (const Shape& shape : all_shapes()) {
      for (int form = 0; form < forms; ++form) {
        for (int variant = 0; variant < variants;) {
          std::optional<Case> made = make_case(shape, static_cast<Form>(form));
          if (!made) continue;
          ++variant;
          made->function = buffer.begin_function();
          // A neighbour before it, and one of several behind.
          if (any() % 2 == 0) buffer.add({0x48, 0x89, 0xc0});  // mov %rax, %rax
          encode(*made, buffer.here());
          buffer.add(made->code);
          switch (any() % 4) {
            case 0:
              buffer.add({0x75, 0x00});
              break;  // jne to the next
            case 1:
              buffer.add({0x74, 0x01, 0x90});
              break;  // je over a nop
            case 2:
              buffer.add({0x48, 0x8d, 0x2d, 0x10, 0, 0, 0});
              break;  // lea 16(%rip), %rbp
            default:
              break;
          }
          buffer.add_exit();
          buffer.end_function();
          cases.push_back(std::move(*made));
        }
      }
    }
    return cases;
  }

  /// A run: registers and where the operand is.
  struct Setup {
    Machine machine;
    Place place = Place::private_data;
    std::uintptr_t operand = 0;
  };

  Place place_of(std::uintptr_t address) const {
    for (int i = 0; i <= static_cast<int>(Place::shared_thread); ++i) {
      const auto place = static_cast<Place>(i);
      const auto bytes = memory_.at(place);
      if (address - reinterpret_cast<std::uintptr_t>(bytes.data()) < bytes.size()) return place;
    }
    ADD_FAILURE() << "an operand is nowhere";
    return Place::private_data;
  }

  Setup make_setup(const Case& each) {
    Setup setup;
    Registers& registers = setup.machine.before;
    for (std::uint64_t& value : registers.general) value = any() >> (any() % 64);
    registers.flags = 0x202 | (any() & arithmetic_flags) | (any() % 4 == 0 ? 0x400U : 0U);
    setup.machine.vectors_before = VectorState::random(engine_);
    // The stack, anywhere in the middle of the page that is compared.
    const Place stack = stack_places[any() % 2];
    registers.general[rsp] =
        reinterpret_cast<std::uintptr_t>(memory_.at(stack).data()) + 1024 + any() % 64 * 16;
    // Where the operand is to be.
    std::uintptr_t wanted = address_of_data(each);
    if (each.form == Form::thread_base || each.form == Form::thread_gs) {
      wanted = address_of_thread() + 128 + any() % 8 * 16;
    } else if (each.may_misalign && each.bits == no_register && any() % 4 == 0) {
      // Seldom across a line, and then at the border of a block: some machines take 0.5 ms for that.
      constexpr std::uintptr_t line_bytes = 64;
      wanted = wanted / line_bytes * line_bytes + 1 + any() % (line_bytes - each.shape.bytes);
      if (any() % 200 == 0) wanted = (wanted >> block_shift << block_shift) + (1U << block_shift) - 1;
    }
    if (each.bits != no_register) registers.general[each.bits] = any_bit_offset(each.form);
    solve(each, registers, wanted);
    setup.operand = operand_address(each, registers);
    setup.place = place_of(setup.operand);
    fill(memory_bytes_);
    return setup;
  }

  std::uint64_t any_bit_offset(Form form) {
    if (uses_stack(form)) return any() % 400;  // nothing is below the red zone
    return static_cast<std::uint64_t>(static_cast<std::int64_t>(any() % 800) - 400);
  }

  /// Registers for which the operand is where it is wanted.
  void solve(const Case& each, Registers& registers, std::uintptr_t wanted) {
    const std::uint64_t displacement = static_cast<std::uint64_t>(each.displacement);
    const std::uint64_t segment = each.form == Form::thread_base ? thread_pointer()
                                  : each.form == Form::thread_gs ? gs_base
                                                                 : 0;
    std::uint64_t& base = registers.general[each.base == no_register ? 0 : each.base];
    switch (each.form) {
      case Form::base:
      case Form::base_displacement:
      case Form::thread_base:
      case Form::thread_gs:
        base = wanted - displacement - segment;
        break;
      case Form::address32:
        base = (any() << 32) | ((wanted - displacement) & 0xffffffff);
        break;
      case Form::base_index:
        if (each.base == each.index) {
          base = (wanted - displacement) / (each.scale + 1U);
          break;
        }
        registers.general[each.index] = any() >> (any() % 64);
        base = wanted - displacement - registers.general[each.index] * each.scale;
        break;
      case Form::index_alone:
        registers.general[each.index] = (wanted - displacement) / each.scale;
        break;
      default:
        break;
    }
  }

  /// By the manual, not by the code under test.
  std::uintptr_t operand_address(const Case& each, const Registers& registers) const {
    std::uint64_t address = static_cast<std::uint64_t>(each.displacement);
    if (each.base != no_register) address += registers.general[each.base];
    if (each.index != no_register) address += registers.general[each.index] * each.scale;
    if (each.form == Form::address32) address &= 0xffffffff;
    if (each.bits != no_register) {
      const int width = 8 * each.shape.bytes;
      auto offset = static_cast<std::int64_t>(registers.general[each.bits]);
      if (width == 16) offset = static_cast<std::int16_t>(offset);
      if (width == 32) offset = static_cast<std::int32_t>(offset);
      while (offset < 0) {
        offset += width;
        address -= each.shape.bytes;
      }
      address += static_cast<std::uint64_t>(offset / width) * each.shape.bytes;
    }
    if (each.form == Form::thread_absolute || each.form == Form::thread_base) address += thread_pointer();
    if (each.form == Form::thread_gs) address += gs_base;
    return address;
  }

  using AllBytes = std::vector<std::vector<std::byte>>;
  void fill(AllBytes& all) {
    all.clear();
    for (int i = 0; i <= static_cast<int>(Place::shared_thread); ++i) {
      std::vector<std::byte>& bytes = all.emplace_back(memory_.at(static_cast<Place>(i)).size());
      for (std::size_t at = 0; at + 8 <= bytes.size(); at += 8) {
        const std::uint64_t word = any();
        std::memcpy(bytes.data() + at, &word, 8);
      }
    }
  }
  void put(const AllBytes& all) const {
    for (std::size_t i = 0; i < all.size(); ++i)
      std::memcpy(memory_.at(static_cast<Place>(i)).data(), all[i].data(), all[i].size());
  }
  AllBytes take(std::uintptr_t stack_pointer) const {
    AllBytes all;
    for (int i = 0; i <= static_cast<int>(Place::shared_thread); ++i) {
      const auto bytes = memory_.at(static_cast<Place>(i));
      all.emplace_back(bytes.begin(), bytes.end());
      // What lies below the red zone is anybody's.
      const auto begin = reinterpret_cast<std::uintptr_t>(bytes.data());
      if (stack_pointer - begin < bytes.size())
        std::memset(all.back().data(), 0, stack_pointer - begin - 128);
    }
    return all;
  }

  /// Half of the comparisons succeed.
  void aim(const Case& each, Setup& setup) {
    if (any() % 2 == 0) return;
    auto& general = setup.machine.before.general;
    const auto expect = [&](Register name, std::uintptr_t at) {
      if (each.base == name || each.index == name || name == rsp) return;
      std::memcpy(&general[name], reinterpret_cast<const void*>(at), 8);
    };
    put(memory_bytes_);
    if (each.shape.mnemonic == ZYDIS_MNEMONIC_CMPXCHG) expect(rax, setup.operand);
    if (each.shape.mnemonic == ZYDIS_MNEMONIC_CMPXCHG16B) {
      expect(rax, setup.operand);
      expect(rdx, setup.operand + 8);
    }
    if (each.shape.mnemonic == ZYDIS_MNEMONIC_CMPXCHG8B) {
      expect(rax, setup.operand);
      expect(rdx, setup.operand + 4);
    }
  }

  std::mt19937_64 engine_{20240};
  Memory memory_;
  AllBytes memory_bytes_;
  alignas(64) std::array<std::byte, 4096> gs_area_{};
  std::uint64_t gs_base = 4096;
};

/// The parameter: whether nothing is free near the code, so that all become breakpoints.
TEST_P(Instructions, DoWhatTheyDidBefore) {
  ::syscall(SYS_arch_prctl, ARCH_SET_GS, gs_base);
  CodeBuffer buffer(1 << 20);
  std::vector<Case> cases = make_cases(buffer);
  CodeMap map = buffer.finish();
  if (GetParam()) map.image.end = map.image.begin + (std::uintptr_t{4} << 30);

  constexpr int runs = is_sanitized ? 2 : 4;
  struct Result {
    Setup setup;
    AllBytes memory_before, memory_after;
    Registers after;
  };
  // Native runs come first, since patching is for ever. One case at a time would need an object each.
  std::vector<Result> results;
  for (Case& each : cases) {
    for (int i = 0; i < runs; ++i) {
      Result result{.setup = make_setup(each), .memory_before = {}, .memory_after = {}, .after = {}};
      aim(each, result.setup);
      put(memory_bytes_);
      result.setup.machine.run(each.function);
      result.memory_before = memory_bytes_;
      result.memory_after = take(result.setup.machine.before.general[rsp]);
      result.after = result.setup.machine.after;
      results.push_back(std::move(result));
      if (i == 1 && GetParam()) break;  // signals take their time
    }
  }

  const PatchReport report = patch(map, {.ranges = memory_.ranges(), .hooks = {hook, no_flush, nullptr}});
  EXPECT_EQ(report.atomics, cases.size());
  EXPECT_EQ(report.flushes, 0U);
  EXPECT_TRUE(report.untouched.empty()) << text_of(report);
  if (GetParam()) {
    EXPECT_EQ(report.jumps, 0U);
  } else {
    // Only those relative to gs trap.
    EXPECT_EQ(report.traps.size(), all_shapes().size() * variants) << text_of(report).substr(0, 2000);
  }

  std::size_t at = 0;
  std::size_t hooked = 0;
  int failures = 0;
  for (const Case& each : cases) {
    const std::string what = each.text();
    for (int i = 0; i < runs; ++i) {
      Result& result = results[at++];
      Setup& setup = result.setup;
      put(result.memory_before);
      seen = {};
      seen.on_copies = i % 2 == 1;
      errno = ELOOP;
      setup.machine.run(each.function);
      const AllBytes memory_after = take(setup.machine.before.general[rsp]);
      EXPECT_EQ(errno, ELOOP) << what;
      for (std::size_t name = 0; name < general_registers; ++name)
        EXPECT_EQ(setup.machine.after.general[name], result.after.general[name])
            << what << ", register " << name;
      EXPECT_EQ(setup.machine.after.flags, result.after.flags) << what;
      EXPECT_TRUE(memory_after == result.memory_after) << what;
      EXPECT_EQ(setup.machine.vectors_after.difference_from(setup.machine.vectors_before), "") << what;
      const bool expected = memory_.is_hooked(setup.place, setup.operand, each.shape.bytes);
      EXPECT_EQ(seen.calls, expected ? 1 : 0) << what << " at " << static_cast<int>(setup.place);
      if (seen.calls != 0) {
        ++hooked;
        EXPECT_EQ(seen.address, setup.operand) << what;
        EXPECT_EQ(seen.bytes, each.shape.bytes) << what;
        EXPECT_EQ(seen.mask, signal_mask()) << what;
        EXPECT_EQ(seen.x87_tags, 0xffff) << what;
      }
      if (HasFailure() && ++failures > 3) return;
      if (i == 1 && GetParam()) break;
    }
  }
  EXPECT_EQ(at, results.size());
  EXPECT_GT(hooked, results.size() / 4);
  RecordProperty("instructions", static_cast<int>(cases.size()));
  RecordProperty("runs", static_cast<int>(results.size()));
  RecordProperty("hooked", static_cast<int>(hooked));
}

INSTANTIATE_TEST_SUITE_P(Patched, Instructions, testing::Bool(),
                         [](const auto& each) { return each.param ? "ByTraps" : "ByJumps"; });

}  // namespace
}  // namespace craton::posix
