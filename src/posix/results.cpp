// Functions of the C library that return a pointer to what it keeps for itself: the program may hand that
// pointer to threads of other ranks. So what they return is copied to where all ranks see it: a place for
// each function, which its next call on the same rank fills again, as ever; names stay.
//
// Not so: newlocale, whose data the C library maps for itself, and what lists users or hosts one by one
// (getpwent, getifaddrs); who uses those on another rank ends the job with a line that says so, or finds what
// that rank has there.
#include <grp.h>
#include <langinfo.h>
#include <locale.h>
#include <netdb.h>
#include <netinet/ether.h>
#include <pwd.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/kept_errno.hpp"
#include "posix/allocation.hpp"
#include "posix/everywhere.hpp"
#include "posix/kernel_memory.hpp"
#include "posix/real.hpp"
#include "posix/results.hpp"

namespace craton::posix {

namespace {

/// Memory in which a function leaves its result. For one function, or some that share theirs.
class Place {
 public:
  /// \returns null where there is no memory; errno is ENOMEM then
  char* with_room_for(std::size_t bytes) noexcept {
    const std::lock_guard lock(lock_);
    if (bytes <= room_) return begin_;
    auto* const grown = static_cast<char*>(craton_program_malloc(bytes));
    if (grown == nullptr) return nullptr;
    room_ = bytes;
    return begin_ = grown;  // somebody may still read the one before
  }
  /// \returns the copy there
  template <typename T>
  T* put(const T& made) noexcept {
    char* const to = with_room_for(sizeof made);
    return to == nullptr ? nullptr : static_cast<T*>(std::memcpy(to, &made, sizeof made));
  }
  /// \returns the copy; the text itself where there is no program
  char* put_text(char* made) noexcept {
    if (made == nullptr || shared_program() == nullptr) return made;
    const std::size_t bytes = std::strlen(made) + 1;
    char* const to = with_room_for(bytes);
    return to == nullptr ? nullptr : static_cast<char*>(std::memcpy(to, made, bytes));
  }

 private:
  std::mutex lock_;
  char* begin_ = nullptr;
  std::size_t room_ = 0;
};

/// Moves pointers into one piece of memory along with it.
class Relocation {
 public:
  Relocation(const char* from, std::size_t bytes, char* to) noexcept : from_(from), bytes_(bytes), to_(to) {}

  template <typename T>
  void apply(T*& pointer) const noexcept {
    const auto offset = reinterpret_cast<std::uintptr_t>(pointer) - reinterpret_cast<std::uintptr_t>(from_);
    if (pointer != nullptr && offset < bytes_) pointer = reinterpret_cast<T*>(to_ + offset);
  }
  /// A list that ends with null.
  void apply_to_list(char**& list) const noexcept {
    apply(list);
    for (char** each = list; each != nullptr && *each != nullptr; ++each) apply(*each);
  }

 private:
  const char* from_;
  std::size_t bytes_;
  char* to_;
};

void relocate(passwd& entry, const Relocation& by) noexcept {
  for (char** const text :
       {&entry.pw_name, &entry.pw_passwd, &entry.pw_gecos, &entry.pw_dir, &entry.pw_shell})
    by.apply(*text);
}
void relocate(group& entry, const Relocation& by) noexcept {
  by.apply(entry.gr_name);
  by.apply(entry.gr_passwd);
  by.apply_to_list(entry.gr_mem);
}
void relocate(hostent& entry, const Relocation& by) noexcept {
  by.apply(entry.h_name);
  by.apply_to_list(entry.h_aliases);
  by.apply_to_list(entry.h_addr_list);
}
void relocate(servent& entry, const Relocation& by) noexcept {
  by.apply(entry.s_name);
  by.apply(entry.s_proto);
  by.apply_to_list(entry.s_aliases);
}
void relocate(protoent& entry, const Relocation& by) noexcept {
  by.apply(entry.p_name);
  by.apply_to_list(entry.p_aliases);
}

/// What a database says of something. \param ask the function that fills memory of the caller's: calls it
/// with an entry, memory, its size and a pointer to the result, and \returns 0 or an error number
template <typename Entry, typename Ask>
Entry* look_up(Place& place, const Ask& ask) {
  constexpr std::size_t bytes_first = 4096;
  constexpr std::size_t bytes_most = std::size_t{4} << 20U;
  Entry entry{};
  Entry* found = nullptr;
  std::vector<char> memory(bytes_first);
  int error = ask(entry, memory.data(), memory.size(), &found);
  while (error == ERANGE && memory.size() < bytes_most) {
    memory.resize(2 * memory.size());
    error = ask(entry, memory.data(), memory.size(), &found);
  }
  if (error != 0) errno = error;
  if (error != 0 || found == nullptr) return nullptr;
  char* const to = place.with_room_for(sizeof entry + memory.size());
  if (to == nullptr) return nullptr;
  const Relocation by(memory.data(), memory.size(), to + sizeof entry);
  std::memcpy(to + sizeof entry, memory.data(), memory.size());
  // The lists lie in what was copied, and are changed there.
  relocate(entry, by);
  return static_cast<Entry*>(std::memcpy(to, &entry, sizeof entry));
}

std::map<std::string, char*>& shared_names() {
  static auto& all = *new std::map<std::string, char*>;  // to the end of the process
  return all;
}

}  // namespace

char* shared_name(const char* text) noexcept {
  if (text == nullptr || shared_program() == nullptr) return const_cast<char*>(text);
  static std::mutex lock;
  const KeptErrno kept;
  const std::lock_guard guard(lock);
  const auto [found, is_new] = shared_names().try_emplace(text);
  if (is_new)
    found->second = static_cast<char*>(copy_for_program(found->first.c_str(), found->first.size() + 1));
  return found->second != nullptr ? found->second : const_cast<char*>(text);
}

}  // namespace craton::posix

