#include "posix/atomics/patch.hpp"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <deque>
#include <memory>
#include <span>
#include <utility>

#include "base/error.hpp"
#include "posix/atomics/near_memory.hpp"
#include "posix/atomics/patch_plan.hpp"
#include "posix/atomics/site_code.hpp"
#include "posix/atomics/trap.hpp"

namespace craton::posix {
namespace {

constexpr std::uint8_t breakpoint = 0xcc;
constexpr std::uint8_t jump_opcode = 0xe9;

std::uintptr_t page_bytes() noexcept {
  static const auto bytes = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  return bytes;
}

void check(const CodeMap& object, const SharedMemory& shared) {
  const auto fail = [&](std::string happened) {
    throw Error(ErrorCode::invalid_argument,
                {.asked = fmt::format("cannot send the atomic instructions of {} to software", object.name),
                 .happened = std::move(happened),
                 .limit = {},
                 .remedy = {}});
  };
  if (shared.ranges.size() > shared_ranges_most)
    fail(fmt::format("{} shared ranges are given, and {} are the most", shared.ranges.size(),
                     shared_ranges_most));
  if (shared.hooks.atomic == nullptr || shared.hooks.flush == nullptr) fail("hooks are missing");
  // While it is written, none of it can be run.
  if (object.image.holds(reinterpret_cast<std::uintptr_t>(&patch)) ||
      object.image.holds(reinterpret_cast<std::uintptr_t>(&::mprotect)))
    fail("it holds the code that does it");
}

/// What stays for ever: the sites' records, and what they point at. Only patched code uses it, so that it
/// hangs on a list for those who look for leaks.
struct Kept {
  SharedMemory shared;
  std::deque<SiteRecord> records;
  Kept* next = nullptr;
};
constinit std::atomic<Kept*> all_kept{nullptr};

void keep(std::unique_ptr<Kept> kept) noexcept {
  kept->next = all_kept.load();
  while (!all_kept.compare_exchange_weak(kept->next, kept.get())) {
  }
  static_cast<void>(kept.release());  // the list has it
}

/// The code made for a plan, at some address. Distances decide what fits, so it is made twice: to learn its
/// size, and where it will lie.
class Made {
 public:
  struct Jump {
    const Run* run;
    std::uintptr_t trampoline;
  };

  Made(const CodeMap& object, const PatchPlan& plan, Kept& kept, const void* entry, std::uintptr_t base)
      : object_(object), kept_(kept), code_(base) {
    kept_.records.clear();
    SiteCode sites(code_, kept.shared, entry);
    for (const Run& run : plan.runs) add_run(sites, run);
    for (const PatchPlan::Trap& trap : plan.traps) add_trap(sites, trap.instruction, trap.why);
  }

  std::span<const std::uint8_t> code() const noexcept { return code_.code(); }
  const std::vector<Jump>& jumps() const noexcept { return jumps_; }
  const std::vector<const SiteRecord*>& traps() const noexcept { return traps_; }
  const std::vector<PatchReport::Reason>& reasons() const noexcept { return reasons_; }
  /// Looks that stay as they are, since no memory is free within 2 GiB.
  std::size_t looks_left() const noexcept { return looks_left_; }

 private:
  SiteRecord& add_record(SiteCode& sites, const Site& site) {
    SiteRecord& record = kept_.records.emplace_back();
    record.address = site.instruction.address;
    record.length = site.instruction.length;
    record.kind = site.instruction.site;
    record.is_exchange = site.is_exchange();
    record.is_patient = site.instruction.is_patient;
    record.operand = site.operand;
    record.shared = &kept_.shared;
    record.reduction = find_reduction(object_, site, kept_.shared.barrier);
    if (site.has_operand && site.problem == nullptr)
      record.perform = reinterpret_cast<Perform>(sites.add_perform(site));
    return record;
  }
  void add_run(SiteCode& sites, const Run& run) {
    std::deque<Site> found;
    std::vector<Step> steps;
    for (const Instruction& instruction : run.instructions) {
      Step& step = steps.emplace_back();
      step.instruction = instruction;
      if (instruction.site == SiteKind::none) continue;
      step.site = &found.emplace_back(decode_site(instruction));
      step.record = &add_record(sites, *step.site);
    }
    code_.forget_misfit();
    const std::uintptr_t trampoline = sites.add_trampoline(steps, run.instructions.back().end());
    const auto distance =
        static_cast<std::int64_t>(trampoline - steps.front().instruction.address - jump_bytes);
    if (code_.fits() && distance >= INT32_MIN && distance <= INT32_MAX) {
      jumps_.push_back({&run, trampoline});
      return;
    }
    for (const Step& step : steps) {
      if (step.site == nullptr) continue;
      if (step.record->kind == SiteKind::look) {
        ++looks_left_;
        continue;
      }
      traps_.push_back(step.record);
      reasons_.push_back({step.instruction.address, "no memory is free within 2 GiB of it"});
    }
  }
  void add_trap(SiteCode& sites, const Instruction& instruction, const char* why) {
    SiteRecord& record = add_record(sites, decode_site(instruction));
    if (record.kind == SiteKind::look && record.perform == nullptr) {
      code_.forget_misfit();
      record.copy = sites.add_continuation(instruction);
      if (!code_.fits()) {
        ++looks_left_;
        return;
      }
    }
    traps_.push_back(&record);
    reasons_.push_back({instruction.address, why});
  }

