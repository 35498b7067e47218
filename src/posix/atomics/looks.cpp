#include "posix/atomics/looks.hpp"

#include <algorithm>
#include <array>
#include <bitset>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>

#include "posix/atomics/code_reader.hpp"

namespace craton::posix {
namespace {

// ---- What an instruction does

// Registers in the parts that instructions write without the rest: the two lowest bytes of a general one and
// what is above; the flags; vectors. And places of the function's frame.
constexpr std::size_t parts_a_register = 3;
constexpr std::size_t flags_part = parts_a_register * general_registers;
constexpr std::size_t first_vector_part = flags_part + 1;
constexpr std::size_t vector_registers_most = 32;
constexpr std::size_t first_place_part = first_vector_part + vector_registers_most;
constexpr std::size_t places_most = 24;
using Parts = std::bitset<first_place_part + places_most>;

/// \returns false for registers that are not followed
bool add_parts(ZydisRegister name, Parts& parts) noexcept {
  const std::size_t first = parts_a_register * number_of(name);
  switch (ZydisRegisterGetClass(name)) {
    case ZYDIS_REGCLASS_INVALID:
    case ZYDIS_REGCLASS_IP:
      return true;
    case ZYDIS_REGCLASS_FLAGS:
      parts.set(flags_part);
      return true;
    case ZYDIS_REGCLASS_GPR8:
      parts.set(name >= ZYDIS_REGISTER_AH && name <= ZYDIS_REGISTER_BH ? first + 1 : first);
      return true;
    case ZYDIS_REGCLASS_GPR16:
      parts.set(first).set(first + 1);
      return true;
    case ZYDIS_REGCLASS_GPR32:
    case ZYDIS_REGCLASS_GPR64:
      parts.set(first).set(first + 1).set(first + 2);
      return true;
    case ZYDIS_REGCLASS_XMM:
    case ZYDIS_REGCLASS_YMM:
    case ZYDIS_REGCLASS_ZMM: {
      const ZydisRegister whole = ZydisRegisterGetLargestEnclosing(ZYDIS_MACHINE_MODE_LONG_64, name);
      parts.set(first_vector_part + static_cast<std::size_t>(whole - ZYDIS_REGISTER_ZMM0));
      return true;
    }
    default:
      return false;
  }
}

/// What the ABI lets functions change.
Parts changed_by_calls() noexcept {
  Parts parts;
  for (const Register name : {rax, rcx, rdx, rsi, rdi, r8, r9, r10, r11})
    for (std::size_t i = 0; i < parts_a_register; ++i) parts.set(parts_a_register * name + i);
  for (std::size_t i = flags_part; i < first_place_part; ++i) parts.set(i);
  return parts;
}

/// Those that an address is made of.
Parts parts_of(const MemoryOperand& operand) noexcept {
  Parts parts;
  for (const Register name : {operand.base, operand.index})
    for (std::size_t i = 0; name < general_registers && i < parts_a_register; ++i)
      parts.set(parts_a_register * name + i);
  return parts;
}

}  // namespace

/// The places of a frame that a loop uses, where compilers keep what they keep in registers otherwise.
class LoopPlaces {
 public:
  void begin(const Frame& frame) noexcept {
    frame_ = &frame;
    count_ = 0;
  }
  bool are_of(const ZydisDecodedOperand& operand) const noexcept { return frame_->holds(operand); }
  /// \returns false for one that overlaps another, or is one too many
  bool add(const MemoryOperand& place, Parts& parts) noexcept {
    const auto end = known_.begin() + static_cast<std::ptrdiff_t>(count_);
    const auto found = std::find(known_.begin(), end, place);
    if (found != end) {
      parts.set(first_place_part + static_cast<std::size_t>(found - known_.begin()));
      return true;
    }
    const auto overlaps = [&](const MemoryOperand& other) {
      return other.base == place.base && other.displacement < place.displacement + place.bytes &&
             place.displacement < other.displacement + other.bytes;
    };
    if (count_ == places_most || std::any_of(known_.begin(), end, overlaps)) return false;
    known_[count_] = place;
    parts.set(first_place_part + count_++);
    return true;
  }

