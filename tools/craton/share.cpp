// How `craton run` makes ranks of a program that knows nothing of them.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string>

#include "base/error.hpp"
#include "base/line_writer.hpp"
#include "commands.hpp"
#include "job/program.hpp"

namespace craton::tools {

namespace {

[[noreturn]] void refuse(const std::string& program, std::string happened, std::string remedy) {
  throw Error(ErrorCode::not_supported, {.asked = "cannot share the memory of " + program,
                                         .happened = std::move(happened),
                                         .limit = {},
                                         .remedy = std::move(remedy)});
}

/// Beside the command, in the build tree and where it was installed.
std::string preloaded_library() {
  std::array<char, 4096> path{};
  const ssize_t bytes = ::readlink("/proc/self/exe", path.data(), path.size() - 1);
  const std::string command(path.data(), static_cast<std::size_t>(std::max<ssize_t>(bytes, 0)));
  const std::string prefix = command.substr(0, command.rfind('/')) + "/../";
  for (const char* const folder : {CRATON_LIBRARY_FOLDER, "lib"}) {
    const std::string library = prefix + folder + "/libcraton-run.so";
    if (::access(library.c_str(), R_OK) != 0) continue;
    const std::unique_ptr<char, void (*)(void*)> resolved(::realpath(library.c_str(), nullptr), &std::free);
    if (resolved != nullptr) return resolved.get();
  }
  throw Error(ErrorCode::not_supported, {.asked = "cannot share the memory of a program",
                                         .happened = "libcraton-run.so is not beside this command",
                                         .limit = {},
                                         .remedy = "install all of Craton"});
}

void check(const job::ProgramFacts& facts) {
  const std::string as_it_is = "; --share=no starts it on every rank as it is";
  if (!facts.is_elf)
    refuse(facts.path, "it is no executable but a script", "name the program that it starts" + as_it_is);
  if (!facts.is_x86_64)
    refuse(facts.path, "it is not a 64-bit x86 program", "build it with gcc -m64" + as_it_is);
  if (!facts.is_dynamic)
    refuse(facts.path, "it is linked statically",
           "link it without -static, so that the loader can give it a library" + as_it_is);
  if (!facts.missing.empty()) {
    refuse(facts.path, "the loader does not find " + facts.missing.front(),
           "install it, or set LD_LIBRARY_PATH");
  }
  if (!facts.openmp.empty() && facts.openmp.rfind("libgomp", 0) != 0) {
    refuse(facts.path,
           "it was built for " + facts.openmp + ", and Craton stands in for GCC's libgomp.so.1 only",
           "build it with gcc, g++ or gfortran -fopenmp");
  }
}

}  // namespace

void share_program(const Options& options, job::LaunchRequest& launch, unsigned& ranks) {
  const std::string& share = options.text(Option::share);
  if (share == "no") return;
  const std::string path = job::find_program(launch.command.front());
  if (path.empty()) return;  // whoever starts it says so
  const job::ProgramFacts facts = job::inspect_program(path);
  if (facts.uses_craton) {
    if (share == "yes") refuse(path, "it uses Craton's own interface", "leave --share out");
    return;
  }
  check(facts);
  if (share == "auto" && facts.openmp.empty()) {
    if (ranks > 1) {
      write_fully(
          STDERR_FILENO,
          fmt::format(
              "craton run: {} needs no OpenMP library: it runs once, on rank 0; --share=no starts it on "
              "every rank, --share=yes shares its memory\n",
              path));
    }
    ranks = 1;
    return;
  }
  const char* const others = std::getenv("LD_PRELOAD");
  const auto set = [&](const char* name, std::string value) {
    launch.environment.emplace_back(name, std::move(value));
  };
  set(job::shared_variable, "1");
  set("LD_PRELOAD", preloaded_library() + (others == nullptr ? "" : std::string(":") + others));
  set("LD_BIND_NOW", "1");
}

}  // namespace craton::tools