// ---- What programs call

using craton::posix::look_up;
using craton::posix::Place;
using craton::posix::shared_name;
using craton::posix::shared_program;

namespace {

/// Of a time zone, likewise. Programs ask for the same ones again and again.
char* shared_zone(const char* text) noexcept {
  static std::array<std::atomic<char*>, 4> found_before;
  static std::atomic<std::size_t> finds{0};
  if (text == nullptr) return nullptr;
  for (const std::atomic<char*>& one : found_before) {
    char* const zone = one.load(std::memory_order_acquire);
    if (zone != nullptr && std::strcmp(zone, text) == 0) return zone;
  }
  char* const zone = shared_name(text);
  if (zone != text) found_before[++finds % found_before.size()].store(zone, std::memory_order_release);
  return zone;
}

/// localtime and gmtime have one place, asctime and ctime another.
tm* time_in_place(const tm* made) noexcept {
  static Place place;
  if (made == nullptr || shared_program() == nullptr) return const_cast<tm*>(made);
  tm copy = *made;
  copy.tm_zone = shared_zone(copy.tm_zone);
  return place.put(copy);
}

char* text_in_place(char* made) noexcept {
  static Place place;
  return place.put_text(made);
}

/// Others give numbers, tables and wide texts in place of a text.
bool is_text(nl_item item) noexcept {
  if ((item >= ABDAY_1 && item <= ERA_T_FMT) || (item >= ALTMON_1 && item <= ALTMON_12)) return true;
  constexpr std::array others{CODESET, RADIXCHAR, THOUSEP, YESEXPR, NOEXPR, CRNCYSTR};
  return std::find(others.begin(), others.end(), item) != others.end();
}

void share_zones() noexcept {
  if (shared_program() == nullptr) return;
  for (char*& zone : tzname) zone = shared_zone(zone);
}

/// Of a time in memory of the program's, as the C library has left it; null stays.
tm* with_shared_zone(tm* made) noexcept {
  if (made != nullptr && shared_program() != nullptr) made->tm_zone = shared_zone(made->tm_zone);
  return made;
}

/// mktime() and timegm(), which leave the time as it is where they fail, its zone without a value perhaps.
time_t normalise(tm* time, time_t (*real)(tm*)) noexcept {
  if (shared_program() == nullptr) return real(time);
  tm made = *time;
  made.tm_zone = nullptr;
  const time_t moment = real(&made);
  if (made.tm_zone != nullptr) *time = *with_shared_zone(&made);
  return moment;
}

/// The C library has looked at the environment, and may have found another time zone there than the last
/// time. Those of the other ranks look again only when a call says so, and localtime_r() does not.
void use_zone() noexcept {
  share_zones();
  static std::mutex lock;
  static std::string told;  // as the environment says it; with its mark, since none is not an empty one
  craton::posix::Everywhere* const others = craton::posix::everywhere_now();
  if (others == nullptr) return;
  const craton::KeptErrno kept;
  const char* const text = std::getenv("TZ");
  const std::string now = text == nullptr ? std::string() : std::string("=") + text;
  {
    const std::lock_guard guard(lock);
    if (std::exchange(told, now) == now) return;
  }
  others->make(craton::posix::Everywhere::Kind::time_zone, "", 0);
}

Place users, groups, hosts, services, protocols;

}  // namespace