 private:
  const Frame* frame_ = nullptr;
  std::array<MemoryOperand, places_most> known_;
  std::size_t count_ = 0;
};

/// What an instruction of a loop does.
struct LoopStep {
  std::uintptr_t address = 0;
  std::uintptr_t end = 0;
  std::uintptr_t target = 0;       ///< of a branch; 0: none
  bool goes_on = true;             ///< to the next
  bool may_be_in_wait = true;      ///< stores nothing, calls nothing else, is no fence
  bool lets_time_pass = false;     ///< pause, or a call of one of `pauses`
  bool is_from_elsewhere = false;  ///< what it writes follows from neither registers nor memory
  Parts reads;
  Parts writes;
  std::optional<MemoryOperand> look;  ///< memory that it loads and that others may change
};

namespace {

bool is_nothing(const ZydisDecodedInstruction& raw) noexcept {
  switch (raw.meta.category) {
    case ZYDIS_CATEGORY_NOP:
    case ZYDIS_CATEGORY_WIDENOP:
    case ZYDIS_CATEGORY_PREFETCH:
      return true;
    default:
      return raw.mnemonic == ZYDIS_MNEMONIC_ENDBR64 || raw.mnemonic == ZYDIS_MNEMONIC_LFENCE;
  }
}

bool is_never_in_wait(const ZydisDecodedInstruction& raw) noexcept {
  if ((raw.attributes & ZYDIS_ATTRIB_HAS_LOCK) != 0) return true;
  switch (raw.meta.category) {
    case ZYDIS_CATEGORY_STRINGOP:
    case ZYDIS_CATEGORY_SYSCALL:
    case ZYDIS_CATEGORY_SYSRET:
    case ZYDIS_CATEGORY_INTERRUPT:
    case ZYDIS_CATEGORY_IO:
    case ZYDIS_CATEGORY_SYSTEM:
      return true;
    default:
      return raw.mnemonic == ZYDIS_MNEMONIC_MFENCE || raw.mnemonic == ZYDIS_MNEMONIC_CPUID;
  }
}

bool is_clock_or_dice(ZydisMnemonic mnemonic) noexcept {
  return mnemonic == ZYDIS_MNEMONIC_RDTSC || mnemonic == ZYDIS_MNEMONIC_RDTSCP ||
         mnemonic == ZYDIS_MNEMONIC_RDRAND || mnemonic == ZYDIS_MNEMONIC_RDSEED;
}

/// Its result does not depend on what the register holds.
bool makes_zero(const DecodedWhole& whole) noexcept {
  switch (whole.raw.mnemonic) {
    case ZYDIS_MNEMONIC_XOR:
    case ZYDIS_MNEMONIC_SUB:
    case ZYDIS_MNEMONIC_PXOR:
    case ZYDIS_MNEMONIC_XORPS:
    case ZYDIS_MNEMONIC_XORPD:
      return whole.operands[0].type == ZYDIS_OPERAND_TYPE_REGISTER &&
             whole.operands[1].type == ZYDIS_OPERAND_TYPE_REGISTER &&
             whole.operands[0].reg.value == whole.operands[1].reg.value;
    default:
      return false;
  }
}

void add_memory(const DecodedWhole& whole, const ZydisDecodedOperand& operand, LoopPlaces& places,
                LoopStep& step) noexcept {
  add_parts(operand.mem.base, step.reads);
  if (!add_parts(operand.mem.index, step.reads)) step.may_be_in_wait = false;
  if (operand.mem.type == ZYDIS_MEMOP_TYPE_AGEN) return;
  const MemoryOperand used = operand_of(whole, operand, step.end);
  const bool is_written = (operand.actions & ZYDIS_OPERAND_ACTION_MASK_WRITE) != 0;
  const bool is_read =
      (operand.actions & (ZYDIS_OPERAND_ACTION_MASK_READ | ZYDIS_OPERAND_ACTION_CONDWRITE)) != 0;
  if (operand.mem.type == ZYDIS_MEMOP_TYPE_MEM && places.are_of(operand)) {
    if (is_read && !places.add(used, step.reads)) step.may_be_in_wait = false;
    if (is_written && !places.add(used, step.writes)) step.may_be_in_wait = false;
  } else if (operand.mem.type != ZYDIS_MEMOP_TYPE_MEM || is_written) {
    step.may_be_in_wait = false;
  } else if (used.segment == SegmentBase::none && used.bytes != 0) {
    step.look = used;
  }
}

void add_register(const ZydisDecodedOperand& operand, LoopStep& step) noexcept {
  constexpr auto reads = ZYDIS_OPERAND_ACTION_MASK_READ | ZYDIS_OPERAND_ACTION_CONDWRITE;
  if ((operand.actions & reads) != 0) add_parts(operand.reg.value, step.reads);
  if ((operand.actions & ZYDIS_OPERAND_ACTION_MASK_WRITE) == 0) return;
  if (!add_parts(operand.reg.value, step.writes) || number_of(operand.reg.value) == rsp)
    step.may_be_in_wait = false;
}

LoopStep step_of(const CodeReader& reader, std::uintptr_t at, const DecodedWhole& whole,
                 std::span<const std::uintptr_t> pauses, LoopPlaces& places) noexcept {
  const ZydisDecodedInstruction& raw = whole.raw;
  LoopStep step;
  step.address = at;
  step.end = at + raw.length;
  switch (raw.meta.category) {
    case ZYDIS_CATEGORY_RET:
      step.goes_on = false;
      return step;
    case ZYDIS_CATEGORY_CALL:
      step.lets_time_pass = reader.leads_to(at, whole, pauses);
      step.may_be_in_wait = step.lets_time_pass;
      step.is_from_elsewhere = true;
      step.writes = changed_by_calls();
      return step;
    case ZYDIS_CATEGORY_UNCOND_BR:
      step.goes_on = false;
      step.target = CodeReader::target(at, whole);
      step.may_be_in_wait = step.target != 0;
      return step;
    case ZYDIS_CATEGORY_COND_BR:
      step.target = CodeReader::target(at, whole);
      break;
    default:
      break;
  }
  step.lets_time_pass = raw.mnemonic == ZYDIS_MNEMONIC_PAUSE;
  step.is_from_elsewhere = is_clock_or_dice(raw.mnemonic);
  if (step.lets_time_pass || is_nothing(raw)) return step;
  step.may_be_in_wait = step.is_from_elsewhere || !is_never_in_wait(raw);
  for (const ZydisDecodedOperand& operand : std::span(whole.operands.data(), raw.operand_count)) {
    if (operand.type == ZYDIS_OPERAND_TYPE_MEMORY) add_memory(whole, operand, places, step);
    if (operand.type == ZYDIS_OPERAND_TYPE_REGISTER) add_register(operand, step);
  }
  if (makes_zero(whole)) step.reads.reset();
  return step;
}

// ---- Loops

/// Whether the two bytes are a short branch back. \param distance from behind it
bool is_branch_back(std::uint8_t opcode, std::uint8_t distance) noexcept {
  constexpr std::uint8_t jump = 0xeb;
  return distance >= 0x80 && ((opcode & 0xf0) == 0x70 || opcode == jump);
}

/// Bytes of a longer loop, in which a thread lets time pass: libraries pause for longer and longer, and
/// compilers write out their pauses one by one.
constexpr std::size_t longer_loop_most = 640;

/// Where a branch back with a distance of four bytes leads to, if it is one of such a loop. \param end behind
/// it
std::optional<std::uintptr_t> target_of_longer(const std::uint8_t* end, const std::uint8_t* begin) noexcept {
  constexpr std::uint8_t jump = 0xe9;
  constexpr std::array<std::uint8_t, 2> pause{0xf3, 0x90};
  if (end - begin < 6) return std::nullopt;
  const bool is_branch = end[-5] == jump || (end[-6] == 0x0f && (end[-5] & 0xf0) == 0x80);
  std::int32_t distance = 0;
  std::memcpy(&distance, end - sizeof distance, sizeof distance);
  if (!is_branch || distance >= 0 || -distance > static_cast<std::int32_t>(longer_loop_most))
    return std::nullopt;
  const std::uint8_t* const target = end + distance;
  if (target < begin || std::search(target, end, pause.begin(), pause.end()) == end) return std::nullopt;
  return reinterpret_cast<std::uintptr_t>(target);
}

// ---- Copies of looks

/// How many instructions before a look.
constexpr std::ptrdiff_t copy_before_most = 32;

/// What an instruction loads, if that can be a look. \param step gets what it does
std::optional<MemoryOperand> loaded_by(const CodeReader& reader, const Frame& frame,
                                       const Instruction& instruction, LoopStep& step) {
  DecodedWhole whole;
  step = {};
  if (!reader.read(instruction.address, whole)) return std::nullopt;
  LoopPlaces places;
  places.begin(frame);
  step = step_of(reader, instruction.address, whole, {}, places);
  return step.may_be_in_wait ? step.look : std::nullopt;
}

bool is_same_place(const MemoryOperand& left, const MemoryOperand& right) noexcept {
  MemoryOperand of_its_bytes = left;
  of_its_bytes.bytes = right.bytes;
  return of_its_bytes == right;
}

}  // namespace

/// What lies between a branch back and where it leads, both included.
class LookFinder::Loop {
 public:
  static constexpr std::size_t steps_most = 160;