  const CodeMap& object_;
  Kept& kept_;
  Assembler code_;
  std::vector<Jump> jumps_;
  std::vector<const SiteRecord*> traps_;
  std::vector<PatchReport::Reason> reasons_;
  std::size_t looks_left_ = 0;
};

void protect(std::uintptr_t begin, std::uintptr_t end, int protection, const CodeMap& object) {
  begin = begin / page_bytes() * page_bytes();
  end = (end + page_bytes() - 1) / page_bytes() * page_bytes();
  if (::mprotect(reinterpret_cast<void*>(begin), end - begin, protection) == 0) return;
  throw Error::from_errno(fmt::format("cannot change the protection of the code of {}", object.name), errno);
}

/// While one exists, an object's code can be written and not run.
class Writable {
 public:
  explicit Writable(const CodeMap& object) : object_(object) {
    for (const CodeMap::Segment& each : object.code) {
      try {
        protect(each.begin, each.end, PROT_READ | PROT_WRITE, object);
      } catch (...) {
        restore();
        throw;
      }
    }
  }
  Writable(const Writable&) = delete;
  Writable& operator=(const Writable&) = delete;
  ~Writable() { restore(); }  // ends the process where it fails: the code cannot be run any more

 private:
  void restore() {
    for (const CodeMap::Segment& each : object_.code) protect(each.begin, each.end, each.protection, object_);
  }
  const CodeMap& object_;
};

void write_jump(const Run& run, std::uintptr_t trampoline) {
  const std::uintptr_t begin = run.instructions.front().address;
  auto* const code = reinterpret_cast<std::uint8_t*>(begin);
  const auto distance = static_cast<std::int32_t>(trampoline - begin - jump_bytes);
  code[0] = jump_opcode;
  std::memcpy(code + 1, &distance, sizeof distance);
  std::memset(code + jump_bytes, breakpoint, run.end - begin - jump_bytes);  // nobody comes here
}

PatchReport report_of(const CodeMap& object, const PatchPlan& plan) {
  PatchReport report;
  report.functions = object.functions.size();
  for (const CodeMap::Segment& each : object.code) report.code_bytes += each.end - each.begin;
  report.read_bytes = plan.read_bytes;
  report.unread_bytes = plan.unread_bytes;
  report.problem = object.problem;
  report.loads_to_store = plan.loads_to_store;
  for (const PatchPlan::Trap& each : plan.untouched)
    report.untouched.push_back({each.instruction.address, each.why});
  return report;
}

std::size_t& count_of(PatchReport& report, SiteKind kind) noexcept {
  if (kind == SiteKind::look) return report.looks;
  return kind == SiteKind::flush ? report.flushes : report.atomics;
}

}  // namespace

PatchReport patch(const CodeMap& object, const SharedMemory& shared, unsigned threads) {
  check(object, shared);
  const PatchPlan plan = Planner(object, shared, threads).make();
  PatchReport report = report_of(object, plan);
  if (plan.runs.empty() && plan.traps.empty()) return report;

  const void* const entry = entry_for_sites();
  auto kept = std::make_unique<Kept>();
  kept->shared = shared;
  const std::size_t bytes = Made(object, plan, *kept, entry, object.image.begin).code().size();
  const std::uintptr_t base = map_near(object.image, bytes);
  const Made made(object, plan, *kept, entry, base);
  std::memcpy(reinterpret_cast<void*>(base), made.code().data(), made.code().size());
  protect(base, base + bytes, PROT_READ | PROT_EXEC, object);

  for (const SiteRecord& record : kept->records) {
    ++count_of(report, record.kind);
    if (record.reduction.way != Reduction::Way::none) ++report.reductions;
  }
  report.traps = made.reasons();
  report.looks -= made.looks_left();
  report.jumps = kept->records.size() - made.looks_left() - report.traps.size();
  keep(std::move(kept));
  if (!made.traps().empty()) catch_traps(made.traps());
  const Writable writable(object);
  for (const Made::Jump& jump : made.jumps()) write_jump(*jump.run, jump.trampoline);
  for (const SiteRecord* const trap : made.traps())
    *reinterpret_cast<std::uint8_t*>(trap->address) = breakpoint;
  return report;
}

}  // namespace craton::posix