void craton::posix::set_time_zone_as_told() noexcept {
  CRATON_REAL(tzset)();
  share_zones();
}

extern "C" {

// ---- Time

[[gnu::visibility("default")]] tm* localtime(const time_t* time) noexcept {
  tm* const made = CRATON_REAL(localtime)(time);
  use_zone();
  return time_in_place(made);
}
[[gnu::visibility("default")]] tm* gmtime(const time_t* time) noexcept {
  return time_in_place(CRATON_REAL(gmtime)(time));
}
[[gnu::visibility("default")]] tm* localtime_r(const time_t* time, tm* to) noexcept {
  tm* const made = CRATON_REAL(localtime_r)(time, to);
  share_zones();
  return with_shared_zone(made);
}
[[gnu::visibility("default")]] tm* gmtime_r(const time_t* time, tm* to) noexcept {
  return with_shared_zone(CRATON_REAL(gmtime_r)(time, to));
}
[[gnu::visibility("default")]] time_t mktime(tm* time) noexcept {
  const time_t moment = normalise(time, CRATON_REAL(mktime));
  use_zone();
  return moment;
}
[[gnu::visibility("default")]] time_t timelocal(tm* time) noexcept {
  return mktime(time);
}
[[gnu::visibility("default")]] time_t timegm(tm* time) noexcept {
  return normalise(time, CRATON_REAL(timegm));
}
[[gnu::visibility("default")]] char* asctime(const tm* time) noexcept {
  return text_in_place(CRATON_REAL(asctime)(time));
}
[[gnu::visibility("default")]] char* ctime(const time_t* time) noexcept {
  char* const made = CRATON_REAL(ctime)(time);
  use_zone();
  return text_in_place(made);
}
[[gnu::visibility("default")]] void tzset() noexcept {
  CRATON_REAL(tzset)();
  use_zone();
}

// ---- Numbers and names

[[gnu::visibility("default")]] char* ecvt(double value, int digits, int* point, int* sign) noexcept {
  static Place place;
  return place.put_text(CRATON_REAL(ecvt)(value, digits, point, sign));
}
[[gnu::visibility("default")]] char* fcvt(double value, int digits, int* point, int* sign) noexcept {
  static Place place;
  return place.put_text(CRATON_REAL(fcvt)(value, digits, point, sign));
}
[[gnu::visibility("default")]] char* qecvt(long double value, int digits, int* point, int* sign) noexcept {
  static Place place;
  return place.put_text(CRATON_REAL(qecvt)(value, digits, point, sign));
}
[[gnu::visibility("default")]] char* qfcvt(long double value, int digits, int* point, int* sign) noexcept {
  static Place place;
  return place.put_text(CRATON_REAL(qfcvt)(value, digits, point, sign));
}
[[gnu::visibility("default")]] char* l64a(long value) noexcept {
  static Place place;
  return place.put_text(CRATON_REAL(l64a)(value));
}
[[gnu::visibility("default")]] char* ether_ntoa(const ether_addr* address) noexcept {
  static Place place;
  return place.put_text(CRATON_REAL(ether_ntoa)(address));
}
[[gnu::visibility("default")]] char* strerror(int error) noexcept {
  return shared_name(CRATON_REAL(strerror)(error));
}
[[gnu::visibility("default")]] char* strerror_l(int error, locale_t locale) noexcept {
  return shared_name(CRATON_REAL(strerror_l)(error, locale));
}
[[gnu::visibility("default")]] char* strsignal(int signal) noexcept {
  return shared_name(CRATON_REAL(strsignal)(signal));
}
[[gnu::visibility("default")]] char* nl_langinfo(nl_item item) noexcept {
  char* const value = CRATON_REAL(nl_langinfo)(item);
  return is_text(item) ? shared_name(value) : value;
}
[[gnu::visibility("default")]] char* nl_langinfo_l(nl_item item, locale_t locale) {
  char* const value = CRATON_REAL(nl_langinfo_l)(item, locale);
  return is_text(item) ? shared_name(value) : value;
}
[[gnu::visibility("default")]] lconv* localeconv() noexcept {
  static Place place;
  const lconv* const made = CRATON_REAL(localeconv)();
  if (shared_program() == nullptr) return const_cast<lconv*>(made);
  lconv copy = *made;
  for (char** const text : {&copy.decimal_point, &copy.thousands_sep, &copy.grouping, &copy.int_curr_symbol,
                            &copy.currency_symbol, &copy.mon_decimal_point, &copy.mon_thousands_sep,
                            &copy.mon_grouping, &copy.positive_sign, &copy.negative_sign})
    *text = shared_name(*text);
  return place.put(copy);
}

// ---- Users and groups

[[gnu::visibility("default")]] passwd* getpwnam(const char* name) {
  if (shared_program() == nullptr) return CRATON_REAL(getpwnam)(name);
  return look_up<passwd>(users, [&](passwd& entry, char* memory, std::size_t bytes, passwd** found) {
    return ::getpwnam_r(name, &entry, memory, bytes, found);
  });
}
[[gnu::visibility("default")]] passwd* getpwuid(uid_t user) {
  if (shared_program() == nullptr) return CRATON_REAL(getpwuid)(user);
  return look_up<passwd>(users, [&](passwd& entry, char* memory, std::size_t bytes, passwd** found) {
    return ::getpwuid_r(user, &entry, memory, bytes, found);
  });
}
[[gnu::visibility("default")]] group* getgrnam(const char* name) {
  if (shared_program() == nullptr) return CRATON_REAL(getgrnam)(name);
  return look_up<group>(groups, [&](group& entry, char* memory, std::size_t bytes, group** found) {
    return ::getgrnam_r(name, &entry, memory, bytes, found);
  });
}
[[gnu::visibility("default")]] group* getgrgid(gid_t number) {
  if (shared_program() == nullptr) return CRATON_REAL(getgrgid)(number);
  return look_up<group>(groups, [&](group& entry, char* memory, std::size_t bytes, group** found) {
    return ::getgrgid_r(number, &entry, memory, bytes, found);
  });
}

// ---- Hosts, services, protocols

[[gnu::visibility("default")]] hostent* gethostbyname(const char* name) {
  if (shared_program() == nullptr) return CRATON_REAL(gethostbyname)(name);
  return look_up<hostent>(hosts, [&](hostent& entry, char* memory, std::size_t bytes, hostent** found) {
    return ::gethostbyname_r(name, &entry, memory, bytes, found, &h_errno);
  });
}
[[gnu::visibility("default")]] hostent* gethostbyname2(const char* name, int family) {
  if (shared_program() == nullptr) return CRATON_REAL(gethostbyname2)(name, family);
  return look_up<hostent>(hosts, [&](hostent& entry, char* memory, std::size_t bytes, hostent** found) {
    return ::gethostbyname2_r(name, family, &entry, memory, bytes, found, &h_errno);
  });
}
[[gnu::visibility("default")]] hostent* gethostbyaddr(const void* address, socklen_t length, int family) {
  if (shared_program() == nullptr) return CRATON_REAL(gethostbyaddr)(address, length, family);
  return look_up<hostent>(hosts, [&](hostent& entry, char* memory, std::size_t bytes, hostent** found) {
    return ::gethostbyaddr_r(address, length, family, &entry, memory, bytes, found, &h_errno);
  });
}
[[gnu::visibility("default")]] servent* getservbyname(const char* name, const char* protocol) {
  if (shared_program() == nullptr) return CRATON_REAL(getservbyname)(name, protocol);
  return look_up<servent>(services, [&](servent& entry, char* memory, std::size_t bytes, servent** found) {
    return ::getservbyname_r(name, protocol, &entry, memory, bytes, found);
  });
}
[[gnu::visibility("default")]] servent* getservbyport(int port, const char* protocol) {
  if (shared_program() == nullptr) return CRATON_REAL(getservbyport)(port, protocol);
  return look_up<servent>(services, [&](servent& entry, char* memory, std::size_t bytes, servent** found) {
    return ::getservbyport_r(port, protocol, &entry, memory, bytes, found);
  });
}
[[gnu::visibility("default")]] protoent* getprotobyname(const char* name) {
  if (shared_program() == nullptr) return CRATON_REAL(getprotobyname)(name);
  return look_up<protoent>(protocols,
                           [&](protoent& entry, char* memory, std::size_t bytes, protoent** found) {
                             return ::getprotobyname_r(name, &entry, memory, bytes, found);
                           });
}
[[gnu::visibility("default")]] protoent* getprotobynumber(int number) {
  if (shared_program() == nullptr) return CRATON_REAL(getprotobynumber)(number);
  return look_up<protoent>(protocols,
                           [&](protoent& entry, char* memory, std::size_t bytes, protoent** found) {
                             return ::getprotobynumber_r(number, &entry, memory, bytes, found);
                           });
}

}  // extern "C"