  Loop(const CodeReader& reader, std::span<const std::uintptr_t> pauses) : reader_(reader), pauses_(pauses) {}

  void find_looks(const AddressRange& range, const Frame& frame, std::vector<SupposedLook>& looks) {
    if (!read(range, frame) || !find_inside()) return;
    // A turn begins at its first step. Where it ends by a jump, which optimised code has seldom, also behind
    // any branch: the condition stands before the body, and looks at what the turn before has found.
    const std::size_t firsts = steps_[count_ - 1].goes_on ? 1 : count_;
    for (std::size_t first = 0; first < firsts; ++first) {
      if (!is_inside(first) || (first != 0 && steps_[first - 1].target == 0)) continue;
      follow(first);
      const Verdict verdict = judge();
      if (verdict.waits) add_looks(verdict.is_patient, looks);
      if (verdict.is_patient) return;
    }
  }

 private:
  using Set = std::bitset<steps_most>;  // of steps
  static Set only(std::size_t number) noexcept { return Set().set(number); }
  bool is_inside(std::size_t number) const noexcept { return inside_[number]; }

  /// Most loops are none that wait, which their first instructions show.
  bool read(const AddressRange& range, const Frame& frame) noexcept {
    count_ = 0;
    places_.begin(frame);
    std::uintptr_t jumped_to = range.begin;
    for (std::uintptr_t at = range.begin; at < range.end;) {
      DecodedWhole whole;
      if (count_ == steps_most || !reader_.read(at, whole)) return false;
      LoopStep& step = steps_[count_++] = step_of(reader_, at, whole, pauses_, places_);
      // All ways to the end go by it.
      if (!step.may_be_in_wait && jumped_to <= at) return false;
      if (range.holds(step.target)) jumped_to = std::max(jumped_to, step.target);
      at = step.end;
    }
    // What looks like a branch may be the end of another instruction.
    const LoopStep& last = steps_[count_ - 1];
    return last.end == range.end && last.target == range.begin;
  }

