// What the C library makes once and the program uses again and again, by a pointer to private memory:
// compiled regular expressions and conversions of character sets. Each rank makes its own when it first uses
// one, from what it was made of, which lies where all ranks see it.
//
//     regcomp on rank r ──▶ the real one, into the program's regex_t ──▶ a recipe in the shared heap
//     regexec on rank q ──▶ by the recipe: the real regcomp into a regex_t of q's own, once ──▶ the real
//     regexec
//
// A conversion that has state (ISO-2022) has one on each rank.
#include <iconv.h>
#include <regex.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "posix/allocation.hpp"
#include "posix/real.hpp"
#include "posix/shared_program.hpp"

namespace craton::posix {

namespace {

/// Where all ranks see it, with the texts behind it.
struct Recipe {
  std::uint64_t mark;  ///< its own address, mixed: it is one
  std::uint64_t id;    ///< of all that any rank has made
  fabric::Rank maker;
  int flags;               ///< of regcomp
  iconv_t own;             ///< the maker's conversion
  std::size_t text_bytes;  ///< of the first text, with its end
  char texts[1];

  const char* first() const noexcept { return texts; }
  const char* second() const noexcept { return texts + text_bytes; }
};

std::uint64_t mark_of(const Recipe* recipe) noexcept {
  constexpr std::uint64_t mix = 0x9e3779b97f4a7c15U;
  return (reinterpret_cast<std::uintptr_t>(recipe) ^ 0x5265636970650001U) * mix;
}

/// \param pointer what the program has of one, or anything
const Recipe* recipe_at(std::uintptr_t pointer) noexcept {
  SharedProgram* const program = shared_program();
  const auto* const recipe = reinterpret_cast<const Recipe*>(pointer);
  if (program == nullptr || pointer % alignof(Recipe) != 0 || program->heap_of(recipe) == nullptr)
    return nullptr;
  return recipe->mark == mark_of(recipe) ? recipe : nullptr;
}

/// \returns null where there is no memory; errno is ENOMEM then
Recipe* write_recipe(const char* first, const char* second, int flags, iconv_t own) noexcept {
  static std::atomic<std::uint32_t> made{0};
  const fabric::Rank rank = shared_program()->rank();
  const std::size_t first_bytes = std::strlen(first) + 1;
  const std::size_t second_bytes = std::strlen(second) + 1;
  void* const memory = craton_program_malloc(offsetof(Recipe, texts) + first_bytes + second_bytes);
  if (memory == nullptr) return nullptr;
  auto* const recipe = static_cast<Recipe*>(memory);
  recipe->mark = mark_of(recipe);
  recipe->id = std::uint64_t{rank} << 32U | ++made;
  recipe->maker = rank;
  recipe->flags = flags;
  recipe->own = own;
  recipe->text_bytes = first_bytes;
  std::memcpy(recipe->texts, first, first_bytes);
  std::memcpy(recipe->texts + first_bytes, second, second_bytes);
  return recipe;
}

void tear_up(const Recipe* recipe) noexcept {
  auto* const own = const_cast<Recipe*>(recipe);
  own->mark = 0;
  craton_program_free(own);
}

/// This rank's own, by the address of their recipes.
template <typename Made>
class OwnMade {
 public:
  /// \param make makes it, and returns null if that fails
  template <typename Make>
  Made* find(const Recipe& recipe, const Make& make) {
    const std::lock_guard lock(lock_);
    Entry& entry = entries_[&recipe];
    if (entry.made != nullptr && entry.id == recipe.id) return entry.made.get();
    // Another one was there before, which its rank has freed.
    entry.made = make();
    entry.id = recipe.id;
    return entry.made.get();
  }
  void forget(const Recipe& recipe) {
    const std::lock_guard lock(lock_);
    entries_.erase(&recipe);
  }

 private:
  struct Entry {
    std::uint64_t id = 0;
    std::unique_ptr<Made> made;
  };
  std::mutex lock_;
  std::map<const Recipe*, Entry> entries_;
};

class Expression {
 public:
  ~Expression() {
    if (is_made_) CRATON_REAL(regfree)(&compiled_);
  }
  Expression(const Expression&) = delete;
  Expression& operator=(const Expression&) = delete;

  static std::unique_ptr<Expression> make(const Recipe& recipe) {
    std::unique_ptr<Expression> made(new Expression);
    made->is_made_ = CRATON_REAL(regcomp)(&made->compiled_, recipe.first(), recipe.flags) == 0;
    return made->is_made_ ? std::move(made) : nullptr;
  }
  const regex_t& compiled() const noexcept { return compiled_; }

 private:
  Expression() = default;

  regex_t compiled_{};
  bool is_made_ = false;
};

class Conversion {
 public:
  explicit Conversion(iconv_t own) noexcept : own_(own) {}
  Conversion(const Conversion&) = delete;
  Conversion& operator=(const Conversion&) = delete;
  ~Conversion() { CRATON_REAL(iconv_close)(own_); }

