/// \file
/// What kind of program a command starts: whether its memory can be shared among ranks, and whether it should
/// be.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace craton::job {

struct ProgramFacts {
  std::string path;    ///< where it was found
  std::string damage;  ///< why it is no whole file; empty: it is one
  std::string
      privileges;  ///< of its file, as "set-user-ID", for which the kernel starts it otherwise; empty: none
  bool is_elf = false;
  bool is_x86_64 = false;
  std::string loader;                ///< which can give it a library of ours; empty: linked statically
  bool uses_craton = false;          ///< it calls craton_init by itself
  std::string openmp;                ///< the OpenMP library that it or a library of its needs; empty: none
  bool uses_openacc = false;         ///< entry points of libgomp that are not OpenMP's
  std::string sanitizer;             ///< whose runtime it has or needs, as -fsanitize= names it; empty: none
  std::string allocator_call;        ///< jemalloc's mallocx, say, of a library; empty: none is known
  std::vector<std::string> missing;  ///< libraries that the loader does not find

  /// Of another loader's program no more is known than is in the file.
  bool has_glibc_loader() const;
};

/// Where execvp looks for programs: PATH, or what stands for it.
std::string_view program_path() noexcept;

struct FoundProgram {
  std::string path;     ///< empty: execvp would find none
  int errno_value = 0;  ///< why not, as execvp has it
};
/// Looks for a program as execvp does. \param path directories, separated by colons
FoundProgram find_program(const std::string& name, std::string_view path);

/// Reads the program, and asks its loader what it would load. \throws Error system if it cannot be read
ProgramFacts inspect_program(const std::string& path);

/// Set in ranks whose program's memory is to be shared. They take it out of their environment.
inline constexpr const char* shared_variable = "CRATON_SHARED";

}  // namespace craton::job