  /// The successor of a step by a branch; count_: elsewhere.
  std::size_t number_at(std::uintptr_t address) const noexcept {
    const auto* const end = steps_.data() + count_;
    return static_cast<std::size_t>(
        std::find_if(steps_.data(), end, [=](const LoopStep& step) { return step.address == address; }) -
        steps_.data());
  }

  /// The steps from which the end, and thereby the beginning, can be reached, and which can be reached from
  /// there. \returns whether all of them may be in a loop that waits
  bool find_inside() noexcept {
    for (std::size_t i = 0; i < count_; ++i) {
      next_[i] = steps_[i].goes_on && i + 1 < count_ ? only(i + 1) : Set();
      const std::size_t target = steps_[i].target != 0 ? number_at(steps_[i].target) : count_;
      if (target < count_) next_[i] |= only(target);
    }
    Set forth = only(0);
    Set back = only(count_ - 1);
    for (bool grows = true; grows;) {
      const Set before = forth;
      const Set before_back = back;
      for (std::size_t i = 0; i < count_; ++i) {
        if (forth[i]) forth |= next_[i];
        if ((next_[i] & back).any()) back.set(i);
      }
      grows = forth != before || back != before_back;
    }
    inside_ = forth & back;
    for (std::size_t i = 0; i < count_; ++i)
      if (is_inside(i) && !steps_[i].may_be_in_wait) return false;
    return is_inside(count_ - 1);
  }

