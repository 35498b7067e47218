#include "posix/constructors.hpp"

#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "base/line_writer.hpp"
#include "base/options.hpp"
#include "job/program.hpp"
#include "job/rank_process.hpp"
#include "posix/allocators.hpp"
#include "posix/dynamic_section.hpp"
#include "posix/image.hpp"
#include "posix/pages.hpp"
#include "posix/real.hpp"

namespace craton::posix {

namespace {

struct Object {
  DynamicSection section;
  std::string_view file;  ///< without its folder
  bool is_program;        ///< the executable
  bool is_shared;         ///< a library of the program
  AddressSpan read_only;  ///< after relocation
  std::vector<std::size_t> needed;
  bool needs_shared = false;         ///< itself or by way of others
  bool is_needed_privately = false;  ///< by one whose data are each rank's own, itself or by way of others
  bool is_ordered = false;
};

/// In the order in which the loader would have run them.
std::vector<Initialiser>* constructors_put_off = nullptr;

void construct_nothing(int /*argc*/, char** /*argv*/, char** /*environment*/) {}

struct CollectingObjects {
  const NamedLibraries& named;
  std::vector<Object> objects;
};

int collect_object(dl_phdr_info* info, std::size_t /*size*/, void* context) {
  auto& [named, objects] = *static_cast<CollectingObjects*>(context);
  const bool is_program = objects.empty();
  Object object{.section = DynamicSection(*info),
                .file = info->dlpi_name,
                .is_program = is_program,
                .is_shared = !is_program && is_shared_library(*info, named),
                .read_only = {},
                .needed = {}};
  object.file.remove_prefix(object.file.rfind('/') + 1);
  for (const ElfW(Phdr) & header : std::span(info->dlpi_phdr, info->dlpi_phnum)) {
    const std::uintptr_t begin = info->dlpi_addr + header.p_vaddr;
    if (header.p_type == PT_GNU_RELRO)
      object.read_only = {page_down(begin), page_down(begin + header.p_memsz)};
  }
  objects.push_back(std::move(object));
  return 0;
}

void find_needed(std::vector<Object>& objects) {
  for (Object& object : objects) {
    for (std::string_view name : object.section.needed) {
      name.remove_prefix(name.rfind('/') + 1);
      const auto found = std::find_if(objects.begin(), objects.end(), [name](const Object& other) {
        return other.section.name == name || other.file == name;
      });
      if (found != objects.end()) object.needed.push_back(static_cast<std::size_t>(found - objects.begin()));
    }
  }
}

/// What is needed comes first; else what was loaded last, as with the C library's loader (dl-sort-maps.c).
void put_in_order(std::vector<Object>& objects, std::size_t index, std::vector<Object*>& order) {
  Object& object = objects[index];
  if (std::exchange(object.is_ordered, true)) return;
  for (const std::size_t needed : object.needed) put_in_order(objects, needed, order);
  order.push_back(&object);
}

std::vector<Object*> order_of(std::vector<Object>& objects) {
  std::vector<Object*> order;
  for (std::size_t index = objects.size(); index-- > 0;) put_in_order(objects, index, order);
  return order;
}

/// Along what libraries need; of those that need each other perhaps not all.
void follow_needs(std::vector<Object>& objects, const std::vector<Object*>& order) {
  for (Object* object : order) {
    object->needs_shared = object->is_shared;
    for (const std::size_t needed : object->needed)
      object->needs_shared = object->needs_shared || objects[needed].needs_shared;
  }
  for (auto object = order.rbegin(); object != order.rend(); ++object) {
    if ((*object)->is_program || ((*object)->is_shared && !(*object)->is_needed_privately)) continue;
    for (const std::size_t needed : (*object)->needed) objects[needed].is_needed_privately = true;
  }
}

void take_initialisers(Object& object, std::vector<Initialiser>& to) {
  const std::span<Initialiser> list = object.section.initialisers;
  to.insert(to.end(), list.begin(), list.end());
  const auto [begin, end] = object.read_only;
  const auto protect = [begin = begin, end = end](int protection) {
    if (begin < end && ::mprotect(reinterpret_cast<void*>(begin), end - begin, protection) != 0) std::abort();
  };
  protect(PROT_READ | PROT_WRITE);
  std::fill(list.begin(), list.end(), &construct_nothing);
  protect(PROT_READ);
}

std::string_view value_of(char** environment, std::string_view name) noexcept {
  for (; *environment != nullptr; ++environment) {
    const std::string_view one(*environment);
    if (one.starts_with(name) && one.substr(name.size()).starts_with('=')) return one.substr(name.size() + 1);
  }
  return {};
}

}  // namespace

void put_off_constructors(bool is_first_rank, const NamedLibraries& named) {
  CollectingObjects collecting{.named = named, .objects = {}};
  ::dl_iterate_phdr(&collect_object, &collecting);
  std::vector<Object>& objects = collecting.objects;
  const auto is_before_us = [](const Object& object) {
    return object.section.wants_to_be_first && !object.file.starts_with("libcraton-libomp");
  };
  if (std::any_of(objects.begin(), objects.end(), is_before_us)) return;
  find_needed(objects);
  const std::vector<Object*> order = order_of(objects);
  follow_needs(objects, order);
  auto* const put_off = new std::vector<Initialiser>;  // to the end of the process
  for (Object* object : order) {
    if (object->is_program || object->section.initialisers.empty()) continue;
    const bool takes =
        is_first_rank ? object->needs_shared : object->is_shared && !object->is_needed_privately;
    if (takes) take_initialisers(*object, *put_off);
  }
  constructors_put_off = put_off;
}

void run_constructors(int argc, char** argv, char** environment) noexcept {
  if (constructors_put_off == nullptr) return;
  for (const Initialiser initialiser : *constructors_put_off) initialiser(argc, argv, environment);
}

}  // namespace craton::posix

extern "C" {

/// Called by libcraton-libomp.so. The C library does not know the environment yet.
[[gnu::visibility("default")]] void craton_before_constructors(char** environment) {
  using craton::posix::value_of;
  const std::string_view rank = value_of(environment, craton::job::rank_variable);
  if (value_of(environment, craton::job::control_variable).empty()) return;  // a child of a rank
  try {
    craton::posix::replace_allocators();
  } catch (const craton::Error& error) {
    craton::write_fully(STDERR_FILENO, std::string("craton: ") + error.what() + "\n");
    CRATON_REAL(_exit)(1);
  }
  const std::string libraries = craton::variable_name(craton::spec_of(craton::Option::program_libraries));
  const craton::posix::NamedLibraries named(value_of(environment, libraries));
  craton::posix::put_off_constructors(rank.find_first_not_of('0') == std::string_view::npos, named);
}

}  // extern "C"