  static std::unique_ptr<Conversion> make(const Recipe& recipe) {
    const iconv_t own = CRATON_REAL(iconv_open)(recipe.first(), recipe.second());
    return own == none() ? nullptr : std::make_unique<Conversion>(own);
  }
  static iconv_t none() noexcept { return reinterpret_cast<iconv_t>(std::intptr_t{-1}); }
  iconv_t own() const noexcept { return own_; }

 private:
  const iconv_t own_;
};

OwnMade<Expression>& expressions() {
  static auto& all = *new OwnMade<Expression>;  // to the end of the process
  return all;
}
OwnMade<Conversion>& conversions() {
  static auto& all = *new OwnMade<Conversion>;
  return all;
}

/// The recipe of an expression lies in a member that the C library sets to what is not 0, and never reads but
/// for that.
const Recipe* recipe_of(const regex_t& expression) noexcept {
  return recipe_at(expression.used);
}

}  // namespace

}  // namespace craton::posix

using craton::posix::Conversion;
using craton::posix::Expression;
using craton::posix::Recipe;
using craton::posix::shared_program;

extern "C" {

// ---- Regular expressions

[[gnu::visibility("default")]] int regcomp(regex_t* expression, const char* pattern, int flags) {
  const int error = CRATON_REAL(regcomp)(expression, pattern, flags);
  if (error != 0 || shared_program() == nullptr || !shared_program()->is_shared(expression)) return error;
  Recipe* const recipe = craton::posix::write_recipe(pattern, "", flags, nullptr);
  if (recipe == nullptr) {
    CRATON_REAL(regfree)(expression);
    return REG_ESPACE;
  }
  expression->used = reinterpret_cast<std::uintptr_t>(recipe);
  return 0;
}

[[gnu::visibility("default")]] int regexec(const regex_t* expression, const char* text, std::size_t count,
                                           regmatch_t* matches, int flags) {
  const Recipe* const recipe = craton::posix::recipe_of(*expression);
  if (recipe == nullptr || recipe->maker == shared_program()->rank())
    return CRATON_REAL(regexec)(expression, text, count, matches, flags);
  const Expression* const own =
      craton::posix::expressions().find(*recipe, [&] { return Expression::make(*recipe); });
  if (own == nullptr) return REG_ESPACE;
  return CRATON_REAL(regexec)(&own->compiled(), text, count, matches, flags);
}

/// What other ranks have compiled for themselves stays there till they end.
[[gnu::visibility("default")]] void regfree(regex_t* expression) {
  const Recipe* const recipe = craton::posix::recipe_of(*expression);
  if (recipe == nullptr) return CRATON_REAL(regfree)(expression);
  if (recipe->maker == shared_program()->rank()) {
    CRATON_REAL(regfree)(expression);
  } else {
    craton::posix::expressions().forget(*recipe);
  }
  craton::posix::tear_up(recipe);
  expression->used = 0;
}

// ---- Conversions

[[gnu::visibility("default")]] iconv_t iconv_open(const char* to, const char* from) {
  const iconv_t own = CRATON_REAL(iconv_open)(to, from);
  if (own == Conversion::none() || shared_program() == nullptr) return own;
  Recipe* const recipe = craton::posix::write_recipe(to, from, 0, own);
  if (recipe != nullptr) return recipe;
  CRATON_REAL(iconv_close)(own);
  return Conversion::none();
}

[[gnu::visibility("default")]] std::size_t iconv(iconv_t conversion, char** in, std::size_t* in_left,
                                                 char** out, std::size_t* out_left) {
  const Recipe* const recipe = craton::posix::recipe_at(reinterpret_cast<std::uintptr_t>(conversion));
  if (recipe == nullptr) return CRATON_REAL(iconv)(conversion, in, in_left, out, out_left);
  if (recipe->maker == shared_program()->rank())
    return CRATON_REAL(iconv)(recipe->own, in, in_left, out, out_left);
  const Conversion* const own =
      craton::posix::conversions().find(*recipe, [&] { return Conversion::make(*recipe); });
  if (own != nullptr) return CRATON_REAL(iconv)(own->own(), in, in_left, out, out_left);
  errno = EBADF;
  return static_cast<std::size_t>(-1);
}

[[gnu::visibility("default")]] int iconv_close(iconv_t conversion) {
  const Recipe* const recipe = craton::posix::recipe_at(reinterpret_cast<std::uintptr_t>(conversion));
  if (recipe == nullptr) return CRATON_REAL(iconv_close)(conversion);
  if (recipe->maker == shared_program()->rank()) {
    CRATON_REAL(iconv_close)(recipe->own);
  } else {
    craton::posix::conversions().forget(*recipe);
  }
  craton::posix::tear_up(recipe);
  return 0;
}

}  // extern "C"