  /// What registers hold as a step begins.
  struct Held {
    Parts earlier;  ///< by what was done the time before in the loop: how often, how far
    Parts seen;     ///< by what this time's looks have found

    bool add(const Held& other) noexcept {
      const Held before = *this;
      earlier |= other.earlier;
      seen |= other.seen;
      return earlier != before.earlier || seen != before.seen;
    }
  };

  Held after(std::size_t number) const noexcept {
    const LoopStep& step = steps_[number];
    Held held = held_[number];
    const bool is_earlier = step.is_from_elsewhere || (step.reads & held.earlier).any();
    const bool is_seen = is_look(number) || (step.reads & held.seen).any();
    held.earlier = is_earlier ? held.earlier | step.writes : held.earlier & ~step.writes;
    held.seen = is_seen ? held.seen | step.writes : held.seen & ~step.writes;
    return held;
  }
  bool is_look(std::size_t number) const noexcept {
    const std::optional<MemoryOperand>& look = steps_[number].look;
    return look.has_value() && (parts_of(*look) & held_[number].earlier).none();
  }

  void add_looks(bool is_patient, std::vector<SupposedLook>& looks) const {
    for (std::size_t i = 0; i < count_; ++i)
      if (is_inside(i) && is_look(i))
        looks.push_back({steps_[i].address, steps_[count_ - 1].address, is_patient});
  }

  void follow(std::size_t first) noexcept {
    held_.fill({});
    for (std::size_t i = 0; i < count_; ++i)
      if (is_inside(i)) held_[first].earlier |= steps_[i].writes;
    for (bool grows = true; grows;) {
      grows = false;
      for (std::size_t i = 0; i < count_; ++i) {
        if (!is_inside(i)) continue;
        const Held held = after(i);
        for (std::size_t next = 0; next < count_; ++next) {
          // The first step begins with all of it.
          if (next != first && next_[i][next] && inside_[next] && held_[next].add(held)) grows = true;
        }
      }
    }
  }

  struct Verdict {
    bool waits = false;
    bool is_patient = false;
  };

  /// Waits if it lets time pass; or if it goes the same way each time until it ends, and that by what its
  /// looks find. Is patient if, whichever way it goes, it ends by that alone.
  Verdict judge() const noexcept {
    bool lets_time_pass = false;
    bool ends = false;
    bool is_the_same = true;
    bool ends_by_others = true;
    for (std::size_t i = 0; i < count_; ++i) {
      if (!is_inside(i)) continue;
      const LoopStep& step = steps_[i];
      lets_time_pass = lets_time_pass || step.lets_time_pass;
      if (step.target == 0 || !step.goes_on) continue;
      const bool is_the_same_here = (step.reads & held_[i].earlier).none();
      is_the_same = is_the_same && is_the_same_here;
      if (stays(i)) continue;
      ends = true;
      ends_by_others = ends_by_others && is_the_same_here && (step.reads & held_[i].seen).any();
    }
    const bool is_patient = ends && ends_by_others;
    return {.waits = lets_time_pass || (is_patient && is_the_same), .is_patient = is_patient};
  }

