// Where gettext() finds what the program says: the domain, its folder and its character set are each
// process's own in the C library, and here the same on all ranks.
#include <libintl.h>

#include <cstddef>
#include <cstring>

#include "posix/everywhere.hpp"
#include "posix/real.hpp"
#include "posix/results.hpp"

namespace craton::posix {

namespace {

char* set_here(TextDomainChange change, const char* domain, const char* value) noexcept {
  switch (change.what) {
    case TextDomainChange::What::name:
      return CRATON_REAL(textdomain)(domain);
    case TextDomainChange::What::folder:
      return CRATON_REAL(bindtextdomain)(domain, value);
    case TextDomainChange::What::character_set:
      return CRATON_REAL(bind_textdomain_codeset)(domain, value);
  }
  return nullptr;
}

/// \param value null, or for a name the domain null: only asked for
char* set_all(TextDomainChange::What what, const char* domain, const char* value) noexcept {
  char* result = nullptr;
  in_one_order([&] {
    // Until it is copied no message may change it: the C library frees the one before.
    result = shared_name(set_here({what}, domain, value));
    Everywhere* const others = everywhere_now();
    if (result != nullptr && domain != nullptr && value != nullptr && others != nullptr)
      others->make(Everywhere::Kind::text_domain, TextDomainChange{what}, {domain, value});
  });
  return result;
}

}  // namespace

bool set_text_domain_as_told(const std::byte* change) noexcept {
  TextDomainChange head{};
  std::memcpy(&head, change, sizeof head);
  const auto* const domain = reinterpret_cast<const char*>(change + sizeof head);
  return set_here(head, domain, domain + std::strlen(domain) + 1) != nullptr;
}

}  // namespace craton::posix

using craton::posix::set_all;
using What = craton::posix::TextDomainChange::What;

extern "C" {

[[gnu::visibility("default")]] char* textdomain(const char* domain) noexcept {
  return set_all(What::name, domain, "");
}
[[gnu::visibility("default")]] char* bindtextdomain(const char* domain, const char* folder) noexcept {
  return set_all(What::folder, domain, folder);
}
[[gnu::visibility("default")]] char* bind_textdomain_codeset(const char* domain,
                                                             const char* character_set) noexcept {
  return set_all(What::character_set, domain, character_set);
}

}  // extern "C"