  /// Whether both ways of a branch are inside.
  bool stays(std::size_t number) const noexcept {
    const std::size_t target = number_at(steps_[number].target);
    return target < count_ && is_inside(target) && number + 1 < count_ && is_inside(number + 1);
  }

  const CodeReader& reader_;
  const std::span<const std::uintptr_t> pauses_;
  LoopPlaces places_;
  std::size_t count_ = 0;
  std::array<LoopStep, steps_most> steps_;
  std::array<Set, steps_most> next_{};
  Set inside_;
  std::array<Held, steps_most> held_;
};

LookFinder::LookFinder(const CodeMap& map, std::span<const std::uintptr_t> pauses)
    : reader_(map), loop_(std::make_unique<Loop>(reader_, pauses)) {}
LookFinder::~LookFinder() = default;

std::vector<SupposedLook> LookFinder::find(const AddressRange& function) {
  std::vector<SupposedLook> looks;
  std::optional<Frame> frame;  // read when there is a branch back
  const auto* const code = reinterpret_cast<const std::uint8_t*>(function.begin);
  const std::size_t bytes = function.end - function.begin;
  const auto look_at = [&](std::uintptr_t begin, std::uintptr_t end) {
    if (!frame) frame.emplace(reader_, &function);
    loop_->find_looks({begin, end}, *frame, looks);
  };
  for (std::size_t i = 0; i + 1 < bytes; ++i) {
    const std::uintptr_t end = function.begin + i + 2;
    if (is_branch_back(code[i], code[i + 1])) {
      const std::uintptr_t begin = end - (256U - code[i + 1]);
      if (function.holds(begin)) look_at(begin, end);
    } else if (code[i + 1] == 0xff && code[i] == 0xff) {  // the upper half of a small distance back
      if (const auto begin = target_of_longer(code + i + 2, code)) look_at(*begin, end);
    }
  }
  return looks;
}

void LookFinder::mark(std::span<const SupposedLook> looks, std::vector<Instruction>& function) const {
  if (looks.empty() || function.empty()) return;
  const AddressRange range{function.front().address, function.back().end()};
  const Frame frame(reader_, &range);
  const auto find = [&](std::uintptr_t address) {
    const auto is_before = [](const Instruction& each, std::uintptr_t value) { return each.address < value; };
    const auto found = std::lower_bound(function.begin(), function.end(), address, is_before);
    return found != function.end() && found->address == address ? found : function.end();
  };
  for (const SupposedLook& look : looks) {
    const auto at = find(look.address);
    if (at == function.end() || find(look.branch) == function.end()) continue;
    if (at->site == SiteKind::look && !look.is_patient) continue;  // of a loop inside, or around
    LoopStep step;
    const std::optional<MemoryOperand> place = loaded_by(reader_, frame, *at, step);
    if (!place) continue;
    const auto mark_it = [&](Instruction& each) {
      each.site = SiteKind::look;
      each.is_patient = each.is_patient || look.is_patient;
    };
    mark_it(*at);
    if (place->base == instruction_pointer) {
      for (Instruction& each : function) {
        const auto loaded = loaded_by(reader_, frame, each, step);
        if (loaded && is_same_place(*loaded, *place)) mark_it(each);
      }
      continue;
    }
    // As far back as the registers of the address are what they are at the look.
    const Parts address = parts_of(*place);
    for (auto before = at; before != function.begin() && at - before < copy_before_most;) {
      --before;
      // Into the loop at another place than its first: the condition of the turns to come stands there.
      const bool leads_in =
          before->flow == Flow::jump && before->target > before->end() && before->target <= look.branch;
      if (leads_in) continue;
      const auto loaded = loaded_by(reader_, frame, *before, step);
      if (!before->goes_on() || (step.writes & address).any()) break;
      if (loaded && is_same_place(*loaded, *place)) mark_it(*before);
    }
  }
}

}  // namespace craton::posix
